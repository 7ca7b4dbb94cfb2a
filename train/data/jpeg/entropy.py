"""Coefficients -> a baseline scan with the best Huffman tables, and what an index of it needs.

Pass one writes every symbol as a number and counts it; pass two turns numbers into bits. A restart
marker stands behind each row of MCUs but the last.

A symbol's number: bits 0 to 7 the symbol, 8 and 9 its table (DC 0, AC 0, DC 1, AC 1), 16 to 31 the
bits behind its code.

Source: ITU-T T.81, annex F.1.2.
"""

from typing import List, NamedTuple, Tuple

import numpy as np

from train.data.jpeg import huffman
from train.data.jpeg.bits import kernel, put_byte
from train.data.jpeg.coefficients import Coefficients
from train.data.jpeg.markers import Unsupported

MAX_MEAN, MAX_DC, MAX_AC = 1024, 11, 10
"""Baseline, 8 bits a sample: means in [-1024, 1024), their differences 11 bits, all others 10."""

_SIZES = np.array([size.bit_length() for size in range(1 << MAX_DC)])


class Coded(NamedTuple):
    """A scan, and what an index of it needs.

    Attributes:
        tables: of DC 0, AC 0 and for colour DC 1, AC 1: how many codes of 1 to 16 bits, symbols.
        bits: bytes from the first MCU to the last, with restart markers, without the end marker.
        rows: int64 (R,), bytes of each row of MCUs with its marker (the last: the end marker).
        lengths: int64 (R, groups - 1): bits from the start of a group to the start of the next.
        means: int64 (R, groups - 1, planes): what the first DC of the next group counts from.
        pad: a symbol of AC 0 whose code and the bits behind it are an odd number of bits.
    """

    tables: List[Tuple[np.ndarray, np.ndarray]]
    bits: bytes
    rows: np.ndarray
    lengths: np.ndarray
    means: np.ndarray
    pad: int


@kernel
def _bits_of(value):
    """How many bits a coefficient needs (17: too many), and what stands there for it (F.1.2.1)."""
    positive = abs(value)
    size = _SIZES[positive] if positive < len(_SIZES) else 17
    return size, value if value >= 0 else value + (1 << size) - 1


@kernel
def _block_symbols(block, mean, table, symbols, at, counts):
    """Write one block's symbols; returns the next place, or -1 for a coefficient out of range."""
    difference = np.int64(block[0]) - mean
    size, rest = _bits_of(difference)
    if size > MAX_DC or block[0] >= MAX_MEAN or block[0] < -MAX_MEAN:
        return -1
    symbols[at] = (rest << 16) | (table << 8) | size
    counts[table, size] += 1
    at += 1
    table += 1
    run = 0
    for k in range(1, 64):
        value = np.int64(block[k])
        if value == 0:
            run += 1
            continue
        while run > 15:
            symbols[at] = (table << 8) | 0xF0
            counts[table, 0xF0] += 1
            at += 1
            run -= 16
        size, rest = _bits_of(value)
        if size > MAX_AC:
            return -1
        symbols[at] = (rest << 16) | (table << 8) | (run << 4) | size
        counts[table, (run << 4) | size] += 1
        at += 1
        run = 0
    if run > 0:
        symbols[at] = table << 8
        counts[table, 0] += 1
        at += 1
    return at


