"""The monitor: which run, what is looked at, and a screen of 80 x 24 for every state."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import types

import pytest
import small_run
from processes import wait_until
from rich.console import Console

from train.data.account import Queue
from train.data.watch import Place, Work
from train.errors import SetupError
from train.monitor import __main__ as monitor
from train.monitor import look, runs
from train.monitor.__main__ import main
from train.monitor.look import Looker, Row, Snapshot
from train.monitor.screen import KEYS, screen
from train.run_status import StatusFile, read_status

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the locks of Linux")

HOLD = """
import fcntl, sys
files = [open(path, "w") for path in sys.argv[1:]]
for file in files: fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hold():
    """A function that lets another process hold the locks of runs; its process."""
    started = []

    def start(*folders):
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "config.yaml").write_text("{}")
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, *(str(folder / ".lock") for folder in folders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.communicate()


def test_a_run_that_goes_on_is_found_by_its_lock(tmp_path, hold):
    one, two, old = tmp_path / "one", tmp_path / "two", tmp_path / "old"
    old.mkdir()
    (old / "config.yaml").write_text("{}")
    (old / ".lock").touch()
    process = hold(one, two)
    os.utime(one / ".lock", (1, 1))
    assert runs.lock_holder(one) == process.pid
    assert runs.lock_holder(old) is None
    assert runs.running(tmp_path) == [two, one]
    assert runs.find(str(tmp_path)) == two
    assert runs.find(str(one)) == one
    with pytest.raises(SetupError, match="does not go on"):
        runs.find(str(old))


def test_looking_takes_no_lock(tmp_path, hold):
    hold(tmp_path / "run")
    runs.lock_holder(tmp_path / "run")
    free = tmp_path / "free"
    free.mkdir()
    (free / ".lock").touch()
    assert runs.lock_holder(free) is None
    with open(free / ".lock", "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()])
def test_without_a_run_it_says_what_to_do(tmp_path, capsys, make):
    make(tmp_path / "runs")
    assert main([str(tmp_path / "runs")]) == 2
    assert "no run goes on in" in capsys.readouterr().err


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of this test's own for input and output; where its keys come from."""
    ours, theirs = os.openpty()
    monkeypatch.setattr(monitor, "EVERY_S", 0.05)
    monkeypatch.setattr(monitor, "WAIT_S", 20.0)
    with open(theirs, "r+b", buffering=0) as raw:
        monkeypatch.setattr(sys, "stdin", raw)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        yield ours
    os.close(ours)


def test_on_a_terminal_it_waits_for_a_run(tmp_path, hold, terminal, capsys, monkeypatch):
    base, looks = tmp_path / "runs", []

    def find(asked):
        looks.append(asked)
        if len(looks) == 3:
            hold(base / "one")
        return runs.find(asked)

    monkeypatch.setattr(monitor, "find", find)
    assert monitor._run(str(base), True) == base / "one"
    told = " ".join(capsys.readouterr().out.split())
    assert f"waiting for a run in {base}/ (q ends)" in told
    assert len(looks) == 3


def test_waiting_for_a_run_ends(tmp_path, terminal, monkeypatch):
    pressed = threading.Timer(0.3, os.write, (terminal, b"q"))  # what came before is thrown away
    pressed.start()
    assert monitor._run(str(tmp_path), True) is None
    pressed.join()
    monkeypatch.setattr(monitor, "WAIT_S", 0.1)
    with pytest.raises(runs.NoRun, match="no run goes on in"):
        monitor._run(str(tmp_path), True)


# the status file


class Account:
    wait_s = 1.0

    def places(self):
        return [
            Place(0, 41, 7, True, 0.5, Work(1.0, 2.0, 3)),
            Place(1, 42, None, False, 0.0, Work()),
        ]

    def queue(self):
        return Queue(2, 4, 6, 1)


def fake_loader():
    source = types.SimpleNamespace(key=lambda index: f"cat/{index}.jpg")
    dataset = types.SimpleNamespace(source=source)
    return types.SimpleNamespace(
        account=Account(), dataset=dataset, workers=2, workers_kind="process"
    )


def test_the_status_file_comes_once_a_second_and_goes_with_the_run(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    bar = types.SimpleNamespace(title="epoch 1/2 train", done=10, total=50)
    loader = fake_loader()
    with StatusFile(tmp_path) as status:
        status.tick(bar, 3, loader)
        first = read_status(tmp_path)
        assert (first["title"], first["done"], first["step"]) == ("epoch 1/2 train", 10, 3)
        assert (first["images_per_s"], first["pid"]) == (None, os.getpid())
        assert first["loader"]["queue"] == {"ready": 2, "asked": 4, "slots": 6, "free": 1}
        assert first["loader"]["workers"][0]["sample"] == "'cat/7.jpg'"
        assert first["loader"]["workers"][1]["sample"] is None
        now[0], bar.done = 100.5, 20
        status.tick(bar, 4, loader)
        assert read_status(tmp_path) == first  # too early
        now[0], bar.done, loader.account.wait_s = 102.0, 50, 1.5
        status.tick(bar, 5, loader)
        assert (read_status(tmp_path)["images_per_s"]) == 20.0
        assert (read_status(tmp_path)["wait_share"]) == 0.25
        assert [path.name for path in tmp_path.iterdir()] == ["status.json"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_does_not_stop_the_run(tmp_path):
    with StatusFile(tmp_path / "gone") as status:
        status.tick(types.SimpleNamespace(title="", done=0, total=0), 1, fake_loader())


@pytest.mark.parametrize("content", ["", "{", "[]", "7", "[" * 100_000])
def test_a_status_that_cannot_be_read_is_empty(tmp_path, content):
    (tmp_path / "status.json").write_text(content)
    assert read_status(tmp_path) == {}


def test_a_pipe_as_status_or_lock_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "status.json")
    os.mkfifo(tmp_path / ".lock")
    assert read_status(tmp_path) == {}
    assert runs.lock_holder(tmp_path) is None


def test_a_name_longer_than_the_system_allows(capsys):
    assert main(["x" * 5000]) == 2
    assert "no run goes on in" in capsys.readouterr().err


# a look


def write_status(run, pid, kind="process", workers=(), **more):
    status = {
        "pid": pid,
        "time": time.time(),
        "title": "epoch 3/10 train",
        "done": 640,
        "total": 1600,
        "step": 120,
        "images_per_s": 312.0,
        "wait_share": 0.23,
        "loader": {
            "kind": kind,
            "queue": {"ready": 3, "asked": 4, "slots": 6, "free": 2},
            "workers": [
                {
                    "worker": number,
                    "thread": ident,
                    "sample": "'cat/00012.jpg'",
                    "reading": False,
                    "since_s": 0.1,
                    "read_s": 1.0,
                    "make_s": 9.0,
                    "batches": 7,
                }
                for number, ident in enumerate(workers)
            ],
        },
        **more,
    }
    (run / "status.json").write_text(json.dumps(status))


def test_a_look_sees_the_processes_of_a_run(tmp_path, hold):
    run = tmp_path / "run"
    process = hold(run)
    write_status(run, process.pid, workers=[os.getpid(), 2**22 + 1])
    looker = Looker(run)
    looker.look()
    snapshot = looker.look()
    training, alive, gone = snapshot.rows
    assert (training.name, training.ident) == ("training", process.pid)
    assert training.cores is not None
    assert training.memory_bytes > 0
    assert (alive.name, alive.doing) == ("worker 0", "'cat/00012.jpg'")
    assert gone.doing == "gone"
    process.communicate()
    assert looker.look() is None  # it has ended


def test_threads_are_rows_too(tmp_path, hold):
    run = tmp_path / "run"
    process = hold(run)
    write_status(run, process.pid, kind="thread", workers=[process.pid])
    looker = Looker(run)
    looker.look()
    row = looker.look().rows[1]
    assert (row.name, row.memory_bytes) == ("worker 0", None)
    assert row.cores is not None


WRONG = [
    '{"loader": 3, "time": "x", "pid": null}',
    '{"loader": {}}',
    '{"loader": {"workers": 5, "queue": 5}}',
    '{"loader": {"queue": {"ready": null, "asked": 4, "slots": 1e999, "free": NaN}}}',
    '{"title": "[/red]", "done": NaN, "total": Infinity, "wait_share": -Infinity}',
    *(f'{{"{key}": 1{"0" * 400}, "total": 5}}' for key in ("time", "done", "images_per_s")),
]


@pytest.mark.parametrize("content", WRONG)
def test_a_look_at_anything_does_not_fail(tmp_path, hold, content):
    run = tmp_path / "run"
    hold(run)
    (run / "status.json").write_text(content)
    shown(Looker(run).look())


def test_a_gpu_that_does_not_tell_its_use_is_unknown(tmp_path, hold, monkeypatch):
    """MIG: NVML raises, or has no number."""
    run = tmp_path / "run"
    hold(run)
    gpu = types.SimpleNamespace(index=0, name="NVIDIA A100", mig=True)
    monkeypatch.setattr(look, "gpus", lambda: ([gpu], "NVML"))
    meter = types.SimpleNamespace(read=lambda: None)
    monkeypatch.setattr(look, "GpuUtilisation", lambda index: meter)
    assert Looker(run).look().gpus == ["NVIDIA A100: use unknown under MIG"]


# the screen


def shown(snapshot, height=24):
    console = Console(width=80, height=height, file=io.StringIO(), record=True)
    console.print(screen(snapshot, height))
    lines = console.export_text().splitlines()
    assert len(lines) <= height
    assert all(len(line.rstrip()) <= 80 for line in lines)
    return "\n".join(lines)


def snapshot(workers=2, **changes):
    status = {
        "title": "epoch 3/10 train",
        "done": 640,
        "total": 1600,
        "images_per_s": 312.4,
        "wait_share": 0.23,
        "host": "node7",
        "loader": {
            "kind": "process",
            "queue": {"ready": 1, "asked": 4, "slots": 6, "free": 3},
            "workers": [{}] * workers,
        },
    }
    rows = [Row("training", 100, 0.98, 812 << 20, 0.0)]
    for n in range(workers):
        rows.append(Row(f"worker {n}", 101 + n, 0.97, 120 << 20, 3 << 20, f"'cat/{n:060}.jpg'"))
    values = {
        "run": "runs/sample-resnet18",
        "status": status,
        "age_s": 0.4,
        "rows": rows,
        "stages": (0.1, 1.8),
        "machine_cores": 1.98,
        "cpus": 2,
        "memory": (3 << 30, 8 << 30),
    }
    return Snapshot(**{**values, **changes})


def test_a_screen():
    text = shown(snapshot())
    assert "epoch 3/10 train" in text
    assert "640 of 1600 images  312/s" in text
    assert "waiting for data 23%; workers read 0.1, decode 1.8 of 2" in text
    assert "1 of 4 batches ready" in text
    assert "3 of 6 slots in use" in text
    assert "2.0 of 2 CPUs busy" in text
    assert "worker 1" in text
    assert "97%  120.0 MiB  3.0 MiB/s  'cat/0000" in text
    assert KEYS in text


@pytest.mark.parametrize("height", [24, 16, 14])
def test_many_workers_are_summed_up(height):
    text = shown(snapshot(workers=64, gpus=["NVIDIA A100: 83 %"]), height)
    assert " more " in text
    assert "NVIDIA A100: 83 %" in text
    assert KEYS in text


def test_a_long_step_is_told():
    long = snapshot(age_s=45.0)
    long.status["images_per_s"] = 0.0
    assert "in a step for 45 s, or waiting for its batch" in shown(long)
    assert "0/s" not in shown(long).splitlines()[1]


def test_a_run_that_is_starting():
    text = shown(snapshot(status={}, age_s=None, rows=[Row("training", 100)], stages=None))
    assert "starting: it has no step yet" in text


def test_a_run_of_another_machine():
    assert "it runs on node7" in shown(snapshot(rows=[], here=False))


def test_names_are_shown_as_they_are():
    row = Row("worker 0", 101, doing="[/b]\x1b[2J\udcff.jpg")
    text = shown(snapshot(rows=[row], run="runs/[red]\x1b"))
    assert "[/b]\\x1b[2J\\udcff.jpg" in text
    assert "runs/[red]\\x1b" in text


@pytest.mark.parametrize("output", ["closed", "ascii"])
def test_one_look_into_any_output(tmp_path, hold, output):
    hold(tmp_path)
    closed = ["-c", 'exec "$@" >&-', "sh"] if output == "closed" else ["-c", 'exec "$@"', "sh"]
    line = [sys.executable, "-m", "train.monitor", "--once", str(tmp_path)]
    env = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(["sh", *closed, *line], cwd=small_run.ROOT, env=env, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"memory" in done.stdout) == (output == "ascii")


# the whole of it


def test_a_real_run_without_a_terminal(tmp_path, capsys):
    """Its lock, its status and its end, watched from outside."""
    data = small_run.make_images(tmp_path / "data")
    run = tmp_path / "runs" / "one"
    words = small_run.arguments(data, run, optim__epochs=500)
    process = small_run.start(words, env={"OMP_NUM_THREADS": "1"})
    try:
        assert wait_until(lambda: read_status(run), 60)
        assert main([str(tmp_path / "runs"), "--once"]) == 0
        text = capsys.readouterr().out
        assert "training" in text
        assert "worker 0" in text
        assert "batches ready" in text
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=180)
    assert read_status(run) == {}
    assert main([str(tmp_path / "runs")]) == 2
