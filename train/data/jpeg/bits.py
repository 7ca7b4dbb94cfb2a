"""How the kernels of this folder are compiled, and how they read and copy bits.

Bits are read at a position, from `clean` bytes: without stuffing, and with TAIL zero bytes behind.
"""

import numpy as np

from train.data import kernels

kernel = kernels.numba.njit(nogil=True, cache=True, error_model="numpy")
"""Compiled at the first call: who only loads never compiles what only `pack` needs."""

TAIL = 512
"""Bytes behind the clean ones: more than a block can read, 64 codes of 16 + 15 bits and a word."""

OK, NO_CODE, TOO_MANY, ENDS_EARLY, LEFT_OVER, RANGE, NO_RESTART, NO_END = range(0, -8, -1)

REASONS = {
    NO_CODE: "bits that are no code of the Huffman table",
    TOO_MANY: "a block with more than 64 coefficients",
    ENDS_EARLY: "the data ends early",
    LEFT_OVER: "bytes are left over",
    RANGE: "a coefficient out of range",
    NO_RESTART: "a restart marker is missing, or one too many",
    NO_END: "the file ends without an end marker",
}


@kernel
def unstuff(data, start, clean, ends):
    """Copy a scan's bytes without stuffing and restart markers.

    `ends` takes where each restart interval ends, and has room for as many as there must be.
    Returns where the marker behind the scan stands, how many intervals there are, OK or a reason.
    """
    size = len(data)
    at, to, found = start, 0, 0
    while at + 1 < size:
        value = data[at]
        if value != 255:
            clean[to] = value
            to += 1
            at += 1
            continue
        marker = data[at + 1]
        if marker == 0:
            clean[to] = 255
            to += 1
            at += 2
        elif marker == 255:
            at += 1  # a fill byte
        elif 0xD0 <= marker <= 0xD7:
            if found + 1 >= len(ends) or marker - 0xD0 != found % 8:
                return at, found, NO_RESTART
            ends[found] = to
            found += 1
            at += 2
        else:
            ends[found] = to
            return at, found + 1, OK
    return at, found, NO_END


@kernel
def word_at(clean, at):
    """The 57 bits or more from bit `at`, at the top of a uint64 (compiled into a single load)."""
    place = np.uint64(at >> 3)
    word = np.uint64(0)
    for step in range(8):
        word = (word << np.uint64(8)) | np.uint64(clean[place + np.uint64(step)])
    return word << np.uint64(at & 7)


@kernel
def bits_of(word, skip, size):
    """The `size` bits (1 to 57) behind the first `skip`, as int64."""
    return np.int64((word << np.uint64(skip)) >> np.uint64(64 - size))


@kernel
def signed(word, skip, size):
    """The same, as JPEG writes signed numbers of `size` bits (T.81, F.2.2.1)."""
    value = bits_of(word, skip, size)
    if value < (1 << (size - 1)):
        value -= (1 << size) - 1
    return value


@kernel
def number_at(data, at, size):
    """A big-endian number of `size` bytes."""
    value = np.int64(0)
    for step in range(size):
        value = (value << 8) | np.int64(data[at + step])
    return value


@kernel
def copy(data, begin, end, out, to):
    """Copy bytes; from views, in which no index can be negative, so it goes by 32 at once."""
    source, target = data[begin:end], out[to : to + end - begin]
    for step in range(len(target)):
        target[step] = source[step]


@kernel
def put_byte(out, to, value):
    """Write a byte, stuffed -> behind it."""
    out[to] = value
    if value != 255:
        return to + 1
    out[to + 1] = 0
    return to + 2


@kernel
def copy_bits(data, begin, end, out, to, word):
    """Copy the bits [begin, end) behind the begin % 8 bits of `word`; ones fill the last byte.

    Stuffing is copied along. Only the first and the last byte change, and may need or lose theirs.
    """
    place, last = begin >> 3, end >> 3
    head, tail = begin & 7, end & 7
    if head and begin < end:
        value = (word << (8 - head)) | (np.int64(data[place]) & (255 >> head))
        if place == last:
            value |= 255 >> tail
            tail = 0
        to = put_byte(out, to, value)
        place += 2 if data[place] == 255 else 1
    if place < last:
        copy(data, place, last, out, to)
        to += last - place
    if tail:
        to = put_byte(out, to, np.int64(data[last]) | (255 >> tail))
    return to
