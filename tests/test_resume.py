"""Stopped and resumed equals never stopped; a resume that would change the result is refused."""

import json
import shlex

import pytest
import torch
from small_run import arguments, assert_same_weights, fit, make_images


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """The run that nobody disturbed: 45 images, 5 batches and a part, 2 epochs."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert fit(*arguments(data, folder, data__workers=2)) == 0
    return folder


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("steps", [2, 6, 9])
@pytest.mark.parametrize("workers", [0, 2])
def test_stopped_and_resumed_is_bit_equal(tmp_path, data, whole, steps, workers):
    folder = tmp_path / "run"
    assert fit(*arguments(data, folder, run__max_steps=steps)) == 0
    assert torch.load(folder / "checkpoints/last.pt", weights_only=True)["step"] == steps
    # another number of workers: the batches do not depend on it
    assert (
        fit("fit", f"--run.resume={folder}", "--run.max_steps=null", f"--data.workers={workers}")
        == 0
    )
    assert_same_weights(folder, whole)
    keys = ("epoch", "step", "train_loss", "train_top1", "val_loss", "val_top1", "val_samples")
    scores = [[row[key] for key in keys] for row in rows(whole)]
    assert [[row[key] for key in keys] for row in rows(folder)] == scores


def test_with_dropout_and_accumulation(tmp_path, data):
    # dropout draws from torch's generator: its state must come back; windows of 4 and 2 batches
    options = {
        "model__name": "squeezenet1_1",
        "optim__accumulate": 4,
        "data__image_size": 64,
        "data__batch_size": 7,
    }
    assert fit(*arguments(data, tmp_path / "whole", **options)) == 0
    assert fit(*arguments(data, tmp_path / "cut", run__max_steps=3, **options)) == 0
    assert fit("fit", f"--run.resume={tmp_path / 'cut'}", "--run.max_steps=null") == 0
    assert_same_weights(tmp_path / "cut", tmp_path / "whole")


def test_other_settings_are_refused_by_name(tmp_path, data, whole, capsys):
    assert fit("fit", f"--run.resume={whole}", "--optim.lr=0.5", "--data.batch_size=9") == 2
    message = capsys.readouterr().err
    assert "optim.lr: 0.01 -> 0.5" in message
    assert "data.batch_size: 8 -> 9" in message


def test_changed_data_is_refused(tmp_path, data, capsys):
    mine = make_images(tmp_path / "images")
    assert fit(*arguments(mine, tmp_path / "run", run__max_steps=2)) == 0
    (mine / "train/cat/00.png").unlink()
    assert fit("fit", f"--run.resume={tmp_path / 'run'}", "--run.max_steps=null") == 2
    assert "train had 45 images and now has 44" in capsys.readouterr().err


def test_a_torn_checkpoint_is_recognised(tmp_path, data, capsys):
    folder = tmp_path / "run"
    assert fit(*arguments(data, folder, run__max_steps=2)) == 0
    last = folder / "checkpoints/last.pt"
    last.write_bytes(last.read_bytes()[:-4096])
    assert fit("fit", f"--run.resume={folder}") == 2
    error = capsys.readouterr().err
    assert "is torn or no checkpoint" in error
    assert (
        f"to begin this run again: --config {folder / 'config.yaml'}" in error or "best.pt" in error
    )


def test_what_cannot_be_resumed(tmp_path, capsys):
    assert fit("fit", f"--run.resume={tmp_path}") == 2
    assert "no run folder" in capsys.readouterr().err


def test_a_finished_run_has_nothing_left_to_do(whole, capsys):
    before = rows(whole)
    assert fit("fit", f"--run.resume={whole}") == 0
    assert rows(whole) == before
    told = capsys.readouterr().out
    assert f"{whole}: all of its 2 epochs are done, nothing is left to train" in told
    assert "epoch 3" not in told
    (command,) = [line for line in told.splitlines() if "--optim.epochs 2" in line]
    words = shlex.split(command)[3:]
    assert fit(*words, "--run.max_steps=1") == 0
    assert f"from {whole}/checkpoints/last.pt" in capsys.readouterr().out


def test_an_existing_run_is_never_overwritten(data, whole, capsys):
    assert fit(*arguments(data, whole)) == 2
    assert f"--run.resume {whole}" in capsys.readouterr().err


def test_weights_start_a_new_run(tmp_path, data, whole, capsys):
    best = whole / "checkpoints/best.pt"
    folder = tmp_path / "tuned"
    assert fit(*arguments(data, folder, model__weights=best, optim__epochs=1)) == 0
    assert f"from {best}" in capsys.readouterr().out


def test_a_limit_that_was_reached_before_trains_no_further_step(tmp_path, data, capsys):
    folder = tmp_path / "run"
    assert fit(*arguments(data, folder, run__max_steps=2)) == 0
    before = (folder / "checkpoints/last.pt").read_bytes()
    assert fit("fit", f"--run.resume={folder}", "--run.max_steps=2") == 0
    assert "stopped at run.max_steps=2" in capsys.readouterr().out
    assert (folder / "checkpoints/last.pt").read_bytes() == before
