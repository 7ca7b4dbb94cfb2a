"""The bits under a window, as a small JPEG of their own (the kernels of `windows.cut`).

Nothing here trusts the index: a position is compared with the file's length before a byte is read,
and each row must have its marker behind it. The index's layout: index.py.
"""

import numpy as np

from train.data.jpeg.bits import bits_of, copy, copy_bits, kernel, number_at, word_at
from train.data.jpeg.index import TABLES
from train.data.jpeg.made_up import MOST_BYTES, read_codes, write_mcu

DAMAGED_INDEX, DAMAGED_HEADER, NO_MARKER, NO_ROOM = -1, -2, -3, -4

REASONS = {
    DAMAGED_INDEX: "its index points outside of what it describes",
    DAMAGED_HEADER: "its header is not the one that its index is for",
    NO_MARKER: "a restart marker is not where its index says",
    NO_ROOM: "a window of it is longer than the file",
}

ROW_BYTES = MOST_BYTES + 6
"""What a row of a window can be longer than in the file."""


@kernel
def splice(data, index, start, box, out):
    """Build the small JPEG of a window.

    Args:
        data: the file, uint8 (n,).
        index: from `index.parse`.
        start: the same.
        box: x, y, width, height of the window, pixels, inside the picture.
        out: uint8, as long as the file and ROW_BYTES for each row of MCUs.

    Returns:
        Bytes of `out` (0: take the whole file; less: a reason), the pixel at which they begin.
    """
    if not _is_sound(index):
        return DAMAGED_INDEX, 0, 0
    left, right, top, bottom, groups, down = _part(index, box)
    if left == 0 and right == groups and top == 0 and bottom == down:
        return 0, 0, 0
    blocks = np.zeros(index[8], np.int64)
    codes = np.zeros((2, 14, 2), np.int64)
    to = _copy_header(data, index, start, blocks, codes, out)
    if to < 0:
        return to, 0, 0
    x, y = _patch_header(index, out, left, right, top, bottom)
    means = np.zeros(index[8], np.int64)
    at = start + number_at(index, 15, 2)
    stop = at + number_at(index, 17, 4)
    for row in range(bottom):
        size = _row_bytes(index, row)
        at += size
        if size < 2 or at > stop:
            return DAMAGED_INDEX, 0, 0
        if row < top:
            continue
        if data[at - 2] != 255 or data[at - 1] != (0xD9 if row + 1 == down else 0xD0 + row % 8):
            return NO_MARKER, 0, 0
        begin, end = _bounds(index, row, down, left, right, groups, means)
        begin, end = begin + 8 * (at - size), end + 8 * (at - size)
        end = 8 * (at - 2) if right == groups else end
        if begin < 0 or begin > end or end > 8 * (at - 2):
            return DAMAGED_INDEX, 0, 0
        if to + ((end - begin) >> 3) + ROW_BYTES > len(out):
            return NO_ROOM, 0, 0
        word = np.int64(0)
        if left > 0:
            to, word = write_mcu(out, to, blocks, means, np.int64(index[7]), codes, begin & 7)
        to = copy_bits(data, begin, end, out, to, word)
        _put_number(out, to, 0xFFD9 if row + 1 == bottom else 0xFFD0 + (row - top) % 8)
        to += 2
    return to, x, y


@kernel
def _field(index, at, size):
    """The `size` bits (0 to 56) from bit `at`."""
    return bits_of(word_at(index, at), 0, size) if size > 0 else np.int64(0)


