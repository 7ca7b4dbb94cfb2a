"""The model, weights from a file, the optimizer's groups, and the learning rate."""

import pytest
import torch
from torch import nn

from train.errors import CheckpointError, ConfigError
from train.model import build_model, build_optimizer, learning_rate, load_weights, unwrapped


@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenet_v3_small", "squeezenet1_1", "googlenet", "shufflenet_v2_x0_5"]
)
def test_any_classifier_gives_one_number_a_class(name):
    model = build_model(name, 7).train()
    assert model(torch.zeros(2, 3, 64, 64)).shape == (2, 7)


def test_inception_has_one_output_too():
    model = build_model("inception_v3", 4).train()
    assert model(torch.zeros(2, 3, 96, 96)).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("resnet81", "resnet"),
        ("convnext", "convnext_"),
        ("fcn_resnet50", "resnet50"),
        ("zzz", "alexnet"),
    ],
)
def test_an_unknown_name_comes_with_near_ones(name, near):
    with pytest.raises(ConfigError, match=rf"no classifier '{name}'; did you mean .*{near}"):
        build_model(name, 2)


def save(tmp_path, content):
    path = tmp_path / "weights.pt"
    torch.save(content, path)
    return str(path)


def equal(a, b):
    return all(torch.equal(value, b.state_dict()[name]) for name, value in a.state_dict().items())


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod."])
@pytest.mark.parametrize("inside", [True, False], ids=["checkpoint", "state dict"])
def test_weights_are_loaded_from_either_kind_of_file(tmp_path, prefix, inside):
    source, target = build_model("squeezenet1_1", 5), build_model("squeezenet1_1", 5)
    weights = {prefix + name: value for name, value in source.state_dict().items()}
    path = save(tmp_path, {"model": weights, "step": 3} if inside else weights)
    assert load_weights(target, path) == []
    assert equal(source, target)


def test_a_last_layer_for_other_classes_starts_anew_and_is_named(tmp_path):
    source, target = build_model("resnet18", 10), build_model("resnet18", 3)
    before = target.fc.weight.clone()
    assert load_weights(target, save(tmp_path, source.state_dict())) == ["fc.weight", "fc.bias"]
    assert torch.equal(target.fc.weight, before)
    assert torch.equal(target.conv1.weight, source.conv1.weight)


class Evil:
    """Unpickling it would run code."""

    def __reduce__(self):
        return print, ("run",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": torch.zeros(1)}, "is of another model: .* weights are missing .*1 are unknown .a."),
        ([1, 2], "holds no state dict"),
        ({"model": 3}, "holds no state dict"),
        ({"a": 3}, "holds no state dict"),
        (Evil(), "is no file of plain tensors"),
    ],
    ids=["other model", "list", "number", "no tensors", "code"],
)
def test_what_is_no_file_of_weights_is_refused(tmp_path, content, message, capsys):
    model = build_model("squeezenet1_1", 2)
    with pytest.raises(CheckpointError, match=message):
        load_weights(model, save(tmp_path, content))
    assert capsys.readouterr().out == ""


def test_a_missing_or_torn_file_of_weights_is_named(tmp_path):
    model = build_model("squeezenet1_1", 2)
    with pytest.raises(CheckpointError, match=r"no such file: .*gone.pt"):
        load_weights(model, str(tmp_path / "gone.pt"))
    path = save(tmp_path, model.state_dict())
    with open(path, "r+b") as file:
        file.truncate(1000)
    with pytest.raises(CheckpointError, match=r"is no file of plain tensors"):
        load_weights(model, path)


def test_names_lose_their_wrappers_only_in_front():
    assert unwrapped("module._orig_mod.layer.module.weight") == "layer.module.weight"
    assert unwrapped("modules.weight") == "modules.weight"


def test_only_weights_decay():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    model[3].bias.requires_grad = False
    optimizer = build_optimizer(model, 0.5)
    decayed, others = optimizer.param_groups
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.5, 0.0)
    assert {id(p) for p in decayed["params"]} == {id(model[0].weight), id(model[3].weight)}
    assert {id(p) for p in others["params"]} == {
        id(model[0].bias),
        id(model[1].weight),
        id(model[1].bias),
    }
    assert all(group["nesterov"] and group["momentum"] == 0.9 for group in optimizer.param_groups)


def test_the_learning_rate_rises_to_the_peak_and_falls_to_zero():
    rates = [learning_rate(step, 100, 10, 0.4) for step in range(100)]
    assert rates[0] == pytest.approx(0.04)
    assert rates[9] == rates[10] == pytest.approx(0.4)
    assert rates[55] == pytest.approx(0.2)
    assert all(a > b for a, b in zip(rates[10:], rates[11:]))
    assert 0 < rates[99] < 0.001
    assert learning_rate(100, 100, 10, 0.4) == learning_rate(500, 100, 10, 0.4) == 0.0


def test_a_run_may_be_nothing_but_warm_up_or_without_any():
    assert learning_rate(0, 10, 0, 1.0) == 1.0
    assert [learning_rate(step, 4, 4, 1.0) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert 0 <= learning_rate(4, 4, 4, 1.0) <= 1.0
