"""The expansion by AVX-512 against the portable one, and both orders of the inverse DCT."""

import numpy as np
import plain_packer
import pytest
from rendered import jpeg

from train.data.coefficients import create, expand, expand_vbmi2, inverse, inverse_vectors
from train.data.coefficients.record import parse
from train.data.kernels import numba

needs_vbmi2 = pytest.mark.skipif(
    not expand_vbmi2.available(), reason="kernels are not compiled for AVX-512 VBMI2"
)


def strips(seed=0):
    """(masks, means, values, place of the first block's) of whole strips, with wide values too."""
    for quality, sampling in [(100, "444"), (60, "420"), (98, "grey")]:
        noise = seed + quality
        record = plain_packer.pack(jpeg(24, 8 * 19, sampling, noise, quality=quality))
        for plane in parse(record).planes:
            starts, masks, means, values = create.sections(record, plane)
            values = np.concatenate([values, np.zeros(128, np.uint8)])
            groups = -(-plane.blocks // 8)
            for strip in range(plane.strips):
                part = slice(strip * plane.blocks, (strip + 1) * plane.blocks)
                yield masks[part], means[part], values, int(starts[strip * groups])


def turned(blocks):
    return np.ascontiguousarray(blocks.reshape(16, 64).T).ravel()


@needs_vbmi2
def test_both_expansions_are_the_same():
    wide = 0
    for masks, means, values, at in strips():
        for begin in range(0, len(masks), 16):
            count = min(16, len(masks) - begin)
            plain, vectors = np.zeros(1024, np.int16), np.zeros(1024, np.int16)
            after = expand.expand(masks, means, values, at, begin, count, plain)
            assert (
                expand_vbmi2.expand_by_block(masks, means, values, at, begin, count, vectors)
                == after
            )
            assert (turned(vectors) == plain).all()
            wide += int((masks[begin : begin + count] & np.uint64(1)).sum())
            at = after
    assert wide > 10


def test_four_coefficients_are_those_of_the_whole():
    for masks, means, values, at in strips(1):
        count = min(16, len(masks))
        plain, few = np.zeros(1024, np.int16), np.zeros(1024, np.int16)
        after = expand.expand(masks, means, values, at, 0, count, plain)
        assert expand.expand_few(masks, means, values, at, 0, count, few) == after
        numbers = plain.reshape(64, 16)[[0, 1, 8, 9]].ravel()
        assert (few[:64] == numbers).all()


@pytest.mark.parametrize("side", [8, 4])
def test_both_orders_give_the_same_samples(side):
    functions = {
        8: (inverse_vectors.inverse_8, inverse_vectors.inverse_8_by_block),
        4: (inverse_vectors.inverse_4, inverse_vectors.inverse_4_by_block),
    }[side]
    calls = [_caller(function) for function in functions]
    generator = np.random.default_rng(0)
    for most in (4, 300, 32767):
        blocks = generator.integers(-most, most + 1, 1024).astype(np.int16)
        quantiser = generator.integers(1, 100, 64).astype(np.float32)
        inverse.scaled(quantiser, side)
        found = [np.zeros(16 * side * side, np.uint8) for _ in functions]
        calls[0](turned(blocks), quantiser, found[0], 16 * side)
        calls[1](blocks, quantiser, found[1], 16 * side)
        assert (found[0] == found[1]).all()


def _caller(function):
    @numba.njit
    def call(blocks, quantiser, out, stride):
        function(
            np.int64(blocks.ctypes.data),
            np.int64(quantiser.ctypes.data),
            np.int64(out.ctypes.data),
            np.int64(stride),
        )

    return call
