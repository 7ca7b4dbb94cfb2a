"""NVIDIA's driver beside PyTorch's CUDA, by a fake NVML and a fake PyTorch."""

import sys
import types

import pytest

from train import driver
from train.gpu import Gpu


@pytest.fixture
def machine(monkeypatch):
    """A function that says which driver is there, and what PyTorch is built for."""

    def be(driver_version, built, gpus=1):
        found = [
            Gpu(n, "NVIDIA A100", 80 << 30, False, driver_version, "12.2") for n in range(gpus)
        ]
        monkeypatch.setattr(driver, "gpus", lambda: (found, "NVML"))
        torch = types.SimpleNamespace(version=types.SimpleNamespace(cuda=built))
        monkeypatch.setitem(sys.modules, "torch", torch)

    return be


@pytest.mark.parametrize(
    ("version", "built"),
    [
        ("525.60.13", "12.4"),
        ("550.54.15", "12.4"),
        ("535.104.05", "12.4"),
        ("450.80.02", "11.8"),
        ("580.65.06", "13.0"),
        ("580.65.06", "11.8"),
        ("unknown", "12.4"),
        ("470.57.02", "99.0"),
    ],
)
def test_a_driver_that_suits(machine, version, built):
    machine(version, built)
    assert driver.driver_problem() is None


@pytest.mark.parametrize(
    ("version", "built", "least"),
    [
        ("470.57.02", "12.4", "525.60.13"),
        ("525.60.12", "12.1", "525.60.13"),
        ("550.54.15", "13.0", "580"),
        ("440.33.01", "11.8", "450.80.02"),
    ],
)
def test_a_driver_that_is_too_old(machine, version, built, least):
    machine(version, built)
    problem = driver.driver_problem()
    assert f"driver {version} (CUDA up to 12.2) is too old" in problem
    assert f"built for CUDA {built}: that needs driver {least} or newer" in problem
    assert problem in driver.driver_row().source


def test_a_cpu_build_beside_a_gpu(machine):
    machine("550.54.15", None)
    assert (
        "this PyTorch is a CPU build, and there is a GPU (NVIDIA A100)" in driver.driver_problem()
    )


def test_without_a_gpu_there_is_no_problem(machine):
    machine("550.54.15", None, gpus=0)
    assert driver.driver_problem() is None
    assert driver.driver_row().value == "none"


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("from typing import Optional\ncuda: Optional[str] = '12.4'\nhip = None\n", "12.4"),
        ("cuda = '11.8'\n", "11.8"),
        ("cuda: Optional[str] = None\n", "none"),
        ("", "none"),
    ],
)
def test_pytorchs_cuda_is_read_without_importing_it(tmp_path, monkeypatch, text, cuda):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    (tmp_path / "version.py").write_text(text)
    place = types.SimpleNamespace(locate_file=lambda name: tmp_path / "version.py")
    monkeypatch.setattr(driver.metadata, "distribution", lambda name: place)
    assert driver.torch_cuda().value == cuda


def test_without_pytorch(monkeypatch):
    def missing(name):
        raise driver.metadata.PackageNotFoundError(name)

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(driver.metadata, "distribution", missing)
    assert driver.torch_cuda().value == "no PyTorch"
