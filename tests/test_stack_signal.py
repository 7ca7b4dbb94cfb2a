"""SIGUSR2 of a training process: where it and its workers stand, on stderr; the run goes on."""

import io
import os
import signal
import sys
import threading

import pytest

from train.data.stacks import SIGNAL
from train.stack_signal import stacks_on_signal


class Loader:
    """Has one worker."""

    @property
    def account(self):
        return self

    def stacks(self):
        return [("worker 0 (process 17, asleep)", '  File "x.py", line 3 in read')]


@pytest.fixture
def ignored():
    """What the signal does before and after; it would end the tests."""
    before = signal.signal(SIGNAL, signal.SIG_IGN)
    yield
    assert signal.getsignal(SIGNAL) == signal.SIG_IGN
    signal.signal(SIGNAL, before)


def test_both_stacks_are_told(ignored, capfd, monkeypatch):
    with open(os.dup(2), "w") as real:
        monkeypatch.setattr(sys, "stderr", real)
        with stacks_on_signal([Loader()]):
            os.kill(os.getpid(), SIGNAL)
        os.kill(os.getpid(), SIGNAL)  # nobody listens any more
    told = capfd.readouterr().err
    assert told.count("in test_both_stacks_are_told") == 1
    assert told.endswith('worker 0 (process 17, asleep):\n  File "x.py", line 3 in read\n')


def test_a_stderr_that_is_no_file_gets_the_workers_alone(ignored, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with stacks_on_signal([Loader()]):
        os.kill(os.getpid(), SIGNAL)
    assert sys.stderr.getvalue().startswith("worker 0 (process 17, asleep):\n")


def test_in_a_thread_nothing_is_answered(ignored):
    done = []

    def run():
        with stacks_on_signal([Loader()]):
            done.append(signal.getsignal(SIGNAL))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [signal.SIG_IGN]
