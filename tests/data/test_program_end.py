"""Programs that end or are killed while they load data: no worker stays, and nothing hangs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import alive, wait_until

ROOT = Path(__file__).parents[2]

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
    process.communicate(timeout=180)


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


@pytest.mark.parametrize(
    "then", ["sys.exit(5)", "sys.last_value = iterator; 1 / 0"], ids=["exit", "error"]
)
def test_a_program_that_ends_in_the_middle_of_an_epoch_does_not_hang(tmp_path, tree, then):
    """Its workers ignore SIGTERM, with which multiprocessing would end them."""
    process, pids = start(tmp_path, tree, "fork", then)
    try:
        _, errors = process.communicate(timeout=180)
        assert process.returncode == (5 if "exit" in then else 1), errors
        assert wait_until(lambda: not any(alive(pid) for pid in pids), 10)
    finally:
        finish(process, pids)
