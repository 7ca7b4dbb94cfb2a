"""The MCU that `splice` writes in front of a row: it sets the means and ends within the right byte.

Its pixels mean nothing, and nobody sees them. It is written with the file's own Huffman tables, in
which `pack` keeps codes for it: any difference of means, an end of block, and `pad`, a coefficient
with an odd number of bits, of which up to seven make the MCU end at any bit of a byte.
"""

import numpy as np

from train.data.jpeg.bits import kernel, number_at, put_byte

MOST_BYTES = 154
"""Of ten blocks (16 + 11 bits of mean, 16 of end) and seven pads (16 + 10), were all stuffed."""

END, PAD = 12, 13
"""Rows of `codes` behind the differences of 0 to 11 bits."""


@kernel
def read_codes(data, at, end, components, pad, codes):
    """Read the codes that are needed from DHT, whose segment begins at `at`.

    codes int64 (2, 14, 2) takes code and length, for luma and for colour: differences of 0 to 11
    bits, END, PAD. Returns whether all were found before `end`.
    """
    end = min(end, at + 2 + number_at(data, at + 2, 2))
    at = at + 4
    for table in range(2 if components == 1 else 4):
        if at + 17 > end or data[at] != ((table & 1) << 4 | table >> 1):
            return False
        place = at + 17
        code = np.int64(0)
        for length in range(1, 17):
            count = np.int64(data[at + length])
            if place + count > end:
                return False
            for step in range(count):
                symbol = np.int64(data[place + step])
                which = _row(symbol, table & 1, pad)
                if which >= 0:
                    codes[table >> 1, which, 0] = code + step
                    codes[table >> 1, which, 1] = length
            place += count
            code = (code + count) << 1
        at = place
    for table in range(1 if components == 1 else 2):
        for which in range(PAD):
            if codes[table, which, 1] == 0:
                return False
    return (codes[0, PAD, 1] + (pad & 15)) & 1 == 1 and pad & 15 > 0 and pad >> 4 < 7


@kernel
def _row(symbol, ac, pad):
    """Where a symbol of a DC or an AC table is kept; -1: it is not needed."""
    if ac == 0:
        return symbol if symbol < 12 else -1
    if symbol == 0:
        return END
    return PAD if symbol == pad else -1


@kernel
def _put(out, to, word, held, code, size):
    """Append bits to those held back (fewer than eight) and write whole bytes, stuffed."""
    word = (word << size) | code
    held += size
    while held >= 8:
        to = put_byte(out, to, (word >> (held - 8)) & 255)
        held -= 8
    return to, word & 127, held


@kernel
def _size_of(value):
    """How many bits a number needs."""
    size = np.int64(0)
    while abs(value) >> size > 0:
        size += 1
    return size


@kernel
def write_mcu(out, to, blocks, means, pad, codes, phase):
    """Write the MCU.

    Args:
        out: uint8, takes it.
        to: where; MOST_BYTES are free there.
        blocks: int64 (components,), blocks of each.
        means: int64 (components,), what the next DC counts from; within +-2047.
        pad: its symbol.
        codes: what `read_codes` found.
        phase: how many bits of its last byte the MCU must fill, 0 to 7.

    Returns:
        Behind the last whole byte, and the `phase` bits that are left.
    """
    length = np.int64(0)
    for component in range(len(means)):
        table = 1 if component > 0 else 0
        size = _size_of(means[component])
        length += codes[table, size, 1] + size + blocks[component] * codes[table, END, 1]
        length += (blocks[component] - 1) * codes[table, 0, 1]
    word, held = np.int64(0), np.int64(0)
    for component in range(len(means)):
        code = codes[1 if component > 0 else 0]
        mean = means[component]
        size = _size_of(mean)
        to, word, held = _put(out, to, word, held, code[size, 0], code[size, 1])
        rest = mean if mean >= 0 else mean + (1 << size) - 1
        to, word, held = _put(out, to, word, held, rest, size)
        while component == 0 and (length & 7) != phase:
            to, word, held = _put(out, to, word, held, code[PAD, 0], code[PAD, 1])
            to, word, held = _put(out, to, word, held, np.int64(0), pad & 15)
            length += code[PAD, 1] + (pad & 15)
        for block in range(blocks[component]):
            if block > 0:
                to, word, held = _put(out, to, word, held, code[0, 0], code[0, 1])
            to, word, held = _put(out, to, word, held, code[END, 0], code[END, 1])
    return to, word
