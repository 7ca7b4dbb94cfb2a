"""What numba has no words for: memory at an address, and bits that are counted."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from train.data.jpeg.bits import kernel
from train.data.vector_kernels import pointer

__all__ = ["address", "carray", "kernel", "lowest", "pointer", "popcount"]


@intrinsic
def popcount(typing: Any, word: Any) -> Any:
    """How many bits of a uint64 are set, int64."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), build


@intrinsic
def lowest(typing: Any, word: Any) -> Any:
    """The number of the lowest bit that is set in a uint64 (not 0), int64."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), build


@kernel
def address(array):
    """Where an array's first number lies: int64, since uint64 and int64 make a float."""
    return np.int64(array.ctypes.data)
