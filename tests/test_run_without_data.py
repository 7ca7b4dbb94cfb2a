"""A run whose data vanish: they come back, and nothing differs; or they don't, and it can go on."""

import os
import signal

import pytest
import torch
from processes import workers
from small_run import arguments, assert_same_weights, fit, make_images

from train.data import absence
from train.data.shared_ledger import SharedLedger

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")

KINDS = [(0, "process"), (1, "process"), (1, "thread")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images") / "data")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """The run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert fit(*arguments(data, folder)) == 0
    return folder


@pytest.fixture
def vanish(monkeypatch, data):
    """Move the data away at the second training batch, once; gives the place where they are."""
    away, note, number = data.with_name("elsewhere"), SharedLedger.note, []
    monkeypatch.setattr(absence, "LOOK_S", 0.02)

    def noted(self, split, batch):
        number.append(split)
        if len(number) == 2:
            os.rename(data, away)
        note(self, split, batch)

    monkeypatch.setattr(SharedLedger, "note", noted)
    yield away
    if away.exists():
        os.rename(away, data)


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_they_come_back_and_the_run_is_the_same(
    tmp_path, data, whole, vanish, monkeypatch, count, kind
):
    said = []

    def say(text):
        said.append(text)
        if " are gone " in text:
            os.rename(vanish, data)

    monkeypatch.setattr(absence, "_say", say)
    folder = tmp_path / "run"
    words = arguments(data, folder, data__workers=count, data__workers_kind=kind)
    assert fit(*words) == 0
    assert_same_weights(folder, whole)
    assert not (folder / "bad_samples.jsonl").exists()
    assert len(said) == 2


@pytest.mark.parametrize(("count", "kind"), KINDS[1:])
def test_they_never_come_back(tmp_path, data, whole, vanish, monkeypatch, capsys, count, kind):
    monkeypatch.setattr(absence, "WAIT_S", 0.2)
    folder = tmp_path / "run"
    words = arguments(data, folder, data__workers=count, data__workers_kind=kind)
    assert fit(*words) == 2
    told = capsys.readouterr()
    # At once, or never: the wait of this test may be over before anybody looks.
    assert " ".join(told.out.split()).count("are gone (No such file or directory)") <= 1
    assert f"error: the data at '{data}" in " ".join(told.err.split())
    assert "mount the disk again" in " ".join(told.err.split())
    assert f"--run.resume {folder}" in told.err or f"RESUME={folder}" in told.err
    content = torch.load(folder / "checkpoints/last.pt", weights_only=True)
    assert 2 <= content["step"] <= 6
    assert f"step {content['step']}" in told.err
    assert not (folder / "bad_samples.jsonl").exists()
    os.rename(vanish, data)
    assert fit("fit", f"--run.resume={folder}") == 0
    assert_same_weights(folder, whole)


def test_in_the_middle_of_a_step_nothing_is_saved_that_would_differ(
    tmp_path, data, vanish, monkeypatch, capsys
):
    """With windows of four batches the second one is in the middle of a step."""
    monkeypatch.setattr(absence, "WAIT_S", 0.1)
    folder = tmp_path / "run"
    assert fit(*arguments(data, folder, optim__accumulate=4, data__workers=0)) == 2
    assert "what was saved before is intact" in " ".join(capsys.readouterr().err.split())
    assert not (folder / "checkpoints/last.pt").exists()


def test_a_killed_worker_says_how_to_go_on(tmp_path, data, whole, monkeypatch, capsys):
    note, killed = SharedLedger.note, []

    def noted(self, split, batch):
        if split == "train" and batch.epoch == 1 and not killed:
            killed.extend(workers())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
        note(self, split, batch)

    monkeypatch.setattr(SharedLedger, "note", noted)
    folder = tmp_path / "run"
    assert fit(*arguments(data, folder, data__workers_kind="process")) == 2
    told = capsys.readouterr().err
    assert "was killed by signal" in told
    assert "what was saved before is intact; go on with:" in " ".join(told.split())
    assert f"--run.resume {folder}" in told or f"RESUME={folder}" in told
    assert fit("fit", f"--run.resume={folder}") == 0
    assert_same_weights(folder, whole)


def test_a_signal_is_heard_while_the_run_waits(tmp_path, data, vanish, monkeypatch, capsys):
    def say(text):
        if " are gone " in text:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(absence, "_say", say)
    folder = tmp_path / "run"
    assert fit(*arguments(data, folder)) == 143
    content = torch.load(folder / "checkpoints/last.pt", weights_only=True)
    assert f"step {content['step']}" in capsys.readouterr().err
