"""SIGTERM and Ctrl-C save at the next step; nobody is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_run import ROOT, arguments, assert_same_weights, fit, make_images, start


def members(session: int) -> list:
    """Processes of a session that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(path.name))
        except (OSError, IndexError):
            continue
    return found


def wait_until(condition, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), train=30)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """A run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert fit(*arguments(data, folder, data__batch_size=4, optim__epochs=3)) == 0
    return folder


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGUSR1, 138)]
)
def test_a_signal_to_the_whole_group_saves_and_resumes(tmp_path, data, whole, signum, code):
    words = arguments(data, tmp_path / "cut", data__workers=2, data__batch_size=4, optim__epochs=3)
    run = start(words)
    try:
        # after the first epoch's checkpoint, so that it is caught in the middle of training
        assert wait_until(lambda: (tmp_path / "cut/checkpoints/last.pt").exists())
        os.killpg(run.pid, signum)  # workers get it too, as from a terminal or a scheduler
        output, _ = run.communicate(timeout=180)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    assert run.returncode == code, output
    last = output.splitlines()[-1]  # the command that goes on, as make or as python
    assert "RESUME=" in last or "--run.resume" in last
    assert last.endswith(str(tmp_path / "cut"))
    assert "Traceback" not in output
    assert wait_until(lambda: members(run.pid) == [], 10)
    assert fit("fit", f"--run.resume={tmp_path / 'cut'}") == 0
    assert_same_weights(tmp_path / "cut", whole)


def test_a_closed_pipe_does_not_end_the_run(tmp_path, data):
    words = arguments(data, tmp_path / "run", data__batch_size=8, optim__epochs=2)
    run = start(words)
    run.stdout.close()  # as `train fit | head` does
    try:
        assert run.wait(timeout=90) == 0
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 2


def test_a_killed_run_leaves_no_worker(tmp_path, data):
    run = start(
        arguments(data, tmp_path / "run", data__workers=2, data__batch_size=4, optim__epochs=50)
    )
    try:
        assert wait_until(lambda: (tmp_path / "run/checkpoints/last.pt").exists())
        assert len(members(run.pid)) == 4  # itself, two workers for training, one for validation
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        assert wait_until(lambda: members(run.pid) == [], 10)
    finally:
        for pid in members(run.pid):
            os.kill(pid, signal.SIGKILL)
        run.communicate(timeout=180)


def test_a_second_signal_ends_at_once(tmp_path):
    """The handler alone: in a run the second signal could come after the save is through."""
    code = (
        "import os, signal, time\n"
        "from train.signals import StopRequest\n"
        "with StopRequest(print) as stop:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    assert stop.signum == signal.SIGTERM\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(30)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], timeout=180, capture_output=True, text=True)
    assert done.returncode == 143
    assert "saving at the next step" in done.stdout or done.stdout == ""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_worker_is_forked_waits_until_it_can_be_raised(signum):
    """In what is called at a fork Python prints a traceback of what is raised, and drops it."""
    code = f"""
import multiprocessing, os
from train.errors import Interrupted
from train.signals import StopAtOnce

os.register_at_fork(before=lambda: os.kill(os.getpid(), {int(signum)}) or sum(range(9)))
try:
    with StopAtOnce() as stop:
        child = multiprocessing.get_context("fork").Process(target=int)
        child.start()
        child.join(20)
        stop.look()
        print("not told")
except Interrupted as error:
    print("told", error.signum)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert (done.returncode, done.stdout) == (0, f"told {int(signum)}\n")
    assert done.stderr == ""
