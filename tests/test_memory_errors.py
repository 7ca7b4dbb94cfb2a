"""Memory that runs out: whose it was and what to lower; anything else is left alone."""

import pytest
import torch

from train.config import Config
from train.errors import SetupError
from train.memory_errors import memory_errors_explained


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"),
            r"2\.00 GiB: the GPU's memory is full; lower data\.batch_size \(64 now\).*"
            r"--data\.batch_size 32 --optim\.accumulate 2",
        ),
        (RuntimeError("CUDA error: out of memory"), "the GPU's memory is full"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate "
                         "memory: you tried to allocate 9 bytes"),
            r"this machine's memory is full; lower data\.workers \(auto now\)",
        ),
        (MemoryError(), r"MemoryError: this machine's memory is full; .* data\.prefetch"),
        (RuntimeError("Too many open files. Communication"), "ulimit -n"),
    ],
)  # fmt: skip
def test_what_to_lower(error, expected):
    with pytest.raises(SetupError, match=expected) as stop, memory_errors_explained(Config()):
        raise error
    assert "\n" not in str(stop.value)


def test_other_errors_stay_what_they_are():
    with pytest.raises(RuntimeError, match="shapes"), memory_errors_explained(Config()):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
