"""Rows of samples -> their mixture, in 16 bits: 8 before and 8 behind the point.

A product is rounded down, so half a unit is added for each: with n rows the mixture is at most n /
512 of a level from the exact one. More than MANY rows are added up in 32 bits.
"""

import numpy as np

from train.data.coefficients.vectors import (
    STEP,
    add_bytes_step,
    add_words_step,
    mix_bytes_step,
    mix_words_step,
)
from train.data.coefficients.words import address as at
from train.data.coefficients.words import carray, kernel, pointer

MANY = 64
"""Rows of which the half units still fit into the range."""

TOGETHER = 4
"""Rows that are mixed at once; so many zeros stand behind the weights."""

_8, _16 = np.uint32(8), np.uint32(16)


@kernel
def mix_bytes(address, stride, rows, first, weights, taps, sums, out):
    """Mix rows of bytes that lie in a ring.

    Args:
        address: of row 0.
        stride: bytes from a row to the next.
        rows: of the ring.
        first: the first row that counts, below `rows`.
        weights: uint16, one a row, then TOGETHER zeros.
        taps: how many rows count, at most `rows`.
        sums: uint32, as long as `out`: scratch.
        out: uint16, written; its length is a multiple of STEP.
    """
    if taps > MANY:
        _mix_many_bytes(address, stride, rows, first, weights, taps, sums, out)
        return
    to, bias = at(out), np.uint16(taps >> 1)
    a, b, c, d = _four(address, stride, rows, first, 0, taps)
    u, v, w, x = weights[0], weights[1], weights[2], weights[3]
    if taps <= 2:
        for j in range(0, len(out), STEP):
            mix_bytes_step((a + j, b + j), (u, v), bias, to + 2 * j)
    elif taps == 3:
        for j in range(0, len(out), STEP):
            mix_bytes_step((a + j, b + j, c + j), (u, v, w), bias, to + 2 * j)
    else:
        for j in range(0, len(out), STEP):
            mix_bytes_step((a + j, b + j, c + j, d + j), (u, v, w, x), bias, to + 2 * j)
        for k in range(TOGETHER, taps, TOGETHER):
            a, b, c, d = _four(address, stride, rows, first, k, taps)
            u, v, w, x = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            for j in range(0, len(out), STEP):
                add_bytes_step((a + j, b + j, c + j, d + j), (u, v, w, x), bias, to + 2 * j)


@kernel
def mix_words(address, stride, weights, taps, sums, out):
    """As `mix_bytes`, of uint16 rows that lie one behind the other; the first is at `address`."""
    if taps > MANY:
        _mix_many_words(address, stride, weights, taps, sums, out)
        return
    to, bias = at(out), np.uint16(taps >> 1)
    a, b, c, d = _four(address, stride, taps, 0, 0, taps)
    u, v, w, x = weights[0], weights[1], weights[2], weights[3]
    if taps <= 2:
        for j in range(0, 2 * len(out), 2 * STEP):
            mix_words_step((a + j, b + j), (u, v), bias, to + j)
    elif taps == 3:
        for j in range(0, 2 * len(out), 2 * STEP):
            mix_words_step((a + j, b + j, c + j), (u, v, w), bias, to + j)
    else:
        for j in range(0, 2 * len(out), 2 * STEP):
            mix_words_step((a + j, b + j, c + j, d + j), (u, v, w, x), bias, to + j)
        for k in range(TOGETHER, taps, TOGETHER):
            a, b, c, d = _four(address, stride, taps, 0, k, taps)
            u, v, w, x = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            for j in range(0, 2 * len(out), 2 * STEP):
                add_words_step((a + j, b + j, c + j, d + j), (u, v, w, x), bias, to + j)


@kernel
def _four(address, stride, rows, first, k, taps):
    """Addresses of four rows; where there are less, the last stands for them, without weight."""
    last = taps - 1
    a, b = first + min(k, last), first + min(k + 1, last)
    c, d = first + min(k + 2, last), first + min(k + 3, last)
    a -= rows if a >= rows else 0
    b -= rows if b >= rows else 0
    c -= rows if c >= rows else 0
    d -= rows if d >= rows else 0
    return address + a * stride, address + b * stride, address + c * stride, address + d * stride


@kernel
def _mix_many_bytes(address, stride, rows, first, weights, taps, sums, out):
    sums[:] = np.uint32(128)
    for k in range(taps):
        row = (first + k) % rows
        a = carray(pointer(address + row * stride), (len(out),), np.uint8)
        weight = np.uint32(weights[k])
        for j in range(len(out)):
            sums[j] = np.uint32(sums[j] + a[j] * weight)
    for j in range(len(out)):
        out[j] = sums[j] >> _8


@kernel
def _mix_many_words(address, stride, weights, taps, sums, out):
    sums[:] = np.uint32(0)
    for k in range(taps):
        a = carray(pointer(address + k * stride), (len(out),), np.uint16)
        weight = np.uint32(weights[k])
        for j in range(len(out)):
            sums[j] = np.uint32(sums[j] + a[j] * weight)
    for j in range(len(out)):
        out[j] = sums[j] >> _16
