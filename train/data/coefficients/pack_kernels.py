"""Blocks of coefficients <-> the sections of one plane of a record, see record.py."""

import numpy as np

from train.data.coefficients.record import GROUP
from train.data.jpeg.bits import kernel

OK, OUT_OF_RANGE, DAMAGED = 0, -1, -2

MOST = 1023
"""AC coefficients of 8-bit samples lie within (T.81, F.1.2.2); means in [-1024, 1024)."""


@kernel
def pack_plane(blocks, first, steps, grid, order, starts, masks, means, values):
    """Write the sections of one plane.

    Args:
        blocks: int16 (N, 64), zigzag order.
        first: the plane's first block in them.
        steps: from a block to the one at its right and to the one below it, in blocks.
        grid: strips, and blocks of a strip.
        order: int64 (64,), the place in zigzag order of each stored coefficient.
        starts: uint32, room for the section.
        masks: uint64, the same.
        means: int16, the same.
        values: uint8, room for 126 bytes a block.

    Returns:
        Bytes of the values, or OUT_OF_RANGE.
    """
    columns, rows = grid
    one = np.uint64(1)
    at, place, group = np.uint64(0), 0, 0
    turned = np.empty(64, np.int16)
    for column in range(columns):
        for row in range(rows):
            if row % GROUP == 0:
                starts[group] = at
                group += 1
            block = blocks[first + column * steps[0] + row * steps[1]]
            for number in range(64):
                turned[number] = block[order[number]]
            mask, beyond = np.uint64(0), np.int16(0)
            for number in range(1, 64):  # loops without a branch: they become vector code
                mask |= np.uint64(turned[number] != 0) << np.uint64(number)
                beyond |= (turned[number] + np.int16(128)) & np.int16(~255)
            if beyond == 0:
                for number in range(1, 64):  # each is kept or overwritten by the next
                    values[at] = turned[number] & 255
                    at += (mask >> np.uint64(number)) & one
            else:
                for number in range(1, 64):
                    if abs(np.int64(turned[number])) > MOST:
                        return OUT_OF_RANGE
                    if turned[number] != 0:
                        values[at] = turned[number] & 255
                        values[at + one] = (turned[number] >> 8) & 255
                        at += np.uint64(2)
                mask |= one
            masks[place] = mask
            if not -MOST - 1 <= turned[0] <= MOST:
                return OUT_OF_RANGE
            means[place] = turned[0]
            place += 1
    starts[group] = at
    return np.int64(at)


@kernel
def unpack_plane(starts, masks, means, values, grid, steps, order, out, first):
    """The inverse, with every check -> OK or DAMAGED.

    Args:
        starts: a section of the plane, as the next three.
        masks: see there.
        means: see there.
        values: see there.
        grid: as above.
        steps: as above.
        order: as above.
        out: int16 (N, 64), zigzag order, of zeros; takes the plane's blocks.
        first: the first of them.
    """
    columns, rows = grid
    at, place, group = 0, 0, 0
    for column in range(columns):
        for row in range(rows):
            if row % GROUP == 0:
                if starts[group] != at:
                    return DAMAGED
                group += 1
            block = out[first + column * steps[0] + row * steps[1]]
            mask = masks[place]
            size = 2 if mask & np.uint64(1) else 1
            block[0] = means[place]
            for number in range(1, 64):
                if (mask >> np.uint64(number)) & np.uint64(1):
                    if at + size > len(values):
                        return DAMAGED
                    value = np.int64(values[at])
                    if size == 2:
                        value |= np.int64(values[at + 1]) << 8
                    bits = 64 - 8 * size
                    value = (value << bits) >> bits  # with its sign
                    if value == 0:
                        return DAMAGED
                    block[order[number]] = value
                    at += size
            place += 1
    if starts[group] != at or at != len(values):
        return DAMAGED
    return OK
