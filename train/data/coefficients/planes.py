"""A window of one plane -> its columns, scaled: strips are decoded when they are needed.

A few strips lie in a ring, so what is mixed is still in the cache, whatever the picture's size.
"""

import numpy as np

from train.data.coefficients.checks import (
    BLOCKS,
    MASKS,
    MEANS,
    STARTS,
    VALUES,
    VALUES_SIZE,
)
from train.data.coefficients.expand import LANES, first_value
from train.data.coefficients.inverse import decode_blocks
from train.data.coefficients.mixing import mix_bytes
from train.data.coefficients.record import GROUP, TAIL
from train.data.coefficients.vectors import turn_step
from train.data.coefficients.words import address, carray, kernel, pointer

COLUMNS = 8
"""Columns that are mixed before they are written as rows."""


@kernel
def ring_strips(firsts, counts, side):
    """Strips that must be kept: the most that COLUMNS neighbours are mixed from."""
    count, most = len(firsts), 1
    for left in range(0, count, COLUMNS):
        first, last = _strips(firsts, counts, left, side)
        most = max(most, last - first + 1)
    return most


@kernel
def _strips(firsts, counts, left, side):
    """First and last strip of the columns from `left` on."""
    first, last = np.int64(firsts[left]), np.int64(0)
    for j in range(left, min(left + COLUMNS, len(firsts))):
        first = min(first, np.int64(firsts[j]))
        last = max(last, np.int64(firsts[j]) + counts[j] - 1)
    return first // side, last // side


@kernel
def decode_strip(record, plane, strip, begin, end, quantiser, side, work, target, stride):
    """Decode some blocks of a strip.

    Args:
        record: address of the record.
        plane: int64 (NUMBERS,), its row of the table.
        strip: which.
        begin: the first block.
        end: of the blocks, larger.
        quantiser: float32 (64,), scaled.
        side: samples of a block each way.
        work: int16 (64 * 16,), scratch.
        target: address of the first column of samples.
        stride: bytes from a column to the next.

    Returns:
        Whether masks and values agree; nothing is written where they do not.
    """
    blocks = plane[BLOCKS]
    groups = -(-blocks // GROUP)
    starts = carray(pointer(record + plane[STARTS] + 4 * strip * groups), (groups + 1,), np.uint32)
    masks = carray(pointer(record + plane[MASKS] + 8 * strip * blocks), (blocks,), np.uint64)
    means = carray(pointer(record + plane[MEANS] + 2 * strip * blocks), (blocks,), np.int16)
    values = carray(pointer(record + plane[VALUES]), (plane[VALUES_SIZE] + TAIL,), np.uint8)
    at = first_value(masks, starts, plane[VALUES_SIZE], begin, end)
    if at < 0:
        return False
    for block in range(begin, end, LANES):
        count = min(LANES, end - block)
        at = decode_blocks(
            masks, means, values, at, block, count, quantiser, side, work, target, stride
        )
        target += LANES * side
    return True


@kernel
def scale_columns(
    record, plane, quantiser, side, begin, end, firsts, counts, weights, mirrored,
    work, ring, strips, stride, mixtures, sums, out, row,
):  # fmt: skip
    """Decode a window and mix its columns; the result is written row by row.

    Args:
        record: address of the record.
        plane: int64 (NUMBERS,), its row of the table.
        quantiser: float32 (64,), scaled.
        side: samples of a block each way.
        begin: the first block of each strip.
        end: of the blocks.
        firsts: of the columns, see `fold`.
        counts: the same.
        weights: the same.
        mirrored: `firsts` falls; else it rises.
        work: int16 (64 * 16,), scratch.
        ring: address of strips * side * stride bytes.
        strips: of the ring, see `ring_strips`.
        stride: bytes of a column in the ring.
        mixtures: uint16 (COLUMNS, n), scratch; n rows are written.
        sums: uint32 (n,), scratch.
        out: address of uint16 (n, row), written.
        row: numbers of a row, a multiple of COLUMNS.

    Returns:
        Whether masks and values agree.
    """
    count, kept = len(firsts), strips * side
    size = mixtures.shape[1]
    ready = np.int64(0)  # strips before this one are decoded, or not needed any more
    packs = -(-count // COLUMNS)
    for turn in range(packs):
        pack = packs - 1 - turn if mirrored else turn
        left = pack * COLUMNS
        first, last = _strips(firsts, counts, left, side)
        ready = max(ready, first)
        while ready <= last:
            target = ring + (ready % strips) * side * stride
            if not decode_strip(
                record, plane, ready, begin, end, quantiser, side, work, target, stride
            ):
                return False
            ready += 1
        for k in range(COLUMNS):
            j = min(left + k, count - 1)
            mix_bytes(
                ring, stride, kept, firsts[j] % kept, weights[j], counts[j], sums, mixtures[k]
            )
        for y in range(0, size, 16):
            turn_step(address(mixtures) + 2 * y, 2 * size, out + 2 * (y * row + left), 2 * row)
    return True
