"""The time of day set back or forward while a run goes on: nothing is measured by it."""

import ast
import datetime
import itertools
import json
import platform
import time
from pathlib import Path

import pytest
from small_run import ROOT, arguments, assert_same_weights, fit, make_images

from train import run_folder
from train.config import Config, DataConfig
from train.console import Bar
from train.monitor import look
from train.run_status import StatusFile, read_status

HOUR_S = 3600.0

# Where people are told a time of day, or a name is made of it; nothing there is subtracted from it
# but a file's own date, or the word of another machine.
FOR_PEOPLE = {
    "train/bench/about.py",
    "train/bench/run.py",
    "train/curves.py",
    "train/doctor/machine_facts.py",
    "train/metrics.py",
    "train/monitor/look.py",
    "train/report.py",
    "train/run_folder.py",
    "train/run_status.py",
    "train/tune/cache.py",
    "train/tune/choose.py",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), train=6, val=2)


@pytest.fixture
def jumping(monkeypatch):
    """The time of day an hour later at one look, two hours too early at the next one, and so on.

    So any two looks are nearly an hour apart, or more.
    """
    real, looks = time.time, itertools.count(1)

    def jumped():
        look = next(looks)
        return real() + HOUR_S * (look if look % 2 else -look)

    monkeypatch.setattr(time, "time", jumped)


def test_a_run_measures_the_same_and_saves_as_often(tmp_path, data, jumping, monkeypatch):
    from train.saving import Saver

    saves, save = [], Saver.save

    def counted(self, *words):
        saves.append(1)
        save(self, *words)

    monkeypatch.setattr(Saver, "save", counted)
    options = {"data__batch_size": 6, "data__workers": 1, "run__checkpoint_minutes": 10}
    begin = time.monotonic()
    assert fit(*arguments(data, tmp_path / "run", **options)) == 0
    elapsed = time.monotonic() - begin
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(saves) == len(rows) == 2  # an epoch each: no hour has passed
    for row in rows:
        assert 0 < row["train_s"] < elapsed
        assert 0 < row["val_s"] < elapsed
        assert 0 <= row["data_wait_share"] <= 1
        assert row["images_per_s"] > 18 / elapsed  # 18 images in less than all of the time
    assert abs(rows[1]["time"] - rows[0]["time"]) > HOUR_S / 2  # it did jump


def test_the_clock_changes_no_weight(tmp_path, data, monkeypatch):
    options = {"data__batch_size": 6, "data__workers": 0, "optim__epochs": 1}
    assert fit(*arguments(data, tmp_path / "one", **options)) == 0
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 20 * 365 * 24 * HOUR_S)
    assert fit(*arguments(data, tmp_path / "two", **options)) == 0
    assert_same_weights(tmp_path / "one", tmp_path / "two")


@pytest.mark.parametrize(
    ("clock", "expected"),
    [("time", [3]), ("monotonic", [1, 2, 3, 3])],
    ids=["time of day", "monotonic"],
)
def test_checkpoints_come_by_the_clock_that_nobody_sets(
    tmp_path, data, monkeypatch, clock, expected
):
    """An hour is put between two batches, by one clock alone."""
    from train.data.shared_ledger import SharedLedger
    from train.saving import Saver

    saves, save, hours, real = [], Saver.save, [], getattr(time, clock)

    def counted(self, state, is_best=False):
        saves.append(state.step)
        save(self, state, is_best)

    monkeypatch.setattr(Saver, "save", counted)
    monkeypatch.setattr(SharedLedger, "note", lambda self, split, batch: hours.append(split))
    monkeypatch.setattr(time, clock, lambda: real() + HOUR_S * hours.count("train"))
    options = {"data__batch_size": 6, "data__workers": 0, "optim__epochs": 1}
    words = arguments(data, tmp_path / "run", run__checkpoint_minutes=10, **options)
    assert fit(*words) == 0
    assert saves == expected  # the last one is the epoch's end


def test_a_run_never_takes_the_folder_of_another_one(tmp_path, monkeypatch):
    """The clock was set back to the very second at which another run began."""
    monkeypatch.chdir(tmp_path)
    config, now = Config(data=DataConfig(path="pictures")), datetime.datetime(2026, 3, 29, 2, 30)
    names = []
    for _ in range(3):
        folder = run_folder.default_folder(config, now)
        folder.mkdir(parents=True)
        names.append(folder.name)
    assert names == [
        "pictures-resnet18-20260329-023000",
        "pictures-resnet18-20260329-023000-2",
        "pictures-resnet18-20260329-023000-3",
    ]


class Silent:
    """A loader of which there is nothing to tell."""

    workers, dataset, workers_kind = 0, None, "process"

    class account:
        wait_s = 0.0

        @staticmethod
        def places():
            return []

        @staticmethod
        def queue():
            from train.data.account import Queue

            return Queue(0, 0, 0, 0)


@pytest.mark.parametrize("jump", [-HOUR_S, HOUR_S])
def test_the_monitor_does_not_take_a_jump_for_a_long_step(tmp_path, monkeypatch, jump):
    real = time.time
    StatusFile(tmp_path).tick(Bar("epoch 1/1 train", 10), 3, Silent)
    status = read_status(tmp_path)
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    now = status["clock_s"] + 2.0
    assert look._written(status, now) == (status["clock_s"], 2.0)
    # The clock of another machine says nothing here, so its time of day must do.
    there = {**status, "host": platform.node() + "-2"}
    assert look._written(there, now)[0] == status["time"]
    # So it is after this machine was started again: its clock began anew.
    assert look._written(status, status["clock_s"] - 1.0)[0] == status["time"]


def test_a_stall_is_one_by_the_clock_that_nobody_sets(jumping, monkeypatch):
    from train.data import stalls
    from train.data.watch import Watch

    told = []
    monkeypatch.setattr(stalls, "_say", told.append)
    watch = Watch(1, shared=False)
    try:
        patience = stalls.Patience(None, watch, str, str, 300.0)
        for _ in range(4):
            patience.look()
            assert not patience.is_over()
        assert 0 < patience.left_s() <= 300
    finally:
        watch.close()
    assert told == []


def test_the_time_of_day_is_asked_only_for_people():
    """Whoever takes it for a duration finds this test: let it be `monotonic` or `perf_counter`."""
    found = {}
    for path in sorted(Path(ROOT, "train").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name = f"{node.value.id}.{node.attr}"
                if name in ("time.time", "time.time_ns", "datetime.now", "date.today") or (
                    name in ("time.localtime", "time.gmtime", "datetime.datetime")
                    and path.name != "environment_checks.py"  # writes a date that it was given
                ):
                    found.setdefault(path.relative_to(ROOT).as_posix(), set()).add(name)
    assert set(found) <= FOR_PEOPLE, {name: found[name] for name in set(found) - FOR_PEOPLE}
    assert "train/metrics.py" in found  # the search does find what there is
