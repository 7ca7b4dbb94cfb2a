"""`make lab` finds the container's JupyterLab, or starts one, and says which of the two."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
URL = "http://127.0.0.1:8888/lab?token=abc"
# What a Docker client with compose answers to the questions of these scripts.
DOCKER = f"""#!/bin/sh
case "$*" in
  --version) echo 'Docker version 20.10.24, build 1' ;;
  'version --format'*) [ -n "$DAEMON" ] && echo 20.10.24 ;;
  'compose version') ;;
  compose*' ps -a -q lab') [ -z "$CONTAINER" ] || echo 4711 ;;
  inspect*4711) echo "$CONTAINER" ;;
  exec*4711*) [ -n "$SERVES" ] && echo '{URL}' ;;
  *) echo "not expected: $*" >&2; exit 9 ;;
esac
"""
HERE = "No container of this checkout runs (make up starts one), so JupyterLab starts here"


@pytest.fixture
def lab(tmp_path):
    """A checkout whose environment and Docker only say how they were called."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "scripts" / "env.sh").write_text("#!/bin/sh\necho ready\n")
    shutil.copy(ROOT / "Makefile", tmp_path)
    jupyter = tmp_path / "my env" / "bin" / "jupyter"
    docker = tmp_path / "programs" / "docker"
    for file, text in ((jupyter, '#!/bin/sh\nprintf "<%s>" jupyter "$@"\n'), (docker, DOCKER)):
        file.parent.mkdir(parents=True)
        file.write_text(text)
        file.chmod(0o755)

    def run(*arguments, **settings):
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MAKE", "MFLAGS")) and name not in ("DOCKER", "ARGS")
        }
        path = f"{docker.parent}:{os.environ['PATH']}"
        answers = {"DAEMON": "1", "CONTAINER": "", "SERVES": "1", **settings}
        return subprocess.run(
            ["make", "--no-print-directory", "lab", "VENV=my env", *arguments],
            cwd=tmp_path,
            env={**environ, "PATH": path, **answers},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_the_address_of_the_container_that_runs(lab):
    done = lab(CONTAINER="true")
    assert done.returncode == 0, done.stderr
    said, url = done.stdout.splitlines()
    assert said.startswith("The container of this checkout runs (make down ends it)")
    assert url == f"JupyterLab: {URL}"


@pytest.mark.parametrize(
    "settings", [{}, {"CONTAINER": "false"}, {"DAEMON": ""}, {"DOCKER": "/nonexistent/docker"}]
)
def test_without_one_it_starts_here_and_says_why(lab, settings):
    done = lab(**settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{HERE}, on 127.0.0.1, from my env.\nready\n")
    assert "<jupyter><lab><--ip><127.0.0.1>" in done.stdout
    assert ("<--allow-root>" in done.stdout) == (os.geteuid() == 0)
    assert done.stderr == ""


def test_arguments_reach_jupyter_whole(lab):
    done = lab("ARGS=--no-browser --notebook-dir='a b'")
    assert done.stdout.endswith("<--no-browser><--notebook-dir=a b>")


def test_a_container_without_jupyter_is_named(lab):
    done = lab(CONTAINER="true", SERVES="")
    assert done.returncode == 2
    assert "error: JupyterLab does not run here: SERVICES in .env leaves it out" in done.stderr
    assert "<jupyter>" not in done.stdout
