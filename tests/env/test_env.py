"""`scripts/env.sh` makes an environment, keeps it, and changes it only when asked."""

import os
import subprocess
import sys

import checkout as checkouts
import pytest

MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"
# stands for scripts/conda_install.py: a prefix with a Python and pip, and the record of one package
CONDA = """
import pathlib, subprocess, sys
prefix = pathlib.Path(sys.argv[sys.argv.index("--prefix") + 1])
assert (prefix / "wellfed.json").exists()
subprocess.run([{python!r}, "-m", "venv", str(prefix)], check=True)
"""


def with_conda(checkout):
    script = checkout.folder / "scripts" / "conda_install.py"
    script.write_text(CONDA.format(python=checkouts.BASE_PYTHON))
    lock = checkout.folder / "small-conda-lock.yml"
    lock.write_text("package: []\n")
    return str(lock)


def test_it_is_made_and_marked(checkout):
    result = checkout.run()
    assert result.code == 0, result
    marker = checkout.marker()
    assert marker["state"] == "ready"
    assert (marker["format"], marker["way"], marker["torch"], marker["cuda"]) == (
        1,
        "wheels",
        "2.6.0+cu124",
        "12.4",
    )
    assert marker["python"].startswith(MINOR + ".")
    assert len(marker["lock"]) == 64
    assert checkout.installed() == ["torch-2.6.0.dist-info"]


def test_the_command_runs_from_anywhere(checkout, tmp_path):
    assert checkout.run().code == 0
    link = tmp_path / "train"
    link.symlink_to(checkout.folder / ".venv" / "bin" / "train")
    for command in (link, link.resolve()):
        output = subprocess.run(
            [command, "fit", "a b"], cwd="/", capture_output=True, text=True, timeout=180
        )
        assert output.stdout == "['fit', 'a b']\n", output


def test_again_does_nothing(checkout, tmp_path):
    assert checkout.run().code == 0
    log = checkout.folder / ".cache" / "env.log"
    log.write_text("untouched")
    checkout.server.requests.clear()
    # neither Python nor the tools can be started now
    result = checkout.run(
        PATH=checkouts.bare_path(tmp_path / "bin", "exit 9"), TOOLS="/nonexistent", PYTHON=""
    )
    assert result.code == 0, result
    assert "is ready: wheels" in result.text
    assert log.read_text() == "untouched"
    assert checkout.server.requests == []


def test_another_lock_is_brought_up_to_date_exactly(checkout):
    checkout.add_wheel("extra", "1.0", "")
    checkout.write_lock("torch==2.6.0", "extra==1.0")
    assert checkout.run().code == 0
    assert checkout.installed() == ["extra-1.0.dist-info", "torch-2.6.0.dist-info"]
    checkout.write_lock("torch==2.6.0")
    result = checkout.run()
    assert result.code == 0, result
    assert "bringing it up to date" in result.text
    assert checkout.installed() == ["torch-2.6.0.dist-info"]


def test_a_moved_checkout_is_built_again(checkout, tmp_path):
    assert checkout.run().code == 0
    checkout.folder = checkout.folder.rename(tmp_path / "moved")
    checkout.lock = checkout.folder / checkout.lock.name
    result = checkout.run()
    assert result.code == 0, result
    assert "was moved" in result.text
    assert checkout.marker()["prefix"] == str(checkout.folder / ".venv")


def test_another_way_wants_force(checkout):
    assert checkout.run().code == 0
    conda = {"ENV_FROM": "conda", "CONDA_LOCK": with_conda(checkout), "PYTHON": ""}
    result = checkout.run(**conda)
    assert result.code == 2
    assert "FORCE=1" in result.errors[0]
    assert checkout.marker()["way"] == "wheels"
    result = checkout.run(FORCE="1", **conda)
    assert result.code == 0, result
    assert (checkout.marker()["way"], checkout.marker()["state"]) == ("conda", "ready")
    # from now on the way is known
    assert "is ready: conda" in checkout.run(CONDA_LOCK=conda["CONDA_LOCK"], PYTHON="").text


def test_another_python_wants_force(checkout):
    assert checkout.run().code == 0
    file = checkout.folder / ".venv" / "wellfed.json"
    file.write_text(file.read_text().replace(f'"python": "{MINOR}.', '"python": "3.8.'))
    result = checkout.run(PYTHON=MINOR)
    assert result.code == 2
    assert "FORCE=1" in result.errors[0]


def test_a_link_is_filled_where_it_points(checkout, tmp_path):
    (checkout.folder / ".venv").symlink_to(tmp_path / "big disk")
    assert checkout.run().code == 0
    assert (tmp_path / "big disk" / "bin" / "python").exists()
    assert checkout.run("clean").code == 0
    assert (checkout.folder / ".venv").is_symlink()
    assert list((tmp_path / "big disk").iterdir()) == []


@pytest.mark.parametrize("reachable", [True, False])
def test_auto_asks_the_network_once(checkout, reachable):
    lock = with_conda(checkout)
    probe = checkout.server.url + ("/simple/torch/" if reachable else "/gone")
    result = checkout.run(
        PYTHON="", CONDA_LOCK=lock, ENV_PROBE=f"{checkout.server.url}/simple/ {probe}"
    )
    assert result.code == 0, result
    assert checkout.marker()["way"] == ("conda" if reachable else "wheels")
    reason = "index answer" if reachable else "127.0.0.1 does not answer"
    assert reason in result.text
    assert reason in checkout.marker()["reason"]
    # another answer of the network changes nothing
    again = checkout.run(PYTHON="", CONDA_LOCK=lock, ENV_PROBE=checkout.server.url)
    assert "is ready" in again.text


def test_settings_of_the_user_do_not_get_in(checkout, tmp_path):
    (tmp_path / "torch.py").write_text("raise RuntimeError('a torch from elsewhere')\n")
    (tmp_path / "pip.conf").write_text(
        "[global]\nconstraint = /nonexistent\ntarget = /nonexistent\n"
    )
    result = checkout.run(
        PYTHONPATH=str(tmp_path),
        PIP_CONFIG_FILE=str(tmp_path / "pip.conf"),
        UV_CONSTRAINT="/nonexistent",
    )
    assert result.code == 0, result


def test_clean_removes_only_what_is_ours(checkout):
    assert checkout.run().code == 0
    kept = [
        "runs/a/metrics.jsonl",
        "data/sample/x.jpg",
        ".venv-mine/pyvenv.cfg",
        "train/__init__.py",
    ]
    for name in kept:
        (checkout.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout.folder / name).touch()
    result = checkout.run("clean")
    assert result.code == 0, result
    assert "left .venv-mine" in result.text
    assert not (checkout.folder / ".venv").exists()
    assert all((checkout.folder / name).exists() for name in kept)


def test_progress_is_drawn_on_a_terminal(checkout):
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        ["bash", str(checkout.folder / "scripts" / "env.sh")],
        env=checkout.environ(TERM="xterm"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(timeout=180) == 0, shown
    assert b"Installed" in shown.split(b"3/4 packages")[1].split(b"4/4 check")[0]
    log = (checkout.folder / ".cache" / "env.log").read_text()
    assert "Installed" in log
    assert "\x1b" not in log
