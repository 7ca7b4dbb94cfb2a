"""As `expand`, by the one instruction that was made for it: AVX-512 VBMI2's `vpexpand`.

It spreads values over the set bits of a mask, a whole block at once. Bytes after the last value are
loaded too: that is what a record's TAIL is for.
"""

from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from train.data.coefficients.vectors import BYTE, LONG, SHORT, WORD, constant, load, store
from train.data.coefficients.words import address, kernel, popcount

_ONE = np.uint64(1)


def available() -> bool:
    """Whether kernels are compiled for this CPU, and it has the instruction."""
    if numba.config.CPU_NAME is not None or numba.config.CPU_FEATURES is not None:
        return False
    found = llvmlite.binding.get_host_cpu_features()
    return all(found.get(name, False) for name in ("avx512vbmi2", "avx512bw", "avx512vl"))


def _expanded(builder: Any, kind: Any, lanes: int, address: Any, mask: Any) -> Any:
    vector = ir.VectorType(kind, lanes)
    bits = ir.VectorType(ir.IntType(1), lanes)
    name = f"llvm.x86.avx512.mask.expand.v{lanes}i{kind.width}"
    signature = ir.FunctionType(vector, [vector, vector, bits])
    function = builder.module.globals.get(name) or ir.Function(builder.module, signature, name)
    values = load(builder, address, kind, lanes)
    return builder.call(function, [values, constant(kind, 0, lanes), builder.bitcast(mask, bits)])


@intrinsic
def _expand_bytes(typing: Any, values: Any, mask: Any, out: Any) -> Any:
    """Up to 63 values of a byte at an address -> 64 numbers of 16 bits at another one."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = _expanded(builder, BYTE, 64, args[0], args[1])
        store(builder, builder.sext(found, ir.VectorType(SHORT, 64)), args[2])
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64, types.int64), build


@intrinsic
def _expand_shorts(typing: Any, values: Any, mask: Any, out: Any) -> Any:
    """The same for values of two bytes."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values, mask, out = args
        low, high = builder.trunc(mask, WORD), builder.trunc(builder.lshr(mask, LONG(32)), WORD)
        store(builder, _expanded(builder, SHORT, 32, values, low), out)
        skipped = builder.mul(builder.zext(builder.ctpop(low), LONG), LONG(2))
        rest = builder.add(values, skipped)
        store(builder, _expanded(builder, SHORT, 32, rest, high), builder.add(out, LONG(64)))
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64, types.int64), build


@kernel
def expand_by_block(masks, means, values, at, begin, count, blocks):
    """As `expand`, but coefficient i of block k is written to 64 * k + i.

    What stands in blocks from `count` on stays as it was.
    """
    source, target = address(values), address(blocks)
    for k in range(count):
        mask = masks[begin + k]
        found = mask & ~_ONE
        if mask & _ONE:
            _expand_shorts(source + at, found, target + 128 * k)
            at += 2 * popcount(found)
        else:
            _expand_bytes(source + at, found, target + 128 * k)
            at += popcount(found)
        blocks[64 * k] = means[begin + k]
    return at
