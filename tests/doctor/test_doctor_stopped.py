"""Ctrl-C and SIGTERM in the middle of `train doctor`: one line, and nobody left behind."""

import os
import signal

import pytest
import small_run


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_nothing_left_behind(signum, tmp_path, no_child_left, deadline):
    (tmp_path / "own.py").write_text(
        "import time\n\n\n"
        "class Slow:\n"
        "    def __len__(self):\n"
        "        return 8\n\n"
        "    def __getitem__(self, index):\n"
        "        print('reading', flush=True)\n"
        "        time.sleep(60)\n\n\n"
        "def make():\n"
        "    return Slow()\n"
    )
    words = ["doctor", "--dataset=own:make", "--accelerator=sim:1000"]
    child = small_run.start(words, {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"})
    for line in child.stdout:
        if "reading" in line:  # in a forked child
            os.killpg(child.pid, signum)
            break
    rest = child.stdout.read()
    assert child.wait(30) == 128 + signum
    assert f"{signum.name}: stopped; nothing is kept" in rest
    assert "Traceback" not in rest
    child.stdout.close()
