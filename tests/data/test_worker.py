"""Workers that die, hang or raise: one clear message, soon."""

import mmap
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import traceback

import processes
import pytest
import torch
from loading import KINDS, Breaking, Drawing, digest, make
from processes import wait_until, workers

from train.data import processes as processes_module
from train.data import threads, worker
from train.data.sources.splits import open_splits
from train.errors import ConfigError, DataError
from train.machine import Measure

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")


def die(index):
    os.kill(os.getpid(), signal.SIGKILL)


def leave(index):
    os._exit(3)


def hang(index):
    time.sleep(1000)


def wrong_value(index):
    raise ValueError(f"record {index} has no colour")


def wrong_key(index):
    raise KeyError(index)


def wrong_config(index):
    raise ConfigError("data.colour must be a colour")


class OddError(Exception):
    """It can't be made again from its arguments: what comes out of a worker is another type."""

    def __init__(self, one, two):
        super().__init__(f"no {one} and no {two}")


def odd_error(index):
    raise OddError("colour", "taste")


def out_of_memory(index):
    raise RuntimeError("no room for record 7")


def crash(index):
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # pytest's faulthandler would write a page
    os.kill(os.getpid(), signal.SIGSEGV)


def read_behind_the_end(index):
    """What a truncated file does to a library that maps it into memory."""
    signal.signal(signal.SIGBUS, signal.SIG_DFL)
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        memory[0]


