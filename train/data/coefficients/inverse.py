"""Coefficients -> samples: the inverse DCT of 16 blocks at a time, in float32 without `fastmath`.

8 x 8 samples by the scheme of Arai, Agui and Nakajima ("A fast DCT-SQ scheme for images",
Trans. IEICE E-71, 1988), whose factors are multiplied into the quantiser; 4 x 4, 2 x 2 or 1 x 1
samples by the transform of that size from the coefficients that it has.

How 16 blocks lie side by side is decided here too: see `expand`, `expand_by_block`.
"""

import math

import numpy as np

from train.data.coefficients import expand_vbmi2, inverse_vectors
from train.data.coefficients.expand import LANES, expand, expand_few
from train.data.coefficients.words import address, carray, kernel, pointer

if expand_vbmi2.available():
    expand_blocks = expand_vbmi2.expand_by_block
    _eight, _four = inverse_vectors.inverse_8_by_block, inverse_vectors.inverse_4_by_block
else:
    expand_blocks = expand
    _eight, _four = inverse_vectors.inverse_8, inverse_vectors.inverse_4

_F = np.float32
_CENTRE = _F(128.5)  # what JPEG subtracts from samples, and half for rounding
_LOW, _HIGH = _F(0), _F(255)

_AAN = np.array([1.0] + [math.cos(k * math.pi / 16) * math.sqrt(2) for k in range(1, 8)])
FACTORS = (np.outer(_AAN, _AAN) / 8).astype(np.float32).ravel()
"""What the quantiser is multiplied by for 8 x 8 samples; for less, by 1/8."""


@kernel
def scaled(quantiser, side):
    """Multiply a quantiser, float32 (64,), for samples of side x side."""
    for k in range(64):
        quantiser[k] *= FACTORS[k] if side == 8 else _F(0.125)


@kernel
def decode_blocks(masks, means, values, at, begin, count, quantiser, side, work, target, stride):
    """Expand and transform up to 16 blocks.

    Args:
        masks: as in `expand`.
        means: as in `expand`.
        values: as in `expand`.
        at: as in `expand`.
        begin: as in `expand`.
        count: as in `expand`.
        quantiser: float32 (64,), see `scaled`.
        side: samples of a block each way: 8, 4, 2 or 1.
        work: int16 (64 * 16,), scratch.
        target: address of the first row: side * 16 bytes, the samples of a block together.
        stride: bytes from a row to the next one; there are `side` of them.

    Returns:
        Where the values of the next block begin; with side 1 nothing is read of them.
    """
    if side == 8:
        at = expand_blocks(masks, means, values, at, begin, count, work)
        _eight(address(work), address(quantiser), target, stride)
    elif side == 4:
        at = expand_blocks(masks, means, values, at, begin, count, work)
        _four(address(work), address(quantiser), target, stride)
    elif side == 2:
        at = expand_few(masks, means, values, at, begin, count, work)
        _two(work, quantiser, target, stride)
    else:
        out = carray(pointer(target), (count,), np.uint8)
        for k in range(count):
            out[k] = _level(_F(means[begin + k]) * quantiser[0])
    return at


@kernel
def _two(few, quantiser, target, stride):
    first = carray(pointer(target), (LANES,), np.uint16)
    second = carray(pointer(target + stride), (LANES,), np.uint16)
    qa, qb, qc, qd = quantiser[0], quantiser[1], quantiser[8], quantiser[9]
    for k in range(LANES):
        a, b = _F(few[k]) * qa, _F(few[LANES + k]) * qb
        c, d = _F(few[2 * LANES + k]) * qc, _F(few[3 * LANES + k]) * qd
        s, t, u, v = a + c, b + d, a - c, b - d
        first[k] = np.uint16(_level(s + t)) | np.uint16(_level(s - t)) << np.uint16(8)
        second[k] = np.uint16(_level(u + v)) | np.uint16(_level(u - v)) << np.uint16(8)


@kernel
def _level(value):
    """A sample, 0 to 255."""
    return np.uint8(np.int32(min(max(value + _CENTRE, _LOW), _HIGH)))