@kernel
def _picture_symbols(blocks, units, mcus, group, symbols, starts, means, counts):
    """Pass one, over the whole picture -> how many symbols, or -1.

    units (n, 4): plane, first block, blocks to the next row of MCUs and to the next MCU.
    starts (rows, groups + 1): where each group's symbols begin. means: see `Coded`.
    """
    before = np.zeros(4, np.int64)
    at = 0
    for row in range(mcus[1]):
        before[:] = 0
        for column in range(mcus[0]):
            if column % group == 0:
                starts[row, column // group] = at
                if column > 0:
                    for plane in range(means.shape[2]):
                        means[row, column // group - 1, plane] = before[plane]
            for unit in range(len(units)):
                plane = units[unit, 0]
                block = blocks[units[unit, 1] + row * units[unit, 2] + column * units[unit, 3]]
                table = 2 if plane > 0 else 0
                at = _block_symbols(block, before[plane], table, symbols, at, counts)
                if at < 0:
                    return at
                before[plane] = block[0]
        starts[row, starts.shape[1] - 1] = at
    return at


@kernel
def _write(symbols, starts, codes, sizes, out, rows, lengths):
    """Pass two -> how many bytes of `out` are used; fills rows and lengths (see `Coded`)."""
    to = 0
    groups = starts.shape[1] - 1
    for row in range(len(starts)):
        begin = to
        word, free = 0, 8  # bits not yet written, and how many more fill a byte
        group_begin = 8 * begin
        for group in range(groups):
            if group > 0:
                place = 8 * to + 8 - free
                lengths[row, group - 1] = place - group_begin
                group_begin = place
            for at in range(starts[row, group], starts[row, group + 1]):
                symbol = np.int64(symbols[at])
                table, size = (symbol >> 8) & 3, symbol & 15
                word = (word << sizes[table, symbol & 255]) | codes[table, symbol & 255]
                word = (word << size) | (symbol >> 16)
                free -= sizes[table, symbol & 255] + size
                while free <= 0:
                    to = put_byte(out, to, (word >> -free) & 255)
                    free += 8
                word &= 0xFF
        if free < 8:
            to = put_byte(out, to, ((word << free) | ((1 << free) - 1)) & 255)
        if row + 1 < len(starts):
            out[to] = 255
            out[to + 1] = 0xD0 + row % 8
            to += 2
        rows[row] = to - begin
    rows[row] += 2
    return to


def encode(picture: Coefficients, group: int) -> Coded:
    """Code all coefficients.

    Args:
        picture: what `coefficients.decode` gives.
        group: MCUs of a group, whose beginnings are noted.

    Raises:
        Unsupported: coefficients that baseline JPEG cannot hold.
    """
    h, v = mcu_size(picture)
    mcus = -(-picture.width // h), -(-picture.height // v)
    units = []
    for number, plane in enumerate(picture.planes):
        units += [
            (number, plane.first + row * plane.columns + column, plane.v * plane.columns, plane.h)
            for row in range(plane.v)
            for column in range(plane.h)
        ]
    if len(units) > 10:
        raise Unsupported(f"JPEG whose planes can't stand in one scan ({len(units)} blocks an MCU)")
    groups = -(-mcus[0] // group)
    # A symbol for each coefficient, at most three long runs and an end for each block, its DC.
    symbols = np.empty(np.count_nonzero(picture.blocks) + 5 * len(picture.blocks), np.uint32)
    starts = np.zeros((mcus[1], groups + 1), np.int64)
    means = np.zeros((mcus[1], groups - 1, len(picture.planes)), np.int64)
    counts = np.zeros((4, 257), np.int64)
    used = _picture_symbols(
        picture.blocks, np.array(units), mcus, group, symbols, starts, means, counts
    )
    if used < 0:
        raise Unsupported("JPEG with coefficients that baseline JPEG cannot hold")
    tables, codes, sizes, pad = _tables(counts, 2 if len(picture.planes) == 1 else 4)
    bits = int((counts[:, :256] * (sizes + (np.arange(256) & 15))).sum())
    out = np.empty(2 * (bits // 8) + 8 * mcus[1] + 8, np.uint8)
    rows = np.zeros(mcus[1], np.int64)
    lengths = np.zeros((mcus[1], groups - 1), np.int64)
    size = _write(symbols, starts, codes, sizes, out, rows, lengths)
    return Coded(tables, out[:size].tobytes(), rows, lengths, means, pad)


def mcu_size(picture: Coefficients) -> Tuple[int, int]:
    """Width and height of an MCU, pixels."""
    return 8 * max(plane.h for plane in picture.planes), 8 * max(
        plane.v for plane in picture.planes
    )


def _tables(
    counts: np.ndarray, number: int
) -> Tuple[List[Tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray, int]:
    """The best tables in which a made-up MCU can be written too: any mean, an end, and `pad`."""
    counts[0, :12] = np.maximum(counts[0, :12], 1)
    counts[1, :2] = np.maximum(
        counts[1, :2], 1
    )  # the end of a block, and a 1 or -1 behind no zeros
    counts[2, :12] = np.maximum(counts[2, :12], 1)
    counts[3, 0] = max(counts[3, 0], 1)
    tables = [huffman.best_table(counts[table]) for table in range(number)]
    pad = _pad_symbol(*tables[1])
    for symbol in range(2, MAX_AC + 1):
        if pad >= 0:
            break
        # Every code has an even number of bits: give codes to symbols that don't occur.
        counts[1, symbol] = max(counts[1, symbol], 1)
        tables[1] = huffman.best_table(counts[1])
        pad = _pad_symbol(*tables[1])
    if pad < 0:
        raise Unsupported("JPEG whose codes all have an even number of bits")
    codes, sizes = np.zeros((4, 256), np.int64), np.zeros((4, 256), np.int64)
    for table in range(number):
        codes[table], sizes[table] = huffman.codes_of(*tables[table])
    return tables, codes, sizes, pad


def _pad_symbol(numbers: np.ndarray, symbols: np.ndarray) -> int:
    """The shortest symbol with an odd number of bits, seven of which fit into a block; or -1."""
    lengths = huffman.codes_of(numbers, symbols)[1]
    best, shortest = -1, 99
    for symbol in symbols.tolist():
        bits = int(lengths[symbol]) + (symbol & 15)
        if symbol & 15 and symbol >> 4 < 7 and bits % 2 and bits < shortest:
            best, shortest = symbol, bits
    return best