KILLED = r"was killed by signal Killed at sample '7'; most often memory"
DEATHS = [
    (die, "fork", KILLED),
    (crash, "fork", r"was killed by signal Segmentation fault at sample '7'; a library crashed"),
    (read_behind_the_end, "fork", r"was killed by signal Bus error at sample '7'; a file was cut"),
    (leave, "fork", r"exited unexpectedly with code 3 at sample '7'; run with data\.workers=0"),
    pytest.param(die, "forkserver", KILLED, marks=pytest.mark.slow),
    pytest.param(die, "spawn", KILLED, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("deed", "method", "message"), DEATHS)
def test_a_worker_that_dies_is_named_with_its_sample_and_what_to_do(deed, method, message):
    """Soon, however it was started: the deadline is shorter than the wait for silent workers."""
    loader = make(Breaking(30, 7, deed), 2, method)
    with pytest.raises(DataError, match=r"a loader worker \(process \d+\) " + message):
        list(loader)
    loader.close()


def test_a_worker_killed_from_outside_ends_the_wait_at_once():
    loader = make(Breaking(300, 299, hang), 1, train=False)
    loader.start()
    (pid,) = workers()
    batches = iter(loader)
    next(batches)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(DataError, match=rf"process {pid}\) was killed by signal Killed"):
        list(batches)
    loader.close()


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_worker_that_is_stuck_ends_the_run_with_its_sample(monkeypatch, kind):
    monkeypatch.setattr(worker, "STALL_S", 0.5)
    monkeypatch.setattr(threads, "JOIN_S", 0.1)
    disk = threading.Event()  # answers when the test is over: a thread can't be killed
    loader = make(Breaking(10, 7, lambda index: disk.wait(100)), 1, train=False, kind=kind)
    with pytest.raises(DataError, match="a worker is stuck at sample '7', most often on a disk"):
        list(loader)
    loader.close()
    assert workers() == []
    disk.set()
    assert wait_until(lambda: processes.threads() == [])


@pytest.mark.parametrize(("count", "kind"), KINDS)
@pytest.mark.parametrize(
    ("deed", "error", "message"),
    [
        (wrong_value, ValueError, r"^record 7 has no colour \(at sample '7'\)$"),
        (wrong_key, KeyError, "^7$"),
        (wrong_config, ConfigError, r"^data.colour must be a colour \(at sample '7'\)$"),
        (out_of_memory, RuntimeError, r"^no room for record 7 \(at sample '7'\)$"),
        (odd_error, (OddError, RuntimeError), "no colour and no taste"),
    ],
    ids=["value", "key", "config", "runtime", "odd"],
)
def test_an_error_of_a_source_keeps_its_type_and_tells_its_sample(
    deed, error, message, count, kind
):
    loader = make(Breaking(20, 7, deed), count, kind=kind)
    with pytest.raises(error, match=message) as caught:
        list(loader)
    loader.close()
    told = "".join(traceback.format_exception(None, caught.value, caught.value.__traceback__))
    assert "at sample '7'" in told
    assert deed.__name__ in told


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_a_folder_in_which_everything_is_bad_ends_with_a_message(tmp_path, count, kind):
    (tmp_path / "cat").mkdir()
    for number in range(20):
        (tmp_path / "cat" / f"{number}.jpg").write_bytes(b"?")
    loader = make(open_splits(str(tmp_path), 0.1, 42).train, count, kind=kind)
    with pytest.raises(DataError, match=r"substitutes in a row were bad too.*'cat/\d+\.jpg'"):
        list(loader)
    loader.close()


@pytest.mark.parametrize(
    ("code", "sample", "through_shm", "message"),
    [
        (-7, "", True, r"process 5\) was killed by signal Bus error; most often /dev/shm is full"),
        (-7, "'a.jpg'", False, r"signal Bus error at sample 'a\.jpg'; a file was cut off"),
        (-64, "", False, r"was killed by signal .*; run with data\.workers=0 to see its error"),
        (1, "", False, r"exited unexpectedly with code 1; run with data\.workers=0"),
    ],
)
def test_a_death_in_plain_words(code, sample, through_shm, message):
    with pytest.raises(DataError, match=message):
        raise worker.death(5, code, sample, through_shm)


def test_a_kill_that_the_kernel_counted_names_the_limit(monkeypatch):
    counts = iter([4, 5])
    monkeypatch.setattr(processes_module, "oom_kills", lambda: Measure("", next(counts), ""))
    limit = Measure("memory", 2 << 30, "cgroup v2 limit (/sys/fs/cgroup/memory.max)")
    monkeypatch.setattr(processes_module, "memory_limit_bytes", lambda: limit)
    loader = make(Breaking(30, 7, die), 1)
    message = r"memory ran out: the limit is 2\.0 GiB \(cgroup v2 limit .*memory\.max\)\); lower"
    with pytest.raises(DataError, match=message):
        list(loader)
    loader.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_data_set_that_does_not_pickle_is_refused_with_what_to_do(method):
    with pytest.raises(ConfigError, match=r"can't be sent to a worker process: .*lambda"):
        make(Breaking(30, 7, lambda index: None), 1, method).start()
    assert workers() == []


class Reporting(Drawing):
    """Its records say what a worker is set up with: threads, and how it takes two signals."""

    def __getitem__(self, index):
        ignored = [signal.getsignal(s) == signal.SIG_IGN for s in (signal.SIGINT, signal.SIGTERM)]
        assert os.environ["OMP_NUM_THREADS"] == "1"
        assert ignored == [True, True]
        assert torch.get_num_threads() == 1
        return super().__getitem__(index)


def test_a_worker_has_one_thread_and_leaves_signals_to_the_parent():
    loader = make(Reporting(10), 1, epochs=1)
    assert len(list(loader)) == 2
    loader.close()


def test_a_worker_that_hangs_in_its_fork_is_forked_again(monkeypatch, capsys):
    begun = multiprocessing.get_context("fork").Value("i", 0)
    real = worker.init_worker

    def init(number):
        begun.value += number == 1
        if number == 1 and begun.value == 1:
            signal.pause()  # as on a lock that no thread of the child will ever release
        real(number)

    monkeypatch.setattr(worker, "init_worker", init)
    monkeypatch.setattr(processes_module, "BEGIN_S", 0.3)
    loader = make(Drawing(40), 2, epochs=1)
    again = [digest(batch) for batch in loader]
    loader.close()
    assert begun.value == 2
    assert capsys.readouterr().out.count("was forked again") == 1
    assert again == [digest(batch) for batch in make(Drawing(40), 0, epochs=1)]
