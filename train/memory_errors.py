"""When memory runs out: whose it was, and what to lower."""

import contextlib
import os
import re
from typing import Iterator

import torch

from train.config import Config
from train.errors import SetupError
from train.machine import open_file_limit

_DEVICE = re.compile(r"CUDA out of memory|CUDA error: out of memory|cudaErrorMemoryAllocation")
_HOST = re.compile(
    r"can't allocate memory|not enough memory|Cannot allocate memory|Unable to allocate|bad_alloc"
)
_FILES = re.compile(r"Too many open files|received \d+ items of ancdata")


@contextlib.contextmanager
def memory_errors_explained(config: Config) -> Iterator[None]:
    """Turn what PyTorch, NumPy and the system say when memory runs out into what to do.

    Raises:
        SetupError: names the settings to lower.
    """
    try:
        yield
    except (RuntimeError, MemoryError, OSError) as error:
        advice = advice_for(error, config)
        if not advice:
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0] or type(error).__name__
        raise SetupError(f"{first.rstrip('. ')}: {advice}") from error


def advice_for(error: BaseException, config: Config) -> str:
    """What to lower; '' where the error is of another kind."""
    text, data = str(error), config.data
    cuda_kind = getattr(torch.cuda, "OutOfMemoryError", None)
    if (cuda_kind is not None and isinstance(error, cuda_kind)) or _DEVICE.search(text):
        half = max(1, data.batch_size // 2)
        return (
            f"the GPU's memory is full; lower data.batch_size ({data.batch_size} now); with "
            "optim.accumulate raised as much the gradient stays the same (--data.batch_size "
            f"{half} --optim.accumulate {2 * config.optim.accumulate}); or lower data.image_size "
            f"({data.image_size} now), or take a smaller model. nvidia-smi shows who else uses it"
        )
    if isinstance(error, MemoryError) or _HOST.search(text):
        return (
            f"this machine's memory is full; lower data.workers ({data.workers} now), "
            f"data.prefetch ({data.prefetch} now) or data.batch_size ({data.batch_size} now); "
            "train info shows the limit"
        )
    if _FILES.search(text):
        return (
            f"{_open_files()}; raise the limit (ulimit -n 65536; docker run --ulimit "
            "nofile=65536), or lower data.workers"
        )
    return ""


def _open_files() -> str:
    """How many files this process has open, and how many it may have."""
    limit = open_file_limit()
    try:
        count = f"{len(os.listdir('/proc/self/fd'))} files are open"
    except OSError:  # no such folder here, or no descriptor is left to read it with
        count = "too many files are open"
    return f"{count}, the limit is {limit.value} ({limit.source})"
