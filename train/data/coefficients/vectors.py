"""The inner steps in LLVM's vectors, where its own search for vectors falls short.

No instruction of a certain CPU is named: LLVM splits the vectors into what the CPU has (AVX-512,
AVX2, SSE, NEON), and integers and float32 without `fastmath` give the same on all of them.
"""

from typing import Any, List

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BYTE, SHORT, WORD, LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))

STEP = 32
"""Numbers that a mixing step makes."""


def constant(kind: Any, value: Any, lanes: int) -> Any:
    """A vector of equal numbers."""
    return ir.Constant(ir.VectorType(kind, lanes), [value] * lanes)


def splat(builder: Any, value: Any, lanes: int) -> Any:
    """One number in all lanes."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, value, WORD(0))
    return builder.shuffle_vector(first, undefined, constant(WORD, 0, lanes))


def load(builder: Any, address: Any, kind: Any, lanes: int) -> Any:
    """A vector from anywhere."""
    vector = ir.VectorType(kind, lanes)
    return builder.load(builder.inttoptr(address, vector.as_pointer()), align=1)


def store(builder: Any, value: Any, address: Any) -> None:
    """A vector to anywhere."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


def shuffle(builder: Any, a: Any, b: Any, lanes: List[int]) -> Any:
    """Lanes of two vectors; those of the second are numbered on."""
    mask = ir.Constant(ir.VectorType(WORD, len(lanes)), lanes)
    return builder.shuffle_vector(a, b, mask)


def high(builder: Any, a: Any, b: Any) -> Any:
    """The upper halves of the products of 16-bit numbers."""
    wide = ir.VectorType(WORD, a.type.count)
    product = builder.mul(builder.zext(a, wide), builder.zext(b, wide))
    return builder.trunc(builder.lshr(product, constant(WORD, 16, a.type.count)), a.type)


