"""A project made from the template: named, with a model and data of its own, tested, trained."""

import json
import os
import re
import subprocess

import pytest
from instances import ROOT, copy_of_the_template, git, lend_environment

pytestmark = pytest.mark.slow

NAME = "born-yesterday"
# What a project's own changes reach first. All of `make test` would be this suite once more.
PART = (
    "tests/docs/test_docs.py tests/docs/test_repository.py tests/docs/test_hosted.py"
    " tests/test_config.py tests/test_model.py tests/env/test_locks.py"
    " -k 'not examples_run and not help'"
)


def make(folder, *words):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "PYTEST"))}
    for name in ("ENV_FROM", "PYTHON", "TORCH", "VENV", "TOOLS"):
        env.pop(name, None)
    done = subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def files_of_the_readme():
    """The files of one's own that the README shows: name and text."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n# tested\n# (mypkg/\S+)\n(.*?)^```$", text, re.M | re.S)
    assert [name for name, _ in found] == ["mypkg/models.py", "mypkg/data.py"]
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A clone that was named and got code of its own, as the README shows it."""
    folder = copy_of_the_template(tmp_path_factory.mktemp("instance") / "project")
    lend_environment(folder)
    make(folder, "init", f"NAME={NAME}", "ENV_FROM=wheels")
    (folder / "mypkg").mkdir()
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for name, text in files_of_the_readme():
        (folder / name).write_text(text)
        line = f"{name:<37}our own\n"
        readme = readme.replace("configs/sample.yaml  ", f"{line}configs/sample.yaml  ", 1)
    (folder / "README.md").write_text(readme, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Our own")
    return folder


def test_its_tests_pass(project):
    said = make(project, "test", f"ARGS=-q -p no:cacheprovider {PART}")
    assert ".venv is ready: wheels" in said, "the lent environment was taken for another one"
    assert re.search(r"^(\d+) passed", said.splitlines()[-1]), said
    assert int(said.splitlines()[-1].split()[0]) > 60


def test_it_trains_its_own_model_on_its_own_data(project):
    settings = "--model.name mypkg.models:tiny --data.image_size 32 --optim.epochs 3"
    assert f'make train DATA=mypkg.data:Squares ARGS="{settings}"' in (
        (project / "README.md").read_text(encoding="utf-8")
    )
    said = make(
        project,
        "train",
        "DATA=mypkg.data:Squares",
        f"ARGS={settings} --data.workers 1 --run.device cpu",
    )
    assert "180 training and 20 validation images, 2 classes: dark, bright" in said
    (run,) = (project / "runs").iterdir()
    assert run.name.startswith("mypkg.data-Squares-mypkg.models-tiny-")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 3
    assert rows[-1]["val_top1"] == 1.0, "dark and bright are easy to tell"
    assert rows[-1]["bad_samples"] == 0
