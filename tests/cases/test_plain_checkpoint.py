"""A checkpoint names only what every supported PyTorch reads with `weights_only=True`."""

import argparse
import io
import pickletools
import zipfile
from pathlib import Path

import pytest
import torch
from small_run import arguments, fit, make_images

from train.checkpoint_file import pack
from train.errors import CheckpointError
from train.model import build_model, load_weights

# What the weights_only reader of PyTorch 2.1, the oldest one supported, allows and later ones too.
ALLOWED = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    *(f"torch {kind}Storage" for kind in ("Float", "Double", "Long", "Int", "Byte", "Bool")),
    "torch ByteStorage",
}


def names_in(path):
    """The names of Python objects that reading this file would look up."""
    with zipfile.ZipFile(path) as file:
        (name,) = [item for item in file.namelist() if item.endswith("/data.pkl")]
        data = file.read(name)
    found, words = set(), []
    for operation, argument, _ in pickletools.genops(data):
        if operation.name == "GLOBAL":
            found.add(argument)
        elif operation.name == "STACK_GLOBAL":
            found.add(" ".join(words[-2:]))
        elif isinstance(argument, str):
            words.append(argument)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was saved in the middle of an epoch, with all that a checkpoint can hold."""
    folder = tmp_path_factory.mktemp("run")
    data = make_images(folder / "images", train=6, val=2)
    words = arguments(
        data, folder / "run", data__workers=0, data__batch_size=6, run__max_steps=4, optim__epochs=2
    )
    assert fit(*words) == 0
    return folder / "run"


@pytest.mark.parametrize("name", ["last.pt", "previous.pt", "best.pt"])
def test_it_names_plain_types_and_tensors_alone(run, name):
    names = names_in(run / "checkpoints" / name)
    assert names - ALLOWED == set()
    assert "torch._utils _rebuild_tensor_v2" in names
    content = torch.load(run / "checkpoints" / name, weights_only=True)
    assert content["config"]["optim.epochs"] == 2  # settings as plain values, not as an object


def test_the_search_finds_what_newer_versions_refuse(tmp_path):
    torch.save({"args": argparse.Namespace(lr=1)}, tmp_path / "foreign.pt")
    assert "argparse Namespace" in names_in(tmp_path / "foreign.pt")
    (tmp_path / "ours.pt").write_bytes(pack({"step": 1}))
    assert names_in(tmp_path / "ours.pt") <= ALLOWED


def test_weights_beside_an_object_are_refused_by_name(tmp_path):
    model, memory = build_model("shufflenet_v2_x0_5", 3), io.BytesIO()
    torch.save({"model": model.state_dict(), "args": argparse.Namespace(lr=1)}, memory)
    path = Path(tmp_path, "foreign.pt")
    path.write_bytes(memory.getvalue())
    with pytest.raises(CheckpointError, match=r"foreign\.pt' is no file of plain tensors"):
        load_weights(model, str(path))