def _levels(builder: Any, address: Any, words: bool) -> Any:
    if words:
        return load(builder, address, SHORT, STEP)
    levels = load(builder, address, BYTE, STEP)
    zeros = constant(BYTE, 0, STEP)
    # Not a shift: LLVM would no longer see that the products have 16 bits.
    both = shuffle(builder, zeros, levels, [n // 2 + n % 2 * STEP for n in range(2 * STEP)])
    return builder.bitcast(both, ir.VectorType(SHORT, STEP))


def _mixer(words: bool, more: bool) -> Any:
    def mix(typing: Any, rows: Any, weights: Any, begin: Any, out: Any) -> Any:
        count = len(rows)

        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            addresses = cgutils.unpack_tuple(builder, args[0], count)
            factors = cgutils.unpack_tuple(builder, args[1], count)
            if more:
                total = load(builder, args[3], SHORT, STEP)
            else:
                total = splat(builder, args[2], STEP)
            for address, factor in zip(addresses, factors):
                levels = _levels(builder, address, words)
                total = builder.add(total, high(builder, levels, splat(builder, factor, STEP)))
            store(builder, total, args[3])
            return context.get_dummy_value()

        numbers = types.UniTuple(types.uint16, count)
        return types.void(rows, numbers, types.uint16, types.int64), build

    return mix


mix_bytes_step = intrinsic(_mixer(False, False))
"""(addresses of bytes, 16-bit weights, begin, out): STEP numbers of a mixture, see mixing.py."""

mix_words_step = intrinsic(_mixer(True, False))
"""The same of 16-bit numbers."""

add_bytes_step = intrinsic(_mixer(False, True))
"""The same, added to what is there; `begin` is not used."""

add_words_step = intrinsic(_mixer(True, True))
"""The same of 16-bit numbers."""


@intrinsic
def turn_step(typing: Any, columns: Any, stride: Any, out: Any, row: Any) -> Any:
    """16 numbers of each of 8 columns -> 8 numbers in each of 16 rows (all of 16 bits).

    The columns begin at an address, each `stride` bytes after the one before; the rows begin at
    `out`, each `row` bytes after the one before.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        columns, stride, out, row = args
        vectors = [
            load(builder, builder.add(columns, builder.mul(stride, LONG(n))), SHORT, 16)
            for n in range(8)
        ]
        halves = [
            [n // 2 + 4 * half + n % 2 * 16 + 8 * side for side in (0, 1) for n in range(8)]
            for half in (0, 1)
        ]
        for _ in range(3):
            vectors = [
                shuffle(builder, vectors[n], vectors[n + 4], halves[half])
                for n in range(4)
                for half in (0, 1)
            ]
        for side in (0, 1):
            for n, vector in enumerate(vectors):
                part = shuffle(builder, vector, vector, list(range(8 * side, 8 * side + 8)))
                place = builder.add(out, builder.mul(row, LONG(n + 8 * side)))
                store(builder, part, place)
        return context.get_dummy_value()

    return types.void(columns, types.int64, types.int64, types.int64), build


def _signed_high(builder: Any, a: Any, factor: int) -> Any:
    """The upper halves of the products of signed 16-bit numbers with one."""
    wide = ir.VectorType(WORD, STEP)
    product = builder.mul(builder.sext(a, wide), constant(WORD, factor, STEP))
    return builder.trunc(builder.ashr(product, constant(WORD, 16, STEP)), a.type)


def _byte(builder: Any, value: Any, shift: int) -> Any:
    """16-bit numbers, shifted right and limited to 0 to 255."""
    if shift:
        value = builder.ashr(value, constant(SHORT, shift, STEP))
    for sign, limit in (("<", 0), (">", 255)):
        bound = constant(SHORT, limit, STEP)
        value = builder.select(builder.icmp_signed(sign, value, bound), bound, value)
    return builder.trunc(value, ir.VectorType(BYTE, STEP))


def _interleaved(builder: Any, red: Any, green: Any, blue: Any) -> Any:
    two = shuffle(builder, red, green, list(range(2 * STEP)))
    third = shuffle(builder, blue, blue, list(range(2 * STEP)))
    order = [n // 3 + n % 3 * STEP for n in range(3 * STEP)]
    return shuffle(builder, two, third, order)


_CR_RED, _CR_GREEN, _CB_GREEN, _CB_BLUE = 26345, -18734, 22554, -14942
"""1.402 - 1, 0.714136 - 1, 0.344136 and 1.772 - 2, in 1/65536."""


@intrinsic
def ycbcr_step(typing: Any, luma: Any, blue: Any, red: Any, out: Any) -> Any:
    """STEP pixels: addresses of 16-bit numbers (8 behind the point) -> 3 * STEP bytes.

    BT.601 with all levels, as JFIF has it; within, 6 bits stand behind the point.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def read(address: Any, bias: int) -> Any:
            numbers = builder.lshr(load(builder, address, SHORT, STEP), constant(SHORT, 2, STEP))
            return builder.add(numbers, constant(SHORT, bias, STEP))

        y, cb, cr = read(args[0], 33), read(args[1], -8192), read(args[2], -8192)
        red = builder.add(builder.add(y, cr), _signed_high(builder, cr, _CR_RED))
        green = builder.sub(builder.sub(y, cr), _signed_high(builder, cr, _CR_GREEN))
        green = builder.sub(green, _signed_high(builder, cb, _CB_GREEN))
        blue = builder.add(builder.add(y, cb), builder.add(cb, _signed_high(builder, cb, _CB_BLUE)))
        parts = [_byte(builder, value, 6) for value in (red, green, blue)]
        store(builder, _interleaved(builder, *parts), args[3])
        return context.get_dummy_value()

    return types.void(luma, blue, red, out), build


@intrinsic
def rgb_step(typing: Any, red: Any, green: Any, blue: Any, out: Any) -> Any:
    """The same for planes that are red, green and blue, or three times grey."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        parts = []
        for address in args[:3]:
            numbers = load(builder, address, SHORT, STEP)
            numbers = builder.lshr(numbers, constant(SHORT, 7, STEP))
            numbers = builder.add(numbers, constant(SHORT, 1, STEP))
            parts.append(_byte(builder, numbers, 1))
        store(builder, _interleaved(builder, *parts), args[3])
        return context.get_dummy_value()

    return types.void(red, green, blue, out), build
