"""Decodes one scan of Huffman-coded coefficients, sequential or progressive.

A block reads at most TAIL bytes, and the position is checked after each block, so nothing is read
outside the scan's bytes, whatever stands in them.

Source: ITU-T T.81, annexes F.2 (sequential) and G (progressive).
"""

import numpy as np

from train.data.jpeg.bits import (
    ENDS_EARLY,
    LEFT_OVER,
    NO_CODE,
    OK,
    RANGE,
    TOO_MANY,
    bits_of,
    kernel,
    signed,
    word_at,
)
from train.data.jpeg.huffman import lookup
from train.data.jpeg.progressive import first_pass, refine


@kernel
def decode_scan(clean, ends, interval, units, planes, grid, progressive, band, tables, out):
    """Decode all MCUs of a scan.

    Args:
        clean: what `bits.unstuff` made of the scan.
        ends: the same.
        interval: MCUs between two restart markers, 0 for none.
        units: int64 (n, 5), the blocks of an MCU: component, DC table, AC table, row and column.
        planes: int64 (components, 4): first block, blocks in a row, block rows of an MCU, columns.
        grid: MCUs in a row, MCUs.
        progressive: whether it is.
        band: first, last, high, low, as SOS has them.
        tables: huffman.empty_tables, filled.
        out: int16 (blocks, 64), coefficients in zigzag order.

    Returns:
        OK or a reason, and the MCU where it was found.
    """
    means = np.zeros(4, np.int64)
    runs = np.zeros(1, np.int64)
    across, mcus = grid
    at, part, left = 0, 0, interval
    stop = ends[0] * 8
    for mcu in range(mcus):
        if interval > 0 and left == 0:
            if stop - at > 7 or runs[0] > 0:
                return LEFT_OVER, mcu
            at = stop
            part += 1
            stop = ends[part] * 8
            left = interval
            means[:] = 0
        left -= 1
        down, right = mcu // across, mcu % across
        for unit in range(len(units)):
            which = units[unit, 0]
            place = planes[which, 0] + (down * planes[which, 2] + units[unit, 3]) * planes[which, 1]
            place += right * planes[which, 3] + units[unit, 4]
            dc, ac = tables[units[unit, 1]], tables[units[unit, 2]]
            at = _block(clean, at, dc, ac, progressive, band, out[place], means, which, runs)
            if at < 0:
                return at, mcu
            if at > stop:
                return ENDS_EARLY, mcu
    if stop - at > 7 or runs[0] > 0:
        return LEFT_OVER, mcus
    return OK, mcus


@kernel
def _block(clean, at, dc, ac, progressive, band, block, means, which, runs):
    """What a scan holds of one block -> the next bit position or a reason."""
    first, last, high, low = band
    if first == 0 and high > 0:
        block[0] |= bits_of(word_at(clean, at), 0, 1) << low
        at += 1
    elif first == 0:
        at, difference = _difference(clean, at, dc)
        if at < 0:
            return at
        means[which] += difference
        if abs(means[which] << low) > 32767:
            return RANGE
        block[0] = means[which] << low
    if not progressive:
        return _sequential(clean, at, ac, block)
    if last == 0:
        return at
    if high == 0:
        return first_pass(clean, at, ac, block, first, last, low, runs)
    return refine(clean, at, ac, block, first, last, low, runs)


@kernel
def _difference(clean, at, row):
    """A difference of means: the next bit position or a reason, and the difference."""
    word = word_at(clean, at)
    found = lookup(row, word)
    length, size = found >> 8, found & 255
    if found == 0:
        return NO_CODE, np.int64(0)
    if size > 15:
        return RANGE, np.int64(0)
    if size == 0:
        return at + length, np.int64(0)
    return at + length + size, signed(word, length, size)


@kernel
def _sequential(clean, at, row, block):
    """The 63 AC coefficients of a block -> the next bit position or a reason."""
    k = 1
    while k < 64:
        word = word_at(clean, at)
        found = lookup(row, word)
        if found == 0:
            return NO_CODE
        length, run, size = found >> 8, (found >> 4) & 15, found & 15
        at += length + size
        if size == 0:
            if run != 15:
                break
            k += 16
            if k > 64:
                return TOO_MANY
            continue
        k += run
        if k > 63:
            return TOO_MANY
        block[k] = signed(word, length, size)
        k += 1
    return at
