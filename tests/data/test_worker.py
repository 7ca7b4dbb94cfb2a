"""Workers that die, hang or raise: one clear message, soon."""

import os
import signal
import sys
import time

import pytest
import torch
from loading import Breaking, Drawing, make
from processes import wait_until, workers

from train.data import loader as loader_module
from train.data.sources.splits import open_splits
from train.data.worker import explain_death, init_worker
from train.errors import ConfigError, DataError

pytestmark = [
    pytest.mark.usefixtures("deadline", "no_child_left"),
    # torch reports a death at whatever line it happens to be: what that line had open stays open.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def die(index):
    os.kill(os.getpid(), signal.SIGKILL)


def die_with_a_lock(index):
    """Killed while looking whether the work is over, as happens once in many thousand batches."""
    frame = sys._getframe()
    while "done_event" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["done_event"]._cond.acquire()
    die(index)


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


def out_of_memory(index):
    raise RuntimeError("no room for record 7")


@pytest.mark.parametrize(
    ("deed", "message"),
    [
        (
            die,
            r"a loader worker \(process \d+\) was killed by signal Killed; most often memory",
        ),
        (die_with_a_lock, r"a loader worker \(process \d+\) was killed by signal Killed"),
        (leave, r"a loader worker \(process \d+\) exited unexpectedly; run with data\.workers=0"),
    ],
    ids=["killed", "killed with a lock", "exited"],
)
def test_a_worker_that_dies_is_named_with_what_to_do(deed, message):
    signal.setitimer(signal.ITIMER_REAL, 40, 5)
    loader = make(Breaking(30, 7, deed), 2)
    with pytest.raises(DataError, match=message):
        list(loader)
    loader.close()


def test_a_worker_killed_from_outside_ends_the_wait_at_once():
    """While the loop waits for a batch that never comes, or somewhere else in the program."""
    loader = make(Breaking(300, 299, hang), 1, train=False)
    loader.start()
    (pid,) = workers()

    def kill_in_the_middle():
        for batch in loader:
            if batch.samples_seen == 50:
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: False, 20)

    signal.setitimer(signal.ITIMER_REAL, 60, 5)
    with pytest.raises((DataError, RuntimeError)) as stop:  # the death may show at either line
        kill_in_the_middle()
    loader.close()
    found = stop.value if isinstance(stop.value, DataError) else explain_death(stop.value)
    assert isinstance(found, DataError)
    assert f"process {pid}" in str(found)


@pytest.mark.slow
def test_a_worker_that_is_stuck_ends_the_run_and_is_killed(monkeypatch):
    monkeypatch.setattr(loader_module, "STALL_S", 1)
    loader = make(Breaking(10, 7, hang), 1, train=False)
    with pytest.raises(DataError, match="a worker is stuck, most often on a disk"):
        list(loader)
    assert workers() == []


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize(
    ("deed", "kind", "message"),
    [
        (wrong_value, ValueError, "record 7 has no colour"),
        (wrong_key, KeyError, "7"),
        (wrong_config, ConfigError, "data.colour must be a colour"),
        (out_of_memory, RuntimeError, "no room for record 7"),
    ],
    ids=["value", "key", "config", "runtime"],
)
def test_an_error_of_a_source_keeps_its_type_and_message(deed, kind, message, count):
    loader = make(Breaking(20, 7, deed), count)
    with pytest.raises(kind, match=message):
        list(loader)
    loader.close()


@pytest.mark.parametrize("count", [0, 2])
def test_a_folder_in_which_everything_is_bad_ends_with_a_message(tmp_path, count):
    (tmp_path / "cat").mkdir()
    for number in range(20):
        (tmp_path / "cat" / f"{number}.jpg").write_bytes(b"?")
    loader = make(open_splits(str(tmp_path), 0.1, 42).train, count)
    with pytest.raises(DataError, match=r"substitutes in a row were bad too.*'cat/\d+\.jpg'"):
        list(loader)
    loader.close()


def test_other_errors_are_passed_on_as_they_are():
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    assert explain_death(error) is error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "DataLoader worker (pid 123) is killed by signal: Bus error. It is possible that ...",
            r"process 123\) was killed by signal Bus error; .*/dev/shm is full",
        ),
        (
            "DataLoader worker (pid 9) is killed by signal: Segmentation fault. ",
            r"process 9\) was killed by signal Segmentation fault; run with data.workers=0",
        ),
        ("DataLoader worker (pid(s) 7, 8) exited unexpectedly", r"process 7, 8\) exited unexp"),
        ("DataLoader worker (pid 7) exited unexpectedly with exit code 3. Details", r"process 7\)"),
        ("DataLoader timed out after 300 seconds", "no batch came for 300 s"),
    ],
    ids=["bus", "segmentation", "several", "exited", "silent"],
)
def test_what_torch_says_of_a_death_is_put_in_plain_words(text, message):
    with pytest.raises(DataError, match=message):
        raise explain_death(RuntimeError(text))


class Reporting(Drawing):
    """Its records say what a worker is set up with: threads, and how it takes two signals."""

    def __getitem__(self, index):
        ignored = [signal.getsignal(s) == signal.SIG_IGN for s in (signal.SIGINT, signal.SIGTERM)]
        assert os.environ["OMP_NUM_THREADS"] == "1"
        assert ignored == [True, True]
        assert torch.get_num_threads() == 1
        return super().__getitem__(index)


def test_a_worker_has_one_thread_and_leaves_signals_to_the_parent():
    assert len(list(make(Reporting(10), 1, epochs=1))) == 2
    assert callable(init_worker)
