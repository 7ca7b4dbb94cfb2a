"""`make lab` finds the container's JupyterLab, or starts one, and says which of the two."""

import json
import os
import shutil
import signal
import subprocess
import sys
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
# A JupyterLab that is up for a moment, and what tells which servers run.
JUPYTER = """#!/bin/sh
[ "$1" = lab ] || { [ -z "$SERVER" ] || echo "$SERVER"; exit 0; }
printf "<%s>" jupyter "$@" >called
echo "[I] see http://example.org/lab for help"
[ -z "$FAILS" ] || { echo "no such port"; exit 3; }
printf '%s\\n' "[I] Jupyter Server 2.18.2 is running at:" "[I] http://127.0.0.1:9/lab?token=t"
trap "echo ended; exit 0" TERM
for moment in $(seq ${LASTS:-3}); do sleep 0.1; done
"""
STARTED = """JupyterLab: http://127.0.0.1:9/lab?token=t
Ctrl-C ends it. What it says goes to .cache/jupyterlab.log. (make up runs it in a container.)
"""


@pytest.fixture
def lab(tmp_path):
    """A checkout whose environment and Docker only say how they were called."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "scripts" / "env.sh").write_text("#!/bin/sh\n")
    shutil.copy(ROOT / "Makefile", tmp_path)
    jupyter = tmp_path / "my env" / "bin" / "jupyter"
    docker = tmp_path / "programs" / "docker"
    for file, text in ((jupyter, JUPYTER), (docker, DOCKER)):
        file.parent.mkdir(parents=True)
        file.write_text(text)
        file.chmod(0o755)
    (jupyter.parent / "python").symlink_to(sys.executable)

    def run(*arguments, start=subprocess.run, **settings):
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MAKE", "MFLAGS")) and name not in ("DOCKER", "ARGS")
        }
        path = f"{docker.parent}:{os.environ['PATH']}"
        answers = {"DAEMON": "1", "CONTAINER": "", "SERVES": "1", **settings}
        wait = {"timeout": 60, "check": False} if start is subprocess.run else {}
        return start(
            ["make", "--no-print-directory", "lab", "VENV=my env", *arguments],
            cwd=tmp_path,
            env={**environ, "PATH": path, **answers},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **wait,
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
def test_without_one_it_starts_here_and_says_only_where(lab, tmp_path, settings):
    done = lab(**settings)
    assert (done.returncode, done.stdout, done.stderr) == (0, STARTED, "")
    called = (tmp_path / "called").read_text()
    assert called.startswith("<jupyter><lab><--ip><127.0.0.1>")
    assert ("<--allow-root>" in called) == (os.geteuid() == 0)
    log = tmp_path / ".cache/jupyterlab.log"
    assert "see http://example.org" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0, "the log holds the token"


def test_arguments_reach_jupyter_whole(lab, tmp_path):
    lab("ARGS=--no-browser --notebook-dir='a b'")
    assert (tmp_path / "called").read_text().endswith("<--no-browser><--notebook-dir=a b>")


def test_one_that_runs_in_this_folder_is_told_and_no_second_one_started(lab, tmp_path):
    server = {"root_dir": str(tmp_path), "url": "http://127.0.0.1:8889/", "token": "abc"}
    done = lab(SERVER=json.dumps(server))
    assert done.returncode == 0, done.stderr
    said, url = done.stdout.splitlines()
    assert said.startswith("JupyterLab of this folder runs already")
    assert url == "JupyterLab: http://127.0.0.1:8889/lab?token=abc"
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("server", ["{", json.dumps({"root_dir": "/", "url": "u", "token": ""})])
def test_one_of_another_folder_is_left_alone(lab, server):
    assert lab(SERVER=server).stdout == STARTED


def test_one_that_cannot_start_is_told_with_its_last_words(lab):
    done = lab(FAILS="1")
    assert (done.returncode, done.stdout) == (2, "")  # make's own code for a recipe that failed
    assert "no such port\nerror: JupyterLab ended before it could be reached (exit code 3)" in (
        done.stderr
    )


def test_ctrl_c_ends_it(lab, tmp_path):
    process = lab(LASTS="300", start=subprocess.Popen)
    assert process.stdout.readline().startswith("JupyterLab: http")
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=180)
    assert (tmp_path / ".cache/jupyterlab.log").read_text().endswith("\nended\n")


def test_a_container_without_jupyter_is_named(lab):
    done = lab(CONTAINER="true", SERVES="")
    assert done.returncode == 2
    assert "error: JupyterLab does not run here: SERVICES in .env leaves it out" in done.stderr
    assert "<jupyter>" not in done.stdout
