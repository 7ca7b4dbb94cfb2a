"""Workers that die, hang or raise, and programs that end: a clear message, and nothing stays behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from loading import Breaking, Drawing, make
from processes import alive, wait_until, workers

from train.data import loader as loader_module
from train.data.sources.splits import open_splits
from train.data.worker import explain_death, init_worker
from train.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")
ROOT = Path(__file__).parents[2]


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


def out_of_memory(index):
    raise RuntimeError("no room for record 7")


@pytest.mark.parametrize(
    ("deed", "message"),
    [
        (die, r"a loader worker \(process \d+\) was killed by signal Killed; most often memory ran out"),
        (leave, r"a loader worker \(process \d+\) exited unexpectedly; run with data\.workers=0"),
    ],
    ids=["killed", "exited"],
)
def test_a_worker_that_dies_is_named_with_what_to_do(deed, message):
    loader = make(Breaking(30, 7, deed), 2)
    with pytest.raises(DataError, match=message):
        list(loader)
    loader.close()


def test_a_worker_killed_from_outside_ends_the_wait_at_once():
    """While the loop waits for a batch that never comes, or somewhere else in the program."""
    loader = make(Breaking(300, 299, hang), 1, train=False)
    loader.start()
    (pid,) = workers()
    begin = time.monotonic()
    with pytest.raises((DataError, RuntimeError)) as stop:  # noqa: PT012  the death may show at either line
        for batch in loader:
            if batch.samples_seen == 50:
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: False, 20)
    loader.close()
    assert time.monotonic() - begin < 20
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


SCRIPT = """
import os, sys, time
from train.config import DataConfig
from train.data import build_loader
from train.data.settings import LoaderSettings
from train.data.sources.splits import open_splits

def main():
    settings = LoaderSettings(2, 2, 2, 2, False, {method!r}, [], [])
    source = open_splits({path!r}, 0.1, 42).train
    loader = build_loader(source, DataConfig(batch_size=2, image_size=16), settings, True, 42)
    iterator = iter(loader)
    next(iterator)
    print(*[worker.pid for worker in list(loader_streams())[0]._workers], flush=True)
    {then}

def loader_streams():
    from train.data import loader
    return loader._open_streams

if __name__ == "__main__":
    main()
"""


def start(tmp_path, tree, method, then):
    """Run a program that loads data; its process and the ids of its workers."""
    script = tmp_path / "program.py"
    script.write_text(SCRIPT.format(method=method, path=str(tree), then=then))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, [int(pid) for pid in process.stdout.readline().split()]


def finish(process, pids):
    for pid in [process.pid, *pids]:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=30)


@pytest.mark.parametrize("method", ["fork", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_when_the_program_is_killed_its_workers_end_too(tmp_path, tree, method):
    process, pids = start(tmp_path, tree, method, "time.sleep(1000)")
    try:
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        process.kill()
        process.wait(30)
        assert wait_until(lambda: not any(alive(pid) for pid in pids), 30)
    finally:
        finish(process, pids)


@pytest.mark.parametrize("then", ["sys.exit(5)", "sys.last_value = iterator; 1 / 0"], ids=["exit", "error"])
def test_a_program_that_ends_in_the_middle_of_an_epoch_does_not_hang(tmp_path, tree, then):
    """Its workers ignore SIGTERM, with which multiprocessing would end them."""
    process, pids = start(tmp_path, tree, "fork", then)
    try:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == (5 if "exit" in then else 1), errors
        assert wait_until(lambda: not any(alive(pid) for pid in pids), 10)
    finally:
        finish(process, pids)
