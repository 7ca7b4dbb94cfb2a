"""The kernels of resize.py: a window of uint8 pixels -> a square, in integers.

Four rows of the square at a time: each is mixed from rows of the window (`_mix_rows`, exact), then
its pixels from neighbours in that mixture (`mix_pixels`). Between the two a level has 16 bits, 8 of
them behind the point, so the result is the exact one, rounded once, but for a few hundredths of a
level. Nothing overflows: weights are positive and add up to one.
"""

import numpy as np
from numba import carray

from train.data.kernels import kernel
from train.data.vector_kernels import ROWS, mix_pixels, pointer
from train.data.weight_kernels import LANES, spread, weigh

MOST_PAIRS = 16
"""Pairs of neighbours that are mixed in 16 bits; the rounding of more would add up."""


@kernel("void(uint8[::1], uint8[::1], uint32, uint32, uint16[::1])")
def _mix_2(a, b, u, v, out):
    """Rows of bytes -> their mixture, 8 bits before and 8 behind the point."""
    for j in range(len(a)):
        total = np.uint32(np.uint32(a[j]) * u + np.uint32(b[j]) * v + np.uint32(0x8000))
        out[j] = total >> np.uint32(16)


@kernel("void(uint8[::1], uint8[::1], uint8[::1], uint32, uint32, uint32, uint16[::1])")
def _mix_3(a, b, c, u, v, w, out):
    """As `_mix_2`."""
    for j in range(len(a)):
        total = np.uint32(
            np.uint32(a[j]) * u + np.uint32(b[j]) * v + np.uint32(c[j]) * w + np.uint32(0x8000)
        )
        out[j] = total >> np.uint32(16)


@kernel(
    "void(uint8[::1], uint8[::1], uint8[::1], uint8[::1], uint32, uint32, uint32, uint32,"
    " uint32[::1])"
)
def _add_4(a, b, c, d, u, v, w, x, sums):
    """Four rows of a mixture of many."""
    for j in range(len(a)):
        sums[j] = np.uint32(
            sums[j]
            + np.uint32(a[j]) * u
            + np.uint32(b[j]) * v
            + np.uint32(c[j]) * w
            + np.uint32(d[j]) * x
        )


@kernel("void(uint32[::1], uint16[::1])")
def _narrow(sums, out):
    """A mixture of many rows -> 8 bits before and 8 behind the point."""
    for j in range(len(out)):
        out[j] = sums[j] >> np.uint32(16)


@kernel("void(int64, int64, int64, int64, uint32[:, ::1], int64, uint32[::1], uint16[::1])")
def _mix_rows(address, stride, size, count, weights, row, sums, out):
    """Mix `count` rows of `size` bytes; the first lies at `address`, the next `stride` further."""
    last = count - 1
    a = carray(pointer(address), (size,), np.uint8)
    b = carray(pointer(address + min(1, last) * stride), (size,), np.uint8)
    if count <= 2:
        _mix_2(a, b, weights[row, 0], weights[row, 1], out)
    elif count == 3:
        c = carray(pointer(address + 2 * stride), (size,), np.uint8)
        _mix_3(a, b, c, weights[row, 0], weights[row, 1], weights[row, 2], out)
    else:
        sums[:size] = 0x8000
        for k in range(0, count, 4):
            # Rows past the last one have no weight; the last stands for them.
            a = carray(pointer(address + k * stride), (size,), np.uint8)
            b = carray(pointer(address + min(k + 1, last) * stride), (size,), np.uint8)
            c = carray(pointer(address + min(k + 2, last) * stride), (size,), np.uint8)
            d = carray(pointer(address + min(k + 3, last) * stride), (size,), np.uint8)
            u, v = weights[row, k], weights[row, k + 1]
            w, x = weights[row, k + 2], weights[row, k + 3]
            _add_4(a, b, c, d, u, v, w, x, sums)
        _narrow(sums, out)


