"""Does NVIDIA's driver suit the CUDA that this PyTorch was built for? Asked without starting CUDA.

A driver runs what was built for its own CUDA and for older ones, and for newer ones of the same
major version. So what counts is the least driver of the major version.

Source: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes (tables 2 and 3) and
https://docs.nvidia.com/deploy/cuda-compatibility
"""

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Optional, Tuple

from train.cgroup import Measure
from train.gpu import gpus

_LEAST_DRIVERS = {13: "580", 12: "525.60.13", 11: "450.80.02"}

_MEANINGS = {
    "804": "libraries of CUDA's forward compatibility are found before the driver's own, and this "
    "GPU is none that may use them: take cuda-compat out of LD_LIBRARY_PATH and /etc/ld.so.conf.d, "
    "or update the driver of the host",
    "803": "the driver's libraries and its kernel module differ, as after an update: restart the "
    "machine, and then the container",
    "802": "the GPU's fabric is not ready: start nvidia-fabricmanager on the host",
    "999": "CUDA's device files are in disorder, often after the machine slept: restart it, or "
    "reload the module nvidia_uvm",
}


def cuda_error_meaning(text: str) -> str:
    """What a number of CUDA's in an error or a warning of PyTorch means and what to do; else ''."""
    found = re.search(r"\bError (\d+)\b", text)
    if found is None or found.group(1) not in _MEANINGS:
        return ""
    return f"CUDA's error {found.group(1)}: {_MEANINGS[found.group(1)]}"


def driver_problem() -> Optional[str]:
    """What keeps this PyTorch from the GPUs of this machine, and what to do; None: nothing known.

    It imports neither torch nor starts CUDA, and never raises.
    """
    found, _ = gpus()
    built = torch_cuda()
    if not found or built.value == "no PyTorch":
        return None  # nothing to drive, or nobody to drive it
    gpu = found[0]
    if built.value == "none":
        return (
            f"this PyTorch is a CPU build, and there is a GPU ({gpu.name}): install a CUDA build; "
            "make env FORCE=1 makes the environment again"
        )
    least = least_driver(built.value)
    if least is None or not _numbers(gpu.driver):
        return None
    if _numbers(gpu.driver) >= _numbers(least):
        return None
    return (
        f"NVIDIA's driver {gpu.driver} (CUDA up to {gpu.cuda_driver}) is too old for this PyTorch, "
        f"which is built for CUDA {built.value}: that needs driver {least} or newer. Update the "
        "driver of the host, or take a PyTorch built for an older CUDA"
    )


def least_driver(cuda: str) -> Optional[str]:
    """The oldest driver (of Linux) that runs programs of a CUDA version: '12.4' -> '525.60.13'."""
    numbers = _numbers(cuda)
    return _LEAST_DRIVERS.get(numbers[0]) if numbers else None


def torch_cuda() -> Measure[str]:
    """The CUDA that the installed PyTorch is built for, read without importing it.

    Returns:
        '12.4', or 'none' for a CPU build, or 'no PyTorch'.
    """
    name = "CUDA of PyTorch"
    if "torch" in sys.modules:
        version = getattr(getattr(sys.modules["torch"], "version", None), "cuda", None)
        return Measure(name, version or "none", "torch.version.cuda")
    try:
        path = Path(str(metadata.distribution("torch").locate_file("torch/version.py")))
        text = path.read_text(encoding="utf-8")
    except (metadata.PackageNotFoundError, OSError):
        return Measure(name, "no PyTorch", "importlib.metadata")
    found = re.search(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return Measure(name, found.group(1) if found else "none", str(path))


def driver_row() -> Measure[str]:
    """The driver beside PyTorch's CUDA, as a row of `machine.describe()`."""
    built, (found, note) = torch_cuda(), gpus()
    if not found:
        return Measure("driver", "none", f"{note}; PyTorch is built for CUDA: {built.value}")
    problem = driver_problem()
    least = least_driver(built.value)
    fits = f"PyTorch's CUDA {built.value} needs {least} or newer" if least else built.source
    return Measure("driver", found[0].driver, f"NVML; {problem or fits}")


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
