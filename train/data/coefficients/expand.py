"""Masks and values -> coefficients: 16 blocks of a strip, side by side.

Nothing outside of the values is read: `first_value` counts what the masks ask for before any of it
is. Plain numba, for every CPU; expand_vbmi2.py is the same for those with AVX-512 VBMI2.
"""

import numpy as np

from train.data.coefficients.record import GROUP
from train.data.coefficients.words import kernel, lowest, popcount

LANES = 16
"""Blocks that are transformed at once."""

_ONE, _EIGHT = np.uint64(1), np.uint64(8)


@kernel
def first_value(masks, starts, size, begin, end):
    """Where the values of a block begin, after the groups that are used were counted.

    Args:
        masks: uint64 (blocks,), of the strip.
        starts: uint32 (groups + 1,), of the strip.
        size: bytes of all values of the plane.
        begin: the first block that is used.
        end: of the blocks that are used.

    Returns:
        Where block `begin` has its values; -1: masks and starts contradict each other.
    """
    first, last = begin // GROUP, -(-end // GROUP)
    for group in range(first, last):
        count = np.int64(starts[group])
        for block in range(group * GROUP, min(group * GROUP + GROUP, len(masks))):
            count += popcount(masks[block] >> _ONE) << np.int64(masks[block] & _ONE)
        if count != np.int64(starts[group + 1]):
            return -1
    if np.int64(starts[last]) > size:
        return -1
    at = np.int64(starts[first])
    for block in range(first * GROUP, begin):
        at += popcount(masks[block] >> _ONE) << np.int64(masks[block] & _ONE)
    return at


@kernel
def expand(masks, means, values, at, begin, count, blocks):
    """Write up to 16 blocks.

    Args:
        masks: uint64 (blocks,), of the strip.
        means: int16 (blocks,), of the strip.
        values: uint8, of the plane.
        at: where the values of block `begin` begin.
        begin: the first block.
        count: 1 to 16.
        blocks: int16 (64 * 16,), written: coefficient i of block k at 16 * i + k.

    Returns:
        Where the values of the next block begin.
    """
    blocks[:] = 0
    for k in range(count):
        mask = masks[begin + k]
        blocks[k] = means[begin + k]
        left = mask & ~_ONE
        if mask & _ONE:
            while left:
                blocks[LANES * lowest(left) + k] = _short(values, at)
                at += 2
                left &= left - _ONE
        else:
            while left:
                blocks[LANES * lowest(left) + k] = np.int8(values[at])
                at += 1
                left &= left - _ONE
    return at


@kernel
def expand_few(masks, means, values, at, begin, count, few):
    """As `expand`, but of each block only the four coefficients of 2 x 2 samples.

    `few`: int16, written: coefficients 0, 1, 8 and 9 of block k at k, 16 + k, 32 + k and 48 + k.
    Where one is zero, what stands in its place is read and not used.
    """
    for k in range(count):
        mask = masks[begin + k]
        few[k] = means[begin + k]
        first, second = np.int16(mask >> _ONE & _ONE), np.int16(mask >> _EIGHT & _ONE)
        third = np.int16(mask >> np.uint64(9) & _ONE)
        b = popcount(mask & np.uint64(0xFE))
        c = b + second
        if mask & _ONE:
            few[LANES + k] = first * _short(values, at)
            few[2 * LANES + k] = second * _short(values, at + 2 * b)
            few[3 * LANES + k] = third * _short(values, at + 2 * c)
            at += 2 * popcount(mask >> _ONE)
        else:
            few[LANES + k] = first * np.int8(values[at])
            few[2 * LANES + k] = second * np.int8(values[at + b])
            few[3 * LANES + k] = third * np.int8(values[at + c])
            at += popcount(mask >> _ONE)
    return at


@kernel
def _short(values, at):
    """Two bytes as a signed number."""
    return np.int16(np.uint16(values[at]) | (np.uint16(values[at + 1]) << np.uint16(8)))
