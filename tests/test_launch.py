"""torchrun from outside: exit codes, signals, restarts. Slow: each rank is a new program."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from processes import alive, children, wait_until
from small_run import ROOT, arguments, make_images

from train import launch, restart
from train.config import Config, RunConfig
from train.run_folder import RunFolder

LIMIT_S = 240


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), train=15, val=4)


def words(data, folder, **settings):
    more = {
        "model__name": "squeezenet1_1",
        "data__batch_size": 4,
        "data__workers": 1,
        "data__prefetch": 2,  # all is set, so nothing is tuned
        "data__workers_kind": "process",
        **settings,
    }
    return arguments(data, folder, **more)


class Launch:
    """`python -m train.launch ... -m train fit ...`; killed by its process id at the end."""

    def __init__(self, line, log, ranks=2, restarts=0, program=("-m", "train.launch"), code=""):
        options = ["--standalone", f"--nproc-per-node={ranks}", f"--max-restarts={restarts}"]
        target = [str(code)] if code else ["-m", "train"]
        self.log = log
        with open(log, "w") as file:
            self.process = subprocess.Popen(
                [sys.executable, *program, *options, *target, *line],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        below = self.family()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pid in below:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)

    def ranks(self):
        return children(self.process.pid)

    def family(self):
        """Ranks and their workers."""
        ranks = self.ranks()
        return ranks + [worker for rank in ranks for worker in children(rank)]

    def wait(self):
        code = self.process.wait(LIMIT_S)
        return code, self.log.read_text()


def test_one_message_and_exit_code_2(tmp_path, data):
    with Launch(words(data, tmp_path / "run", model__name="resnet19"), tmp_path / "log") as launch:
        code, text = launch.wait()
    assert code == 2, text
    assert text.count("error:") == 1
    assert "did you mean resnet" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--nproc-per-node=0", "--nproc-per-node must be 1 to "),
        ("--nproc-per-node=9999", ", got 9999: a rank is a process"),
        ("--nproc-per-node=two", "or gpu, cpu, auto; got 'two'"),
        ("--nproc-per-node=", "or gpu, cpu, auto; got ''"),
        ("--nnodes=x", "--nnodes must be a whole number"),
    ],
)
def test_what_torchrun_cannot_read_is_one_message(option, message, capsys):
    before = signal.getsignal(signal.SIGUSR1)
    try:
        assert launch.main([option, "-m", "train", "fit"]) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "place", ["--master-addr=no.such.invalid", "--rdzv-endpoint=no.such.invalid:1"]
)
def test_a_meeting_place_that_is_unknown_is_told_before_a_rank_starts(place, capsys):
    assert launch.main(["--nnodes=2", place, "-m", "train", "fit"]) == 2
    error = capsys.readouterr().err
    assert "'no.such.invalid', is not known here" in error
    assert error.count("\n") == 1


def test_a_signal_to_torchrun_saves_on_all_ranks(tmp_path, data):
    folder = tmp_path / "run"
    with Launch(words(data, folder, optim__epochs=500), tmp_path / "log") as launch:
        assert wait_until((folder / "checkpoints/last.pt").exists, LIMIT_S), launch.log.read_text()
        family = launch.family()
        assert len(family) == 6
        launch.process.send_signal(signal.SIGUSR1)  # torchrun alone would die of it
        found, text = launch.wait()
    assert found == 138, text
    assert text.count(": saved at epoch") == 1
    assert "Traceback" not in text
    assert wait_until(lambda: not any(map(alive, family)), 10)


def test_a_killed_torchrun_leaves_no_rank_and_the_run_is_saved(tmp_path, data):
    folder = tmp_path / "run"
    with Launch(words(data, folder, optim__epochs=500), tmp_path / "log") as launch:
        assert wait_until((folder / "checkpoints/last.pt").exists, LIMIT_S), launch.log.read_text()
        family = launch.family()
        launch.process.kill()
        assert wait_until(lambda: not any(map(alive, family)), 30)
    assert "SIGTERM: saved at epoch" in launch.log.read_text()


DYING_ONCE = """
import os, signal, sys
from train.__main__ import main
from train.data.shared_ledger import SharedLedger
note, count = SharedLedger.note, 0
def noted(self, split, batch):
    global count
    count += 1
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if count == 14 and first and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    note(self, split, batch)
SharedLedger.note = noted
sys.exit(main())
"""


def test_a_lost_rank_is_started_again_and_the_run_goes_on(tmp_path, data):
    folder, code = tmp_path / "run", tmp_path / "dying.py"
    code.write_text(DYING_ONCE)
    line = words(data, folder, optim__epochs=3)
    with Launch(line, tmp_path / "log", restarts=1, code=code) as launch:
        found, text = launch.wait()
    assert found == 0, text
    assert f"attempt 2 of this launch: its run is {folder}" in text
    assert "epoch 2, step 6" in text  # where it went on
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [0, 1, 2]


def launched(monkeypatch, name, count=0):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", name)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(count))


def made(folder, epochs_done=None):
    run = RunFolder(folder)
    run.last.parent.mkdir(parents=True)
    restart.sign(run)
    if epochs_done:
        run.append_metrics({"epoch": epochs_done - 1})
    return run


def test_an_attempt_finds_the_run_of_its_launch_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    config = Config()
    assert restart.gone_on(config) is config  # without torchrun
    launched(monkeypatch, "job-1")
    assert restart.gone_on(config) is config
    made(tmp_path / "runs/one")
    launched(monkeypatch, "job-2", 1)
    assert restart.gone_on(config) is config
    run = made(tmp_path / "runs/two")
    again = restart.gone_on(config)
    assert (again.run.folder, again.run.resume) == ("runs/two", None)  # nothing was saved yet
    run.last.write_bytes(b"")
    assert restart.gone_on(config).run.resume == "runs/two"
    named = Config(run=RunConfig(folder=str(tmp_path / "runs/one")))
    assert restart.gone_on(named) is named


def test_a_name_used_again_does_not_find_a_run_that_is_done(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    launched(monkeypatch, "100")
    made(tmp_path / "runs/one", epochs_done=30).last.write_bytes(b"")
    config = Config()  # of 30 epochs
    assert restart.gone_on(config) is config
    launched(monkeypatch, "100", 1)  # killed after its last epoch
    assert restart.gone_on(config).run.resume == "runs/one"


def test_without_a_name_torchrun_itself_is_the_launch(monkeypatch):
    launched(monkeypatch, "none")
    first = restart.launch_name()
    assert str(os.getppid()) in first
    time.sleep(0.01)
    assert restart.launch_name() == first
