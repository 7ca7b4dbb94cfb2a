"""A running mean of the weights: its arithmetic, what is scored and saved, exact resume."""

import json

import pytest
import torch
from small_run import arguments, assert_same_weights, fit, make_images, weights
from torch import nn

from train import ema


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"))


def options(**more):
    return {"optim__ema": 0.9, "data__workers": 0, **more}


def test_the_mean_is_that_of_the_formula():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = ema.make_average(model)
    expected = model[0].weight.detach().clone()
    for step in range(1, 40):
        with torch.no_grad():
            model[0].weight.normal_()
            model[1].num_batches_tracked += 1
        ema.update(average, model, 0.7, step)
        decay = min(0.7, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model[0].weight.detach()
    assert torch.allclose(average[0].weight, expected, atol=1e-6)
    assert average[1].num_batches_tracked == 39  # taken over: a mean of counts means nothing
    assert not average.training
    assert not any(parameter.requires_grad for parameter in average.parameters())


def test_resumed_in_mid_epoch_is_bit_equal(tmp_path, data):
    assert fit(*arguments(data, tmp_path / "whole", **options())) == 0
    assert fit(*arguments(data, tmp_path / "cut", run__max_steps=3, **options())) == 0
    assert fit("fit", f"--run.resume={tmp_path / 'cut'}", "--run.max_steps=null") == 0
    assert_same_weights(tmp_path / "cut", tmp_path / "whole")
    first, second = (
        torch.load(tmp_path / name / "checkpoints/last.pt", weights_only=True)["raw_model"]
        for name in ("cut", "whole")
    )
    assert first
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_mean_is_what_is_scored_saved_and_taken_over(tmp_path, data):
    """Training is as without it; what `model.weights` takes of such a run is the mean."""
    assert fit(*arguments(data, tmp_path / "plain", data__workers=0)) == 0
    assert fit(*arguments(data, tmp_path / "mean", **options())) == 0
    plain, mean = weights(tmp_path / "plain"), weights(tmp_path / "mean")
    assert any(not torch.equal(plain[name], mean[name]) for name in plain)
    content = torch.load(tmp_path / "mean/checkpoints/last.pt", weights_only=True)
    assert all(torch.equal(plain[name], content["raw_model"][name]) for name in plain)
    rows = [
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("plain", "mean")
    ]
    assert [row["train_loss"] for row in rows[0]] == [row["train_loss"] for row in rows[1]]
    assert [row["val_loss"] for row in rows[0]] != [row["val_loss"] for row in rows[1]]
    best = torch.load(tmp_path / "mean/checkpoints/best.pt", weights_only=True)
    assert any(not torch.equal(best["model"][name], best["raw_model"][name]) for name in plain)
    taken = ["--model.weights", str(tmp_path / "mean/checkpoints/last.pt")]
    more = {"optim__lr": 1e-12, "optim__epochs": 1, "run__max_steps": 1, "data__workers": 0}
    assert fit(*arguments(data, tmp_path / "next", **more), *taken) == 0
    after = weights(tmp_path / "next")
    parameters = [name for name in after if name.endswith(("weight", "bias"))]
    assert all(torch.allclose(after[name], mean[name], atol=1e-6) for name in parameters)


def test_it_cannot_be_switched_on_the_way(tmp_path, data, capsys):
    assert fit(*arguments(data, tmp_path / "run", run__max_steps=2, data__workers=0)) == 0
    assert fit("fit", f"--run.resume={tmp_path / 'run'}", "--optim.ema=0.9") == 2
    assert "optim.ema" in capsys.readouterr().err
