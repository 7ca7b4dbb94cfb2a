"""The inverse DCT of 16 blocks in LLVM's vectors: one lane a block. The sums of inverse.py.

Coefficients come either side by side (number i of block k at 16 * i + k) or block by block (at
64 * k + i); then they are turned in registers first.
"""

import math
from typing import Any, Callable, List

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from train.data.coefficients.vectors import (
    LONG,
    SHORT,
    WORD,
    constant,
    load,
    shuffle,
    splat,
    store,
)

LANES = 16
_FLOAT = ir.FloatType()


def _times(builder: Any, value: Any, factor: float) -> Any:
    return builder.fmul(value, constant(_FLOAT, float(np.float32(factor)), LANES))


def _eight(builder: Any, x: List[Any]) -> List[Any]:
    """Eight coefficients -> eight samples; Arai, Agui and Nakajima."""
    add, sub = builder.fadd, builder.fsub
    s, t, u = add(x[0], x[4]), sub(x[0], x[4]), add(x[2], x[6])
    v = sub(_times(builder, sub(x[2], x[6]), 1.414213562), u)
    p, q, r, w = add(s, u), sub(s, u), add(t, v), sub(t, v)
    z13, z10, z11, z12 = add(x[5], x[3]), sub(x[5], x[3]), add(x[1], x[7]), sub(x[1], x[7])
    o7 = add(z11, z13)
    z5 = _times(builder, add(z10, z12), 1.847759065)
    o6 = sub(sub(z5, _times(builder, z10, 2.613125930)), o7)
    o5 = sub(_times(builder, sub(z11, z13), 1.414213562), o6)
    o4 = sub(sub(z5, _times(builder, z12, 1.082392200)), o5)
    return [
        add(p, o7),
        add(r, o6),
        add(w, o5),
        add(q, o4),
        sub(q, o4),
        sub(w, o5),
        sub(r, o6),
        sub(p, o7),
    ]


def _four(builder: Any, x: List[Any]) -> List[Any]:
    """Four coefficients -> four samples."""
    near, far = (math.sqrt(2) * f(math.pi / 8) for f in (math.cos, math.sin))
    add, sub = builder.fadd, builder.fsub
    s, t = add(x[0], x[2]), sub(x[0], x[2])
    u = add(_times(builder, x[1], near), _times(builder, x[3], far))
    v = sub(_times(builder, x[1], far), _times(builder, x[3], near))
    return [add(s, u), add(t, v), sub(t, v), sub(s, u)]


def _turned(builder: Any, address: Any, quarter: int) -> List[Any]:
    """Coefficients 16 * quarter and on of 16 blocks: block by block -> side by side."""
    vectors = [
        load(builder, builder.add(address, LONG(128 * block + 32 * quarter)), SHORT, LANES)
        for block in range(LANES)
    ]
    halves = [[n // 2 + 8 * half + n % 2 * LANES for n in range(LANES)] for half in (0, 1)]
    for _ in range(4):
        vectors = [
            shuffle(builder, vectors[n], vectors[n + 8], half) for n in range(8) for half in halves
        ]
    return vectors


def _levels(builder: Any, value: Any) -> Any:
    """Samples as whole numbers, 0 to 255, in 32 bits."""
    value = builder.fadd(value, constant(_FLOAT, 128.5, LANES))
    for sign, limit in (("<", 0.0), (">", 255.0)):
        bound = constant(_FLOAT, limit, LANES)
        value = builder.select(builder.fcmp_ordered(sign, value, bound), bound, value)
    return builder.fptosi(value, ir.VectorType(WORD, LANES))


def _packed(builder: Any, levels: List[Any]) -> Any:
    """Up to four samples of each block in one word."""
    word = levels[0]
    for n, level in enumerate(levels[1:], 1):
        word = builder.or_(word, builder.shl(level, constant(WORD, 8 * n, LANES)))
    return word


def _inverse(side: int, by_block: bool, transform: Callable[[Any, List[Any]], List[Any]]) -> Any:
    def inverse(typing: Any, blocks: Any, quantiser: Any, out: Any, stride: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            blocks, quantiser, out, stride = args
            wide = ir.VectorType(WORD, LANES)
            turned: List[Any] = []
            if by_block:
                for quarter in range(side // 2):
                    turned += _turned(builder, blocks, quarter)

            def coefficient(number: int) -> Any:
                if by_block:
                    stored = turned[number]
                else:
                    stored = load(builder, builder.add(blocks, LONG(32 * number)), SHORT, LANES)
                step = builder.load(
                    builder.inttoptr(builder.add(quantiser, LONG(4 * number)), _FLOAT.as_pointer()),
                    align=4,
                )
                numbers = builder.sitofp(builder.sext(stored, wide), ir.VectorType(_FLOAT, LANES))
                return builder.fmul(numbers, splat(builder, step, LANES))

            columns = [
                transform(builder, [coefficient(8 * row + column) for row in range(side)])
                for column in range(side)
            ]
            for row in range(side):
                samples = transform(builder, [column[row] for column in columns])
                levels = [_levels(builder, sample) for sample in samples]
                word = _packed(builder, levels[:4])
                if side == 8:
                    long = ir.VectorType(LONG, LANES)
                    upper = builder.zext(_packed(builder, levels[4:]), long)
                    upper = builder.shl(upper, constant(LONG, 32, LANES))
                    word = builder.or_(builder.zext(word, long), upper)
                store(builder, word, builder.add(out, builder.mul(stride, LONG(row))))
            return context.get_dummy_value()

        return types.void(blocks, types.int64, types.int64, types.int64), build

    return inverse


inverse_8 = intrinsic(_inverse(8, False, _eight))
"""(address of 16 blocks, address of the quantiser, address of the first row, bytes to the next)."""

inverse_4 = intrinsic(_inverse(4, False, _four))
"""The same for 4 x 4 samples."""

inverse_8_by_block = intrinsic(_inverse(8, True, _eight))
"""The same for blocks that come one after the other."""

inverse_4_by_block = intrinsic(_inverse(4, True, _four))
"""The same for 4 x 4 samples of them."""