@kernel("void(uint16[::1], int64, int32[::1], int64, uint16[::1], uint16[::1])")
def _mix_four_rows(rows, row, firsts, pairs, vectors, out):
    """`mix_pixels` for all pixels; a number that stands there is a loop that LLVM unrolls."""
    if pairs == 1:
        for i in range(len(firsts)):
            mix_pixels(rows, row, 3 * firsts[i], vectors, i * LANES, 1, out, 3 * i)
    elif pairs == 2:
        for i in range(len(firsts)):
            mix_pixels(rows, row, 3 * firsts[i], vectors, i * 2 * LANES, 2, out, 3 * i)
    else:
        for i in range(len(firsts)):
            mix_pixels(rows, row, 3 * firsts[i], vectors, i * pairs * LANES, pairs, out, 3 * i)


@kernel("void(uint16[::1], int64, int32[::1], int32[::1], uint32[:, ::1], uint16[::1])")
def _mix_many_pixels(rows, start, firsts, counts, weights, out):
    """As `mix_pixels`, for all pixels of one row and any number of neighbours."""
    for i in range(len(firsts)):
        for colour in range(3):
            total = np.int64(0x800000)
            at = start + firsts[i] * 3 + colour
            for k in range(counts[i]):
                total += np.int64(rows[at + 3 * k]) * np.int64(weights[i, k])
            out[start + 3 * i + colour] = total >> 24


@kernel("void(uint16[::1], uint8[::1])")
def _round(levels, out):
    """8 bits behind the point -> none."""
    for j in range(len(out)):
        out[j] = np.uint16(levels[j] + np.uint16(128)) >> np.uint16(8)


@kernel(
    "void(int64, int64, int64, int64, float64, float64, float64, float64, boolean, boolean,"
    " uint8[:, :, ::1])"
)
def scale(address, stride, width, height, x, y, x_size, y_size, antialias, mirrored, out):
    """Scale a window into a square.

    Args:
        address: of the first pixel, RGB; the pixels of a row lie side by side.
        stride: bytes from a row to the next, negative where rows lie upwards.
        width: pixels that there are in a row.
        height: rows that there are.
        x: where the part begins that fills the square.
        y: the same.
        x_size: width of that part.
        y_size: height of that part.
        antialias: see `weigh`.
        mirrored: left and right are exchanged.
        out: uint8 (S, S, 3), written.
    """
    count = len(out)
    most = 2 * int(max(x_size, y_size) / count + 1) + 6
    firsts, counts = np.empty(count, np.int32), np.empty(count, np.int32)
    tops, heights = np.empty(count, np.int32), np.empty(count, np.int32)
    across, down = np.zeros((count, most), np.uint32), np.zeros((count, most), np.uint32)
    pairs = (weigh(x, x_size, width, antialias, mirrored, firsts, counts, across) + 1) // 2
    weigh(y, y_size, height, antialias, False, tops, heights, down)
    few = pairs <= MOST_PAIRS
    vectors = np.empty(count * pairs * LANES if few else 0, np.uint16)
    if few:
        spread(counts, across, pairs, vectors)
    size = 3 * width
    row = max(size + 6 * pairs + LANES, 3 * count + LANES)
    rows, mixed = np.empty(ROWS * row, np.uint16), np.empty(ROWS * row, np.uint16)
    sums = np.empty(size, np.uint32)
    for top in range(0, count, ROWS):
        many = min(ROWS, count - top)
        for n in range(many):
            i = top + n
            at = address + tops[i] * stride
            mixture = carray(pointer(rows.ctypes.data + 2 * n * row), (size,), np.uint16)
            _mix_rows(at, stride, size, heights[i], down, i, sums, mixture)
            if not few:
                _mix_many_pixels(rows, n * row, firsts, counts, across, mixed)
        if few:
            _mix_four_rows(rows, row, firsts, pairs, vectors, mixed)
        for n in range(many):
            levels = carray(pointer(mixed.ctypes.data + 2 * n * row), (3 * count,), np.uint16)
            place = out.ctypes.data + (top + n) * 3 * count
            _round(levels, carray(pointer(place), (3 * count,), np.uint8))


@kernel("void(uint8[:, :, ::1], uint8[:, :, ::1])")
def transpose(pixels, out):
    """Exchange rows and columns of a square: uint8 (S, S, 3)."""
    for y in range(len(out)):
        for x in range(len(out)):
            for colour in range(3):
                out[y, x, colour] = pixels[x, y, colour]
