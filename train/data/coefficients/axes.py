"""From a window's place and size to the taps of each plane, across and down.

All memory comes from the caller, as addresses.
"""

import numpy as np

from train.data.coefficients.taps import AROUND, EXTRA, fold
from train.data.coefficients.words import carray, kernel, pointer
from train.data.weight_kernels import reach, weigh_together


@kernel
def round_up(number, unit):
    """The next multiple of `unit`, as memory is laid out."""
    return -(-number // unit) * unit


@kernel
def block_side(spare, dct):
    """Samples that a block is decoded to; `spare`: how many times the samples that are needed.

    As decode.FACTORS: with less to spare, what is left out shows.
    """
    if not dct or spare < 3.0:
        return 8
    return 4 if spare < 6.0 else 2 if spare < 16.0 else 1


@kernel
def smoothed(ratio_x, ratio_y, samples_x):
    """Whether a plane's samples are smoothed across and down, as libjpeg-turbo does it."""
    if not ((ratio_x == 2 or ratio_x == 1) and (ratio_y == 2 or ratio_y == 1)):
        return False, False
    across = ratio_x == 2 and samples_x > 2
    return across, ratio_y == 2 and across == (ratio_x == 2)


@kernel
def pixel_weights(address, line, count, most):
    """Memory for the weights of pixels, see `fold`: firsts and weights."""
    return (
        carray(pointer(address), (count,), np.int32),
        carray(pointer(address + line), (2 * AROUND + most, count), np.int32),
    )


@kernel
def tap_scratch(address, count, most):
    """Scratch of `axis_taps`: count * (48 + 4 * (most + EXTRA)) bytes."""
    return (
        carray(pointer(address), (4, count), np.float64),
        carray(pointer(address + 32 * count), (4, count), np.int32),
        carray(pointer(address + 48 * count), (most + EXTRA, count), np.int32),
    )


@kernel
def sample_taps(address, line, count, most):
    """Memory for what `fold` writes."""
    return (
        carray(pointer(address), (count,), np.int32),
        carray(pointer(address + line), (count,), np.int32),
        carray(pointer(address + 2 * line), (count, most + EXTRA), np.uint16),
    )


@kernel
def axis_taps(
    start, length, mirrored, ratio, size, smooth, side, antialias, known, pixels, scratch, taps
):
    """The taps of one axis of one plane -> see `fold`.

    With fewer samples to a block the samples themselves are what is scaled. `known`: the weights of
    pixels are there already. `scratch`: float64 (4, S), int32 (4, S) and int32 (most, S).
    """
    floats, marks, sums = scratch
    firsts, weights = pixels
    left, unit, begin, stretch, end = start, ratio, 0.0, float(length), length
    if side != 8:
        scale = ratio * (8 // side)
        left, unit, smooth = start // scale, 1, False
        begin, stretch = start / scale - left, length / scale
        end = min(-(-(start + length) // scale), size) - left
    many = reach(stretch / len(firsts), antialias)
    if side != 8 or not known:
        weights[:AROUND] = 0
        weights[AROUND + many : 2 * AROUND + many] = 0
        weigh_together(
            begin, stretch, end, antialias, firsts, floats[0], floats[1], floats[2], floats[3],
            weights[AROUND : AROUND + many],
        )  # fmt: skip
    return fold(
        firsts, weights[: 2 * AROUND + many], left, unit, size, smooth, mirrored, marks, sums, taps
    )
