"""Which samples of a plane each pixel is mixed from, and how: the weights of one axis.

The window is scaled as if the picture had been decoded before: pixels have the weights of
weight_kernels.py, and each pixel is the mixture of samples that libjpeg makes of it. Planes of half
the resolution are smoothed ("fancy upsampling": a pixel is 3/4 of its own sample and 1/4 of the one
on its other side), of a third or a quarter repeated. Both are sums, so they are put into one.

Row k of an array holds weight k of all pixels, so that LLVM finds vectors of pixels in the loops.
"""

import numpy as np

from train.data.coefficients.mixing import TOGETHER
from train.data.coefficients.words import kernel

EXTRA = 4 + TOGETHER
"""Numbers that a row of weights needs besides one for each pixel that counts."""

AROUND = 4
"""Rows of zeros that stand before and behind the weights of pixels."""

_UNIT = np.int32(65536)
"""Weights of one pixel add up to this; those of weight_kernels.py to 256 times as much."""


@kernel
def most_taps(length, count):
    """More than a pixel is mixed from, when `length` become `count`."""
    return 2 * int(length / count + 1) + 6


@kernel
def fold(firsts, weights, offset, ratio, size, smooth, mirrored, marks, sums, taps):
    """Weights of pixels -> weights of samples.

    Args:
        firsts: int32 (S,): the first pixel of those that are weighed.
        weights: int32 (AROUND + n + AROUND, S): of n pixels, between zeros.
        offset: the pixel that `firsts` count from.
        ratio: pixels to a sample.
        size: samples that there are.
        smooth: `ratio` is 2, and pixels are mixed from two samples.
        mirrored: the last pixel comes first.
        marks: int32 (4, S), scratch.
        sums: int32 (most, S), scratch.
        taps: written: int32 (S,), the first sample that counts; int32 (S,), how many count; uint16
            (S, most), their weights, then zeros; 65535 stands for 65536.

    Returns:
        The first sample that counts anywhere, and the end of them.
    """
    begins = marks[0]
    if ratio == 1:
        many = len(weights) - 2 * AROUND
        for i in range(len(firsts)):
            begins[i] = np.int32(offset + firsts[i])
        for k in range(many):
            sums[k] = weights[AROUND + k]
    elif smooth:
        many = _smooth(firsts, weights, offset, size, begins, marks[1], sums)
    else:
        many = _repeat(firsts, weights, offset, ratio, begins, sums)
    sums[many : many + TOGETHER] = 0
    _round(sums[:many], marks[1], marks[2], marks[3])
    return _by_pixel(sums, begins, marks[2], marks[3], mirrored, taps[0], taps[1], taps[2])


@kernel
def _smooth(firsts, weights, offset, size, begins, odd, sums):
    """Samples of two pixels each, of which each has 3/4, and 1/4 of the pixels beside them."""
    many = (len(weights) - 2 * AROUND + 3) // 2 + 1
    for i in range(len(firsts)):
        pixel = np.int32(offset + firsts[i])
        begins[i] = np.int32((pixel >> 1) - 1)
        odd[i] = np.int32(pixel & 1)
    for k in range(many):
        # The sample's pixels are weights 2 k - 2 and on where the first pixel is even.
        a, b, c = weights[2 * k], weights[2 * k + 1], weights[2 * k + 2]
        d, e, row = weights[2 * k + 3], weights[2 * k + 4], sums[k]
        for i in range(len(row)):
            even, (u, v, w, x, y) = odd[i] == 0, (a[i], b[i], c[i], d[i], e[i])
            before = v if even else u
            one = w if even else v
            two = x if even else w
            behind = y if even else x
            own = np.int32(one - (one >> 2)) + np.int32(two - (two >> 2))
            row[i] = np.int32(own + (before >> 2) + (behind >> 2))
    # Samples beside the picture: the outermost stands for them.
    row, inner = sums[0], sums[1]
    for i in range(len(row)):
        outside = row[i] if begins[i] < 0 else np.int32(0)
        row[i] = np.int32(row[i] - outside)
        inner[i] = np.int32(inner[i] + outside)
    for k in range(1, many):
        inner, row = sums[k - 1], sums[k]
        for i in range(len(row)):
            outside = row[i] if begins[i] + k >= size else np.int32(0)
            row[i] = np.int32(row[i] - outside)
            inner[i] = np.int32(inner[i] + outside)
    return many


@kernel
def _repeat(firsts, weights, offset, ratio, begins, sums):
    """Samples that are repeated."""
    count = len(weights) - 2 * AROUND
    many = (count + ratio - 2) // ratio + 1
    sums[:many] = 0
    for i in range(len(firsts)):
        begins[i] = np.int32((offset + firsts[i]) // ratio)
    for k in range(count):
        for i in range(len(firsts)):
            sums[(offset + firsts[i] + k) // ratio - begins[i], i] += weights[AROUND + k, i]
    return many


@kernel
def _round(sums, running, skip, last):
    """Weights in 16 bits; how many zeros stand before them, and the number of the last.

    Rounding the running sum makes the weights add up to one.
    """
    for i in range(len(running)):
        running[i], skip[i], last[i] = 128, 0, 0
    for k in range(len(sums)):
        row, next_one = sums[k], np.int32(k + 1)
        for i in range(len(row)):
            before = running[i]
            after = np.int32(before + row[i])
            running[i] = after
            weight = np.int32((after >> 8) - (before >> 8))
            skip[i] = next_one if after < 256 else skip[i]
            last[i] = np.int32(k) if weight > 0 else last[i]
            row[i] = weight if weight < _UNIT else np.int32(_UNIT - 1)


@kernel
def _by_pixel(sums, begins, skip, last, mirrored, firsts, counts, weights):
    """Write weights pixel by pixel."""
    lowest, highest = np.int64(begins[0] + skip[0]), np.int64(0)
    for i in range(len(begins)):
        row = len(begins) - 1 - i if mirrored else i
        start, count = np.int64(skip[i]), np.int64(last[i] - skip[i] + 1)
        first = begins[i] + start
        for k in range(count + TOGETHER):
            weights[row, k] = sums[start + k, i]
        firsts[row], counts[row] = first, count
        lowest, highest = min(lowest, first), max(highest, first + count)
    return lowest, highest
