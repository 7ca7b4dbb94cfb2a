"""Which numbers are computed in, by what was asked for and what the device can do."""

import pytest
import torch

from train import precision
from train.errors import ConfigError
from train.precision import choose_precision

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Scaler:
    """Stands for torch's, which warns where there is no GPU."""


@pytest.fixture
def gpu(monkeypatch):
    """A GPU with or without bf16, as `gpu(True)`."""
    monkeypatch.setattr(precision, "_scaler", Scaler)
    return lambda has_bf16: monkeypatch.setattr(precision, "_has_bf16", lambda: has_bf16)


def test_on_the_cpu_auto_means_full_precision():
    found = choose_precision("auto", CPU)
    assert (found.name, found.dtype, found.scaler) == ("fp32", torch.float32, None)
    assert "CPU" in found.reason


def test_auto_takes_bf16_where_the_gpu_has_it_else_fp16_with_scaling(gpu):
    gpu(True)
    found = choose_precision("auto", CUDA)
    assert (found.name, found.dtype, found.scaler) == ("bf16", torch.bfloat16, None)
    gpu(False)
    found = choose_precision("auto", CUDA)
    assert (found.name, found.dtype) == ("fp16", torch.float16)
    assert isinstance(found.scaler, Scaler)
    assert "no bf16" in found.reason


@pytest.mark.parametrize("name", ["fp32", "bf16"])
@pytest.mark.parametrize("device", [CPU, CUDA])
def test_what_was_asked_for_is_taken(name, device, gpu):
    gpu(False)
    found = choose_precision(name, device)
    assert found.name == name
    assert found.scaler is None
    assert "set by run.precision" in found.reason


def test_fp16_on_the_cpu_is_refused():
    with pytest.raises(
        ConfigError, match=r"run\.precision=fp16 needs a GPU; on the CPU use fp32 or bf16"
    ):
        choose_precision("fp16", CPU)


def test_autocast_changes_the_type_of_products_and_nothing_else():
    a = torch.ones(4, 4)
    with choose_precision("bf16", CPU).autocast(CPU):
        assert (a @ a).dtype == torch.bfloat16
    with choose_precision("fp32", CPU).autocast(CPU):
        assert (a @ a).dtype == torch.float32
    assert (a @ a).dtype == torch.float32


@pytest.mark.parametrize("emulated", [True, False])
def test_bf16_by_emulation_does_not_count(monkeypatch, emulated):
    def newer(including_emulation=True):
        return including_emulation or not emulated

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", newer)
    assert precision._has_bf16() is not emulated
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)  # as in PyTorch 2.1
    assert precision._has_bf16()
