"""JupyterLab as a person sees it: in Chromium, with the token, the notebook, a terminal."""

import json
import os
import subprocess

import browser
import containers
import pytest
from containers import docker, wait_for
from lab import Lab

pytestmark = pytest.mark.docker
NOTEBOOK = "notebooks/01_quickstart.ipynb"


@pytest.fixture(scope="module")
def box(image):
    options = ["-p", "127.0.0.1::8888", "--shm-size", "1g", "-e", "OMP_NUM_THREADS=1"]
    with containers.container(image, options=options) as found:
        yield found


@pytest.fixture(scope="module")
def program():
    """Chromium; as root with CI=true it is installed where it is missing."""
    if not browser.program() and os.environ.get("CI") == "true" and os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "-yq", "--no-install-recommends", "chromium"]
        subprocess.run(command, env=quiet, check=False, timeout=600, capture_output=True)
    if not browser.program():
        pytest.skip("JUPYTERLAB IS NOT TESTED IN A BROWSER: no chromium here")
    return browser.program()


@pytest.fixture
def page(program, tmp_path):
    with browser.opened(tmp_path) as found:
        yield found


@pytest.fixture
def pictures(tmp_path):
    """Where screenshots go: $SHOTS, to be looked at, else a folder that pytest forgets."""
    folder = os.environ.get("SHOTS")
    return containers.Path(folder) if folder else tmp_path


def test_it_refuses_without_the_token(box, page, pictures):
    page.go(f"http://127.0.0.1:{box.port(8888)}/lab")
    page.wait("document.querySelector('#password_input') !== null")
    assert "/login" in page.run("location.pathname")
    assert page.run("document.querySelector('.jp-LabShell') === null")
    page.photograph(pictures / "refused.png")


def test_the_notebook_runs_to_its_end_and_the_terminal_works(box, page, pictures):
    token, port = box.token(), box.port(8888)
    lab = Lab(port, token)
    page.go(f"http://127.0.0.1:{port}/lab/tree/{NOTEBOOK}?token={token}")
    page.wait("document.querySelector('.jp-Notebook .jp-Cell') !== null")
    sessions = wait_for(lambda: lab.get("/api/sessions"), "a kernel for the notebook")
    assert sessions[0]["kernel"]["name"] == "python3"
    wait_for(lambda: state(lab) == "idle", "an idle kernel")

    page.click(".lm-MenuBar-itemLabel", "Run")
    page.click(".lm-Menu-itemLabel", "Run All Cells")
    page.wait(
        "[...document.querySelectorAll('.jp-Notebook .jp-OutputArea-output')]"
        ".some(e => /top-1 \\d+% of \\d+ validation images/.test(e.textContent))",
        seconds=420,
    )
    page.wait(
        "![...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')]"
        ".some(e => e.textContent.includes('*'))"
    )
    page.photograph(pictures / "notebook.png")

    page.click(".lm-MenuBar-itemLabel", "File")
    page.click(".lm-Menu-itemLabel", "Save Notebook")
    wait_for(lambda: executed(lab), "every cell run and saved, none with an error")

    page.click(".lm-MenuBar-itemLabel", "File")
    page.click(".lm-Menu-itemLabel", "New Launcher")
    page.click('.jp-LauncherCard[title*="terminal" i]')
    page.wait("document.querySelector('.jp-Terminal .xterm-screen') !== null")
    page.click(".jp-Terminal .xterm-screen")
    page.type('python -c "import sys; print(sys.prefix)" >/workspace/typed.txt; train info\n')
    command = ["sh", "-c", "cat /workspace/typed.txt 2>/dev/null || true"]
    assert wait_for(lambda: box.exec(*command), "what was typed") == "/opt/env"
    assert "official Jupyter news" not in page.text()
    page.photograph(pictures / "terminal.png")


def state(lab) -> str:
    return lab.get("/api/sessions")[0]["kernel"]["execution_state"]


def executed(lab) -> bool:
    """Whether each code cell of the saved notebook has run; an error in one is a failure."""
    cells = lab.get(f"/api/contents/{NOTEBOOK}")["content"]["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for cell in code:
        for output in cell["outputs"]:
            assert output["output_type"] != "error", json.dumps(output)[:2000]
    return all(cell["execution_count"] for cell in code)


def test_the_notebook_is_small_and_stored_without_output():
    notebook = json.loads((containers.ROOT / NOTEBOOK).read_text(encoding="utf-8"))
    assert len(notebook["cells"]) < 25
    for cell in notebook["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_notebook_runs_without_a_browser(image):
    if browser.program():
        pytest.skip("it ran in the browser")
    command = ["run", "--rm", "--network", "none", "--shm-size", "1g", "--read-only"]
    command += ["-e", "OMP_NUM_THREADS=1"]  # two threads wait for each other on a busy machine
    command += ["--tmpfs", "/tmp", "--tmpfs", "/home/user", "--tmpfs", "/workspace:mode=1777"]
    script = (
        "cp -r /opt/wellfed/notebooks . && cd notebooks && "
        "jupyter nbconvert --to notebook --execute --output /tmp/out.ipynb 01_quickstart.ipynb"
    )
    docker(*command, image, "bash", "-c", script, seconds=300)