@kernel
def _is_sound(index):
    """Whether the index has all the values that it must have, each of a legal size."""
    width, height = number_at(index, 0, 2), number_at(index, 2, 2)
    h, v, group = np.int64(index[4]), np.int64(index[5]), np.int64(index[6])
    components = np.int64(index[8])
    if min(width, height, h, v, group) < 1 or max(h, v) > 4:
        return False
    if components != 1 and components != 3:
        return False
    record = _record_bits(index)
    down = -(-height // (8 * v))
    groups = -(-width // (8 * h * group))
    if index[25] > 32 or record > 56:
        return False
    bits = _records(index, down) + down * (groups - 1) * record
    return bits + 64 <= 8 * len(index)


@kernel
def _record_bits(index):
    """Bits of what the index holds for one group."""
    bits = np.int64(index[30])
    for component in range(index[8]):
        bits += index[33 + 3 * component]
    return bits


@kernel
def _records(index, down):
    """The bit at which those records begin."""
    return 8 * (TABLES + (down * np.int64(index[25]) + 7) // 8)


@kernel
def _row_bytes(index, row):
    """Bytes of a row of MCUs with the marker behind it."""
    bits = np.int64(index[25])
    return number_at(index, 21, 4) + _field(index, 8 * TABLES + row * bits, bits)


@kernel
def _part(index, box):
    """Groups from left to right and rows from top to bottom under a window; groups, rows in all."""
    x, y, width, height = box
    full_width, full_height = number_at(index, 0, 2), number_at(index, 2, 2)
    h, v = np.int64(index[4]), np.int64(index[5])
    # Colour of half the resolution is interpolated: a pixel needs its neighbours in colour too.
    beside, above = (h if h > 1 else 0), (v if v > 1 else 0)
    across, down = 8 * h * np.int64(index[6]), 8 * v
    left = max(0, x - beside) // across
    right = -(-min(full_width, x + width + beside) // across)
    top = max(0, y - above) // down
    bottom = -(-min(full_height, y + height + above) // down)
    return left, right, top, bottom, -(-full_width // across), -(-full_height // down)


@kernel
def _bounds(index, row, down, left, right, groups, means):
    """The bits of a row at which its window begins and ends; `means` takes what stands before."""
    begin, end = np.int64(0), np.int64(0)
    base, bits = number_at(index, 26, 4), np.int64(index[30])
    record = _record_bits(index)
    place = _records(index, down) + row * (groups - 1) * record
    for number in range(right if right < groups else left):
        end += base + _field(index, place, bits)
        if number == left - 1:
            begin = end
            inside = place + bits
            for component in range(len(means)):
                size = np.int64(index[33 + 3 * component])
                lowest = (number_at(index, 31 + 3 * component, 2) ^ 0x8000) - 0x8000
                means[component] = lowest + _field(index, inside, size)
                inside += size
                if abs(means[component]) > 2047:
                    return np.int64(-1) << 40, end
        place += record
    return begin, end


@kernel
def _copy_header(data, index, start, blocks, codes, out):
    """Copy SOI and the tables; check that they are the index's own -> bytes of `out`, or a reason.

    `blocks` takes how many blocks each component has in an MCU, `codes` what `made_up` needs.
    """
    components = len(blocks)
    sof, dht, dri = number_at(index, 9, 2), number_at(index, 11, 2), number_at(index, 13, 2)
    scan, size = number_at(index, 15, 2), number_at(index, 17, 4)
    if start + scan + size > len(data) or max(sof + 19, dht + 4, dri + 6) > scan:
        return DAMAGED_INDEX
    if scan + 2 > len(out):
        return NO_ROOM
    at = start + sof
    same = data[at] == 255 and 0xC0 <= data[at + 1] <= 0xC1 and data[at + 9] == components
    same = same and number_at(data, at + 5, 2) == number_at(index, 2, 2)
    same = same and number_at(data, at + 7, 2) == number_at(index, 0, 2)
    same = same and number_at(data, start + dri, 4) == 0xFFDD0004
    same = same and number_at(data, start + dht, 2) == 0xFFC4
    if not same:
        return DAMAGED_HEADER
    for component in range(components):
        factors = np.int64(data[at + 11 + 3 * component])
        blocks[component] = (factors >> 4) * (factors & 15)
        if blocks[component] < 1 or factors >> 4 > index[4] or factors & 15 > index[5]:
            return DAMAGED_HEADER
    pad = np.int64(index[7])
    if blocks.sum() > 10 or not read_codes(data, start + dht, start + scan, components, pad, codes):
        return DAMAGED_HEADER
    out[0], out[1] = 255, 0xD8
    copy(data, start, start + scan, out, 2)
    return 2 + scan


@kernel
def _patch_header(index, out, left, right, top, bottom):
    """Write the window's size and restart interval -> the picture's pixel at which it begins."""
    full_width, full_height = number_at(index, 0, 2), number_at(index, 2, 2)
    h, v, group = np.int64(index[4]), np.int64(index[5]), np.int64(index[6])
    made_up = 1 if left > 0 else 0
    x, y = 8 * h * (left * group - made_up), 8 * v * top
    sof, dri = 2 + number_at(index, 9, 2), 2 + number_at(index, 13, 2)
    width = min(full_width, right * group * 8 * h) - x
    _put_number(out, sof + 5, min(full_height, bottom * 8 * v) - y)
    _put_number(out, sof + 7, width)
    _put_number(out, dri + 4, -(-width // (8 * h)))
    return x, y


@kernel
def _put_number(out, at, value):
    """Write 16 bits, big-endian."""
    out[at], out[at + 1] = value >> 8, value & 255
