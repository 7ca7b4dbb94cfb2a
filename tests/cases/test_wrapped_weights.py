"""Weights of a model that DDP and torch.compile have wrapped: found by their own names, all."""

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from train.checkpoint import Identity, State, content_of, rank_content
from train.checkpoint_file import pack
from train.errors import CheckpointError
from train.model import build_model, build_optimizer, load_weights

NAME = "shufflenet_v2_x0_5"


@pytest.fixture(scope="module")
def wrapped():
    """A model in torch.compile, in DDP: its names begin with `module._orig_mod.`."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        torch.manual_seed(3)
        # eager: the compiler itself would start a process, and leave it
        model = DistributedDataParallel(torch.compile(build_model(NAME, 3), backend="eager"))
        assert all(name.startswith("module._orig_mod.") for name in model.state_dict())
        yield model
    finally:
        torch.distributed.destroy_process_group()


def assert_loaded(model, path):
    plain = build_model(NAME, 3)
    assert load_weights(plain, str(path)) == []
    loaded, own = plain.state_dict(), model.module._orig_mod.state_dict()
    assert loaded.keys() == own.keys()
    assert all(torch.equal(loaded[name], own[name]) for name in own)


def test_a_checkpoint_has_the_models_own_names(wrapped, tmp_path):
    state = State(wrapped, build_optimizer(wrapped, 1e-4))
    identity = Identity({"run.seed": 0}, ("a", "b", "c"), 9, 3)
    content = content_of(state, identity, [rank_content(state)])
    assert set(content["model"]) == set(build_model(NAME, 3).state_dict())
    (tmp_path / "last.pt").write_bytes(pack(content))
    assert_loaded(wrapped, tmp_path / "last.pt")


def test_weights_that_another_program_saved_wrapped_are_loaded(wrapped, tmp_path):
    torch.save(wrapped.state_dict(), tmp_path / "weights.pt")
    assert_loaded(wrapped, tmp_path / "weights.pt")


def test_a_weight_that_is_missing_is_never_passed_over(wrapped, tmp_path):
    weights = wrapped.state_dict()
    del weights["module._orig_mod.conv1.0.weight"]
    torch.save(weights, tmp_path / "weights.pt")
    before = build_model(NAME, 3)
    kept = {name: value.clone() for name, value in before.state_dict().items()}
    with pytest.raises(CheckpointError, match=r"1 of \d+ weights are missing \(conv1\.0\.weight\)"):
        load_weights(before, str(tmp_path / "weights.pt"))
    assert all(torch.equal(kept[name], value) for name, value in before.state_dict().items())
