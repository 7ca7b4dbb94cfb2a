"""The running mean of the weights in a checkpoint, an old one too, and on two ranks."""

import copy
import json

import pytest
import ranks
import torch
from small_run import arguments, assert_same_weights, make_images
from torch import nn

from train import ema
from train.checkpoint import Identity, State, content_of, rank_content, restore
from train.model import build_optimizer

OPTIONS = {"optim__ema": 0.9, "model__name": "shufflenet_v2_x0_5"}
pytestmark = pytest.mark.usefixtures("deadline")


def small(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    for buffer in model.buffers():
        buffer.copy_(torch.rand(buffer.shape) * 9)
    return model


def identity():
    return Identity({"run.seed": 1}, ("a", "b"), 4, 2)


def state_of(model, average=None):
    return State(model, build_optimizer(model, 0.0), average=average)


def test_a_checkpoint_has_what_is_evaluated_and_what_goes_on():
    model = small(0)
    state = state_of(model, ema.make_average(small(1)))
    content = copy.deepcopy(content_of(state, identity(), [rank_content(state)]))
    assert torch.equal(content["model"]["0.weight"], state.average[0].weight)
    assert torch.equal(content["raw_model"]["0.weight"], model[0].weight)
    again = state_of(small(2), ema.make_average(small(3)))
    restore(content, again)
    assert torch.equal(again.model[0].weight, model[0].weight)
    assert torch.equal(again.average[1].running_mean, state.average[1].running_mean)


def test_a_checkpoint_of_before_has_no_mean_and_loads():
    state = state_of(small(0))
    content = copy.deepcopy(content_of(state, identity(), [rank_content(state)]))
    assert content.pop("raw_model") is None
    again = state_of(small(2))
    restore(content, again)
    assert torch.equal(again.model[0].weight, state.model[0].weight)
    assert again.evaluated is again.model


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"))


def saved(folder, name="last"):
    return torch.load(folder / f"checkpoints/{name}.pt", weights_only=True)


def assert_same_state(one, other):
    assert_same_weights(one, other)
    first, second = saved(one)["raw_model"], saved(other)["raw_model"]
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


def test_two_ranks_hold_the_same_mean_and_resume_exactly(tmp_path, data):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    options = {**OPTIONS, "data__batch_size": 4, "data__workers": 0}
    line = arguments(data, whole, **options)
    assert ranks.run(2, line, tmp_path / "logs").codes == [0, 0]
    line = arguments(data, cut, run__max_steps=3, **options)
    assert ranks.run(2, line, tmp_path / "logs").codes == [0, 0]
    ended = ranks.run(2, ["fit", f"--run.resume={cut}", "--run.max_steps=null"], tmp_path / "logs")
    assert ended.codes == [0, 0], ended.outputs
    assert_same_state(cut, whole)
    losses = [
        [row["val_loss"] for row in map(json.loads, (f / "metrics.jsonl").read_text().splitlines())]
        for f in (whole, cut)
    ]
    assert losses[0] == losses[1]
