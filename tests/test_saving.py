"""A disk that is full while a run saves: the run goes on, says so once, and tries again."""

import errno
import json

import pytest
import torch
from small_run import arguments, assert_same_weights, fit, make_images

import train.files
from train.checkpoint import Identity, State
from train.checkpoint_file import Rotation
from train.dist import ALONE
from train.run_output import RunOutput
from train.saving import Saver


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), train=6, val=2)


def settings(data, folder, **more):
    return arguments(data, folder, data__batch_size=6, data__workers=0, optim__epochs=3, **more)


def full_disk(monkeypatch, is_full):
    """From now on writing whole files fails while `is_full()`."""
    real = train.files.os.fsync

    def fsync(descriptor):
        if is_full():
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(train.files.os, "fsync", fsync)


def test_the_run_goes_on_and_loses_nothing(tmp_path, data, capsys, monkeypatch):
    assert fit(*settings(data, tmp_path / "whole")) == 0
    capsys.readouterr()
    saves = []
    save = Saver.save

    def counted(self, *words):
        saves.append(1)
        save(self, *words)

    monkeypatch.setattr(Saver, "save", counted)
    # full from the first epoch's row to the second epoch's checkpoint
    full_disk(monkeypatch, lambda: 1 <= len(saves) <= 2)
    folder = tmp_path / "run"
    assert fit(*settings(data, folder)) == 0
    output = capsys.readouterr().out
    assert output.count("the disk is full") == 2  # the checkpoint and the row, once each
    assert "The run goes on; the next save tries again" in output
    assert "saved again: epoch 4" in output
    assert_same_weights(folder, tmp_path / "whole")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [0, 1, 2]


def test_the_best_one_waits_for_room(tmp_path, monkeypatch):
    """The weights go on, so no later save would have it."""
    model = torch.nn.Linear(2, 2)
    state = State(model, torch.optim.SGD(model.parameters(), 0.1))
    saver = Saver(Rotation(tmp_path), Identity({"run.seed": 1}, ("a", "b"), 8, 2), ALONE)
    is_full = [True]
    full_disk(monkeypatch, lambda: is_full[0])
    for step, is_best, full in ((1, True, True), (2, True, True), (3, False, True), (4, 0, False)):
        state.step, is_full[0] = step, full
        saver.save(state, bool(is_best))
    assert torch.load(tmp_path / "best.pt", weights_only=True)["step"] == 2
    assert torch.load(tmp_path / "last.pt", weights_only=True)["step"] == 4
    assert saver.problem is None
    state.step = 5
    saver.save(state, is_best=True)
    state.step = 6
    saver.save(state)  # nothing waits any more
    assert torch.load(tmp_path / "best.pt", weights_only=True)["step"] == 5


def test_a_row_that_waited_is_written_before_the_next_checkpoint(tmp_path, data, monkeypatch):
    """A run that is killed after it goes on behind it, and would never write it again."""
    is_full, rows = [False], []
    full_disk(monkeypatch, lambda: is_full[0])
    save, epoch = Saver.save, RunOutput.epoch

    def told(self, *words):
        is_full[0] = True
        epoch(self, *words)

    def saved(self, state, is_best=False):
        if state.samples_seen:
            path = tmp_path / "run/metrics.jsonl"
            rows.append((state.epoch, len(path.read_text().splitlines()) if state.epoch else 0))
        save(self, state, is_best)
        is_full[0] = False

    monkeypatch.setattr(RunOutput, "epoch", told)
    monkeypatch.setattr(Saver, "save", saved)
    assert fit(*settings(data, tmp_path / "run", run__checkpoint_minutes=1e-9)) == 0
    assert sorted(set(rows)) == [(0, 0), (1, 1), (2, 2)]


def test_an_end_that_can_not_be_saved_is_no_success(tmp_path, data, capsys, monkeypatch):
    full_disk(monkeypatch, lambda: (tmp_path / "run/checkpoints/last.pt").exists())
    assert fit(*settings(data, tmp_path / "run")) == 2
    assert "the end of the run is not saved" in capsys.readouterr().err
    assert torch.load(tmp_path / "run/checkpoints/last.pt", weights_only=True)["step"] == 3


def test_a_signal_on_a_full_disk_says_that_nothing_was_saved(tmp_path, data, capsys, monkeypatch):
    import os
    import signal

    from train.data.shared_ledger import SharedLedger

    monkeypatch.setattr(
        SharedLedger, "note", lambda self, split, batch: os.kill(os.getpid(), signal.SIGTERM)
    )
    full_disk(monkeypatch, lambda: (tmp_path / "run/tensorboard").exists())
    assert fit(*settings(data, tmp_path / "run", optim__accumulate=1)) == 143
    assert "NOT saved" in capsys.readouterr().err


def test_a_torn_checkpoint_gives_way_to_the_one_before(tmp_path, data, capsys):
    whole, folder = tmp_path / "whole", tmp_path / "run"
    assert fit(*settings(data, whole)) == 0
    assert fit(*settings(data, folder, run__max_steps=7)) == 0
    last = folder / "checkpoints/last.pt"
    content = last.read_bytes()
    last.unlink()
    last.write_bytes(content[: len(content) // 2])
    capsys.readouterr()
    assert fit("fit", f"--run.resume={folder}", "--run.max_steps=null") == 0
    output = capsys.readouterr().out
    assert output.count("going on from the one before it") == 1
    assert_same_weights(folder, whole)


def test_a_broken_loss_is_told_with_its_batch(tmp_path, data, capsys):
    folder = tmp_path / "run"
    assert fit(*settings(data, folder, optim__lr=1e30)) == 2
    message = capsys.readouterr().err
    assert "lower optim.lr" in message
    assert str(folder / "diverged.json") in message
    told = json.loads((folder / "diverged.json").read_text())
    assert len(told["batches"][-1]["keys"]) == 6
    assert told["loss"] in ("nan", "inf")
