"""Mixed rows of planes -> a row of pixels, red, green and blue side by side.

Rows come with 8 bits behind the point, and are as long as a multiple of STEP.
"""

import numpy as np

from train.data.coefficients.vectors import STEP, rgb_step, ycbcr_step
from train.data.coefficients.words import address as at
from train.data.coefficients.words import carray, kernel, pointer

GREY, YCBCR, RGB = 0, 1, 2


@kernel
def write_pixels(kind, first, second, third, count, address, rest):
    """Write a row of pixels.

    Args:
        kind: GREY (then `second` and `third` are not read), YCBCR or RGB.
        first: uint16, a number for each pixel: luma, grey or red.
        second: the same: Cb or green.
        third: the same: Cr or blue.
        count: pixels.
        address: where they go: 3 * count bytes.
        rest: uint8 (3 * STEP,), scratch.
    """
    a, b, c = at(first), at(second), at(third)
    whole = count // STEP * STEP
    for j in range(0, whole, STEP):
        _step(kind, a + 2 * j, b + 2 * j, c + 2 * j, address + 3 * j)
    if whole < count:
        _step(kind, a + 2 * whole, b + 2 * whole, c + 2 * whole, at(rest))
        out = carray(pointer(address + 3 * whole), (3 * (count - whole),), np.uint8)
        for j in range(len(out)):
            out[j] = rest[j]


@kernel
def _step(kind, a, b, c, to):
    if kind == YCBCR:
        ycbcr_step(a, b, c, to)
    elif kind == RGB:
        rgb_step(a, b, c, to)
    else:
        rgb_step(a, a, a, to)
