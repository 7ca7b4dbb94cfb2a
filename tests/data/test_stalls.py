"""A batch that does not come: which worker, which sample, which line; then the run goes on."""

import multiprocessing
import os
import signal
import threading
import time

import pytest
from loading import Breaking, Drawing, make
from processes import wait_until, workers

from train.data import stacks, stalls
from train.data.watch import Maker, Watch, Work

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")


def doze(index):
    """A disk that answers late."""
    time.sleep(0.8)


def stop(index):
    os.kill(os.getpid(), signal.SIGSTOP)


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(stalls, "NOTE_S", 0.2)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("process", "fork"),
        ("thread", "fork"),
        pytest.param("process", "forkserver", marks=pytest.mark.slow),
        pytest.param("process", "spawn", marks=pytest.mark.slow),
    ],
)
def test_a_stall_names_worker_sample_and_line_and_the_run_goes_on(soon, capsys, kind, method):
    loader = make(Breaking(10, 7, doze), 1, method, train=False, kind=kind, epochs=1)
    assert len(list(loader)) == 2
    loader.close()
    told = capsys.readouterr().out
    assert "note: no batch for 0." in told
    assert "the run waits on" in told
    lines = told.splitlines()
    first = next(n for n, line in enumerate(lines) if "is reading sample '7' for" in line)
    assert lines[first].startswith(f"  worker 0 ({kind} ")
    assert f'File "{__file__}", line' in lines[first + 1]
    assert lines[first + 1].endswith("in doze")
    assert "note: the batch came after" in told


def test_workers_that_are_slow_are_not_called_stuck(soon, capsys):
    loader = make(Slow(10), 1, train=False, epochs=1)
    list(loader)
    loader.close()
    told = capsys.readouterr().out
    assert "none is stuck: they go on from sample to sample, but slowly" in told
    assert "File" not in told


class Slow(Drawing):
    """Each sample takes some time, a batch of five takes more than the patience."""

    def __getitem__(self, index):
        time.sleep(0.08)
        return super().__getitem__(index)


def test_nothing_is_said_when_batches_come(capsys):
    loader = make(Drawing(20), 1, epochs=1)
    list(loader)
    loader.close()
    assert capsys.readouterr().out == ""


def test_a_worker_that_is_stopped_does_not_answer(soon, capsys, monkeypatch):
    monkeypatch.setattr(stacks, "ANSWER_S", 0.1)
    loader = make(Breaking(10, 7, stop), 1, train=False, epochs=1)
    loader.start()
    (pid,) = workers()
    timer = threading.Timer(0.6, os.kill, (pid, signal.SIGCONT))
    timer.start()
    list(loader)
    timer.join()
    loader.close()
    told = capsys.readouterr().out
    assert f"worker 0 (process {pid}, stopped by a signal) is reading sample '7' for" in told
    assert stacks.NO_ANSWER in told


def test_a_process_that_is_gone_is_told():
    box = stacks.StackFile()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert box.ask(child) == "  it is gone"
    assert stacks.process_state(child) == ""
    box.close()
    assert box.ask(os.getpid()) == stacks.NO_ANSWER


def test_stacks_of_all_workers_at_any_time():
    gate = multiprocessing.Event()

    def held(index):
        gate.wait(60)

    loader = make(Breaking(10, 0, held), 1, train=False, epochs=1)
    loader.start()
    assert wait_until(lambda: any(place.sample == 0 for place in loader.account.places()))
    # the sample is noted before its record is read, where the worker may still be
    assert wait_until(lambda: "in held" in loader.account.stacks()[0][1])
    ((title, _),) = loader.account.stacks()
    assert title.startswith("worker 0 (process ")
    gate.set()
    list(loader)
    loader.close()


def test_the_names_of_many_stuck_workers_are_cut(monkeypatch):
    watch = Watch(7, shared=False)
    for number in range(7):
        cell = watch.cell(number)
        cell[0], cell[1], cell[2] = 10 + number, 1, 1
    said = []
    monkeypatch.setattr(stalls, "_say", said.append)
    monkeypatch.setattr(stalls, "NOTE_S", 0.0)
    patience = stalls.Patience(None, watch, lambda place: "thread", lambda place: "  here", 99.0)
    patience.look()
    (text,) = said
    assert text.count("is making sample") == 4
    assert "and 3 more workers" in text


# what their time goes to


class Clockwork:
    """A data set of whole batches that reads two samples, each in 3 ticks, and makes them in 5."""

    def __init__(self, clock):
        self.source, self.clock = self, clock

    def __getitem__(self, index):
        self.clock[0] += 3
        return index

    def __getitems__(self, request):
        for index in request:
            self.source[index]
            self.clock[0] += 5
        return request


def test_time_is_split_into_reading_and_making(monkeypatch):
    clock = [10**9]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    watch = Watch(1, shared=False)
    make_batch = Maker(Clockwork(clock), None, watch.cell(0))
    make_batch([4, 7])
    clock[0] += 100  # between two batches: counts nowhere
    make_batch([1])
    work = watch.work()
    assert work == Work(9 / 1e9, 15 / 1e9, 2)
    assert watch.places()[0].sample is None


@pytest.mark.parametrize(("count", "kind"), [(0, "process"), (2, "process"), (2, "thread")])
def test_a_loader_sums_up_over_its_passes(count, kind):
    loader = make(Drawing(20), count, kind=kind, epochs=3)
    before = loader.account.spent()
    assert before == (0, 0, 0, 0)
    for _ in range(3):
        list(loader)
        after = loader.account.spent()
        assert after.read_s > before.read_s
        assert after.make_s > before.make_s
        assert after.wait_s > before.wait_s
        before = after
    loader.close()
    assert loader.account.spent() == before  # what was done stays known


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_the_queue_fills_while_nobody_asks(kind):
    loader = make(Drawing(40), 2, kind=kind, epochs=1)
    assert loader.account.queue() == (0, 0, 0, 0)
    loader.start()
    assert wait_until(lambda: loader.account.queue().ready == 4)
    assert loader.account.queue() == (4, 4, 6, 2)
    list(loader)
    assert loader.account.queue().ready == 0
    loader.close()
    assert loader.account.queue().asked == 0


def test_a_worker_that_stands_between_two_samples_is_told(soon, capsys, monkeypatch):
    monkeypatch.setattr(stacks, "ANSWER_S", 0.1)
    loader = make(Drawing(20), 1, train=False, epochs=1)
    loader.start()
    (pid,) = workers()
    assert wait_until(lambda: loader.account.queue().ready == 2)
    os.kill(pid, signal.SIGSTOP)
    timer = threading.Timer(0.8, os.kill, (pid, signal.SIGCONT))
    timer.start()
    assert len(list(loader)) == 4
    timer.join()
    loader.close()
    told = capsys.readouterr().out
    assert f"worker 0 (process {pid}, stopped by a signal) is at no sample" in told
    assert stacks.NO_ANSWER in told


def test_a_worker_that_has_not_begun_is_told(soon, capsys):
    watch = Watch(1, shared=True)
    patience = stalls.Patience(None, watch, lambda place: "process 7", None, end_s=60)
    time.sleep(0.25)
    patience.look()
    told = capsys.readouterr().out
    assert "worker 0 (process 7) has not begun: it still starts" in told
    assert "none is stuck" not in told
    watch.close()
