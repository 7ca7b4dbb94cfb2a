"""CUDA that can't be started: its number in plain words, for a GPU that was asked for or not."""

import warnings

import pytest
import torch

from train.driver import cuda_error_meaning
from train.errors import SetupError
from train.prepare import choose_device

SAID = (
    "CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
    "functions before calling NumCudaDevices() that might have already set an error? Error 804: "
    "forward compatibility was attempted on non supported HW (Triggered internally at x.cpp:108.)"
)


def test_numbers_have_a_meaning_and_a_remedy():
    assert "take cuda-compat out of LD_LIBRARY_PATH" in cuda_error_meaning(SAID)
    assert "restart the machine" in cuda_error_meaning("Error 803: system has unsupported display")
    assert cuda_error_meaning("Error 100: no CUDA-capable device is detected") == ""
    assert cuda_error_meaning("all is well") == ""


@pytest.fixture
def refused(monkeypatch):
    """A PyTorch whose CUDA does not start."""

    def is_available():
        warnings.warn(SAID, stacklevel=2)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", is_available)


def test_a_gpu_that_was_asked_for(refused):
    with pytest.raises(SetupError, match=r"finds no GPU .*CUDA's error 804: libraries of CUDA's"):
        choose_device("cuda")


def test_a_gpu_that_is_there_and_not_used_is_no_secret(refused, capsys):
    assert choose_device("auto") == torch.device("cpu")
    text = " ".join(capsys.readouterr().out.split())
    assert "warning: no GPU is used: CUDA's error 804" in text
    assert choose_device("cpu") == torch.device("cpu")
    assert capsys.readouterr().out == ""
