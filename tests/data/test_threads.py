"""Worker threads: they end with the loader and with the program, whatever they are at."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from loading import Breaking, Drawing, make
from processes import threads, wait_until

from train.data.watch import Maker, Noted, Stopped, Watch

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")
ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
from loading import Breaking, make
from train.data import threads

def main():
    threads.JOIN_S = 0.5
    hang = lambda index: time.sleep(1000)
    loader = make(Breaking(300, {at}, hang), 2, train=False, kind="thread")
    iterator = iter(loader)
    next(iterator)
    print("ready", flush=True)
    {then}

main()
"""


def run(tmp_path, then, at=-1, interrupt=False):
    """Run a program to its end: exit code and what it wrote."""
    script = tmp_path / "program.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), then=then, at=at))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        if interrupt:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=180)
        return process.returncode, errors
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("then", "code"),
    [("sys.exit(5)", 5), ("sys.last_value = iterator; 1 / 0", 1), ("pass", 0)],
    ids=["exit", "error", "end"],
)
def test_a_program_that_ends_in_the_middle_of_an_epoch(tmp_path, then, code):
    returned, errors = run(tmp_path, then)
    assert returned == code
    assert "Fatal Python error" not in errors
    assert ("ZeroDivisionError" in errors) == (code == 1)


def test_a_thread_that_hangs_does_not_keep_the_program(tmp_path):
    assert run(tmp_path, "time.sleep(0.3)", at=12) == (0, "")


def test_ctrl_c_while_waiting_for_a_batch(tmp_path):
    """The third batch never comes."""
    returned, errors = run(tmp_path, "list(iterator)", at=12, interrupt=True)
    assert returned == -signal.SIGINT
    assert errors.strip().endswith("KeyboardInterrupt")
    assert "Fatal" not in errors


def test_the_end_comes_after_the_sample_and_not_after_the_batch():
    """The first batch is made; then both threads are held at the first sample of another one."""
    begun, gate = [], threading.Semaphore(0)

    class Gated(Drawing):
        def __getitem__(self, index):
            begun.append(index)
            if index >= 5:
                gate.acquire(timeout=180)
            return super().__getitem__(index)

    loader = make(Gated(40), 2, kind="thread", train=False)
    iterator = iter(loader)
    assert next(iterator).indices.tolist() == [0, 1, 2, 3, 4]
    assert wait_until(lambda: len(begun) == 7)
    timer = threading.Timer(0.3, gate.release, [2])
    timer.start()
    iterator.close()
    timer.join()
    assert threads() == []
    assert len(begun) == 7
    loader.close()


def test_a_loader_that_is_forgotten_ends_its_threads():
    loader = make(Drawing(30), 2, kind="thread")
    list(loader)
    assert len(threads()) == 2
    del loader
    assert threads() == []


def test_threads_and_forked_workers_side_by_side():
    """Threads run while processes are forked, as in two loaders of one program."""
    one, two = make(Drawing(60), 2, kind="thread", train=False), make(Drawing(60), 2, train=False)
    pairs = [(a.labels.tolist(), b.labels.tolist()) for a, b in zip(one, two)]
    one.close()
    two.close()
    assert len(pairs) == 12
    assert all(a == b for a, b in pairs)


def test_an_error_in_one_thread_ends_the_pass_and_a_new_pass_is_possible():
    errors = [ValueError("once")]

    def once(index):
        if errors:
            raise errors.pop()

    loader = make(Breaking(30, 7, once), 2, kind="thread", train=False)
    with pytest.raises(ValueError, match="once"):
        list(loader)
    assert threads() == []
    assert sum(len(batch.labels) for batch in loader) == 25  # from where it stood
    loader.close()


class Reading:
    """A data set that reads one record for each index."""

    ring = None

    def __init__(self, source):
        self.source = source

    def __getitems__(self, request):
        return [self.source[index].label for index in request]


def test_a_maker_leaves_the_data_set_as_it_is():
    dataset, cell = Reading(Drawing(9)), Watch(1, shared=False).cell(0)
    assert Maker(dataset, "the ring", cell)([3, 4]) == [3, 4]
    assert dataset.ring is None
    assert isinstance(dataset.source, Drawing)
    assert cell[0] == 0


def test_a_source_that_notes_is_still_the_source():
    watch, stop = Watch(3, shared=True), threading.Event()
    noted = Noted(Drawing(9), watch.cell(1), stop)
    assert (len(noted), noted.key(2), noted[4].key) == (9, "2", "4")
    assert np.array_equal(noted.labels, np.arange(9))
    assert [watch.index(worker) for worker in range(3)] == [None, 4, None]
    stop.set()
    with pytest.raises(Stopped):
        noted[5]
    watch.close()


def test_waiting_costs_no_cpu():
    """Threads that have nothing to do sleep; so does a caller whose batch is not ready."""
    release = threading.Event()
    loader = make(Breaking(30, 0, lambda index: release.wait(30)), 2, kind="thread", train=False)
    loader.start()
    timer = threading.Timer(1.0, release.set)
    timer.start()
    before = time.process_time()
    iterator = iter(loader)
    next(iterator)
    used = time.process_time() - before
    timer.join()
    iterator.close()
    loader.close()
    assert used < 0.9  # of at least one second of waiting
