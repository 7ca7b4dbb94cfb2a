"""What numba has no words for: an address as a pointer, and one step of resizing in vectors."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from train.data.weight_kernels import LANES

ROWS = 4
"""Rows that are mixed at once: weights are read once for all of them."""


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """An address as a pointer."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), build


@intrinsic
def mix_pixels(
    typing: Any,
    rows: Any,
    row: Any,
    at: Any,
    weights: Any,
    first: Any,
    pairs: Any,
    out: Any,
    to: Any,
) -> Any:
    """Mix one pixel in each of four rows: uint16 `rows` and `out` have four rows of `row` numbers.

    A vector holds two neighbours (red, green, blue twice; the last two lanes have no weight), so
    two are multiplied at once. LLVM finds no such vectors by itself, so it is told.

    Reads rows[n * row + at + 6 * pair :][:8] and weights[first + 8 * pair :][:8], writes
    out[n * row + to :][:4], of which the fourth is overwritten by the next pixel.
    """
    short, word, long = ir.IntType(16), ir.IntType(32), ir.IntType(64)
    vector, wide = ir.VectorType(short, LANES), ir.VectorType(word, LANES)

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, weights, out = (
            context.make_array(signature.args[n])(context, builder, args[n]).data for n in (0, 3, 6)
        )
        row, at, first, pairs, to = (args[n] for n in (1, 2, 4, 5, 7))

        def load(data: Any, index: Any) -> Any:
            place = builder.bitcast(builder.gep(data, [index]), vector.as_pointer())
            return builder.zext(builder.load(place, align=2), wide)

        def start(number: int) -> Any:
            return builder.mul(row, long(number))

        # Each product is rounded down, so half a unit is added for each.
        half = builder.trunc(pairs, short)
        bias = ir.Constant(vector, None)
        for lane in range(3):
            bias = builder.insert_element(bias, half, word(lane))
        sums = [cgutils.alloca_once(builder, vector) for _ in range(ROWS)]
        for total in sums:
            builder.store(bias, total)
        with cgutils.for_range(builder, pairs) as loop:
            weight = load(weights, builder.add(first, builder.mul(loop.index, long(LANES))))
            place = builder.add(at, builder.mul(loop.index, long(6)))
            for number, total in enumerate(sums):
                levels = load(rows, builder.add(start(number), place))
                product = builder.lshr(builder.mul(levels, weight), wide([16] * LANES))
                product = builder.trunc(product, vector)
                builder.store(builder.add(builder.load(total), product), total)
        for number, total in enumerate(sums):
            both = builder.load(total)
            four = ir.VectorType(word, 4)
            pixel = builder.add(
                builder.shuffle_vector(both, both, four([0, 1, 2, 3])),
                builder.shuffle_vector(both, both, four([3, 4, 5, 6])),
            )
            place = builder.gep(out, [builder.add(start(number), to)])
            builder.store(pixel, builder.bitcast(place, pixel.type.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(rows, row, at, weights, first, pairs, out, to), build
