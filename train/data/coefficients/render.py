"""Windows of coefficient records -> their places in the batch: uint8 (S, S, 3).

The kernels are compiled at their first use, or by `warm()`.
"""

from types import ModuleType
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from train.data.augment import Box
from train.data.coefficients import record as records
from train.data.coefficients.compiling import compiling
from train.errors import BadSample

METHODS = ("antialias", "bilinear", "dct")
"""Values of data.resize, in the order of the kernel's numbers."""

_kernels: Optional[ModuleType] = None


class Task(NamedTuple):
    """One window to be rendered.

    Attributes:
        data: the record.
        box: the window, upright pixels.
        flip: exchange left and right.
        out: uint8 (h, w, 3), contiguous, written.
    """

    data: Any
    box: Box
    flip: bool
    out: np.ndarray


def warm() -> ModuleType:
    """Load the kernels, or compile them (the first time on a machine).

    Called where the first record is looked at, before workers are forked, so that none of them
    needs to.

    Returns:
        The module of the kernels.
    """
    global _kernels
    if _kernels is None:
        with compiling():
            from train.data.coefficients import batch_kernel

        _kernels = batch_kernel
    return _kernels


def render(tasks: Sequence[Task], scratch: Any, resize: str) -> List[Optional[str]]:
    """Render windows in one call that holds no lock of Python.

    Args:
        tasks: what to render.
        scratch: see `decode.Scratch`.
        resize: "antialias", "bilinear" or "dct", see `DataConfig`.

    Returns:
        For each why it is bad, or None. What is written for a bad one means nothing.
    """
    kernels = _kernels or warm()
    arrays = [_aligned(task.data) for task in tasks]  # holds the memory until the kernel is done
    addresses = np.array([array.ctypes.data for array in arrays], np.int64)
    sizes = np.array([len(array) for array in arrays], np.int64)
    windows = np.array([(*task.box, task.flip, *task.out.shape[:2]) for task in tasks], np.int64)
    outs = np.array([task.out.ctypes.data for task in tasks], np.int64)
    found = np.zeros(len(tasks), np.int64)
    first, needed = 0, 1 << 20
    while first < len(tasks):
        memory = scratch.take(needed + 64)
        address = -(-memory.ctypes.data // 64) * 64
        space = memory.ctypes.data + len(memory) - address
        first = kernels.render_many(
            addresses, sizes, windows, METHODS.index(resize), outs, found, first, address, space,
        )  # fmt: skip
        if first < len(tasks):
            needed = max(-int(found[first]), space + 1)
    return [None if code == 0 else _reason(task, code) for task, code in zip(tasks, found.tolist())]


def render_now(task: Task, scratch: Any, resize: str = "antialias") -> None:
    """Render one window.

    Raises:
        BadSample: damaged.
    """
    (reason,) = render([task], scratch, resize)
    if reason is not None:
        raise BadSample(reason)


def _aligned(data: Any) -> np.ndarray:
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    return array if array.ctypes.data % 8 == 0 else _copied(array)


def _copied(array: np.ndarray) -> np.ndarray:
    copy = np.empty(-(-len(array) // 8), np.uint64).view(np.uint8)[: len(array)]
    copy[:] = array
    return copy


def _reason(task: Task, code: int) -> str:
    kernels = _kernels or warm()
    if code == kernels.DATA:
        return "damaged coefficient record: its masks and the index of its values disagree"
    if code == kernels.BOX:
        return f"damaged coefficient record: no window {tuple(task.box)} in its picture"
    try:
        records.parse(task.data)
    except BadSample as error:
        return str(error)
    return "damaged coefficient record: its header makes no sense"
