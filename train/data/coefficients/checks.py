"""The checks of `record.parse` as a kernel: header -> numbers that may be trusted as addresses."""

import numpy as np

from train.data.coefficients import MAGIC, VERSION
from train.data.coefficients.record import GROUP, HEADER, PLANE, RGB, TAIL
from train.data.coefficients.words import carray, kernel, pointer

H, V, STRIPS, BLOCKS, STARTS, MASKS, MEANS, VALUES, VALUES_SIZE = range(9)
NUMBERS = 9
"""Columns of the table that `check` writes, one row a plane."""

_MAGIC = np.frombuffer(MAGIC, "<u8")[0]
_HEADER_SIZE, _PLANE_SIZE = HEADER.itemsize, PLANE.itemsize
_QUANTISER = PLANE.fields["quantiser"][1]  # type: ignore[index]


def _places(dtype):
    return {name: offset for name, (_, offset) in dtype.fields.items()}


_IN, _AT = _places(HEADER), _places(PLANE)
_VERSION, _SAID_SIZE, _SIZE = _IN["version"], _IN["header_size"], _IN["size"]
_WIDTH, _HEIGHT, _FLAGS = _IN["width"], _IN["height"], _IN["flags"]
_PLANES, _ORIENTATION, _RESERVED = _IN["planes"], _IN["orientation"], _IN["reserved"]
_STRIPS, _BLOCKS, _SECTIONS, _LENGTH = (
    _AT[name] for name in ("strips", "blocks", "starts", "values_size")
)


@kernel
def number(address, size):
    """An unsigned little-endian number of `size` bytes; int64, so 8 bytes may come out negative."""
    data = carray(pointer(address), (size,), np.uint8)
    value = np.uint64(0)
    for k in range(size):
        value |= np.uint64(data[k]) << np.uint64(8 * k)
    return np.int64(value)


@kernel
def check(address, size, table):
    """Check a record's header and planes.

    Args:
        address: of the record.
        size: its bytes.
        table: int64 (3, NUMBERS), written.

    Returns:
        planes, width, height, orientation, rgb; planes is 0 where the record is refused.
    """
    bad = (0, 0, 0, 0, False)
    if size < _HEADER_SIZE + _PLANE_SIZE + TAIL:
        return bad
    if np.uint64(number(address, 8)) != _MAGIC or number(address + _VERSION, 2) != VERSION:
        return bad
    width, height = number(address + _WIDTH, 4), number(address + _HEIGHT, 4)
    planes, flags = number(address + _PLANES, 1), number(address + _FLAGS, 4)
    orientation = number(address + _ORIENTATION, 1)
    header = _HEADER_SIZE + planes * _PLANE_SIZE
    if number(address + _SIZE, 8) != size or number(address + _SAID_SIZE, 2) != header:
        return bad
    if not (0 < width < 65536 and 0 < height < 65536) or not 1 <= orientation <= 4:
        return bad
    if planes not in (1, 3) or size < header + TAIL:
        return bad
    if flags not in (0, RGB) or (flags != 0 and planes != 3):
        return bad
    for k in range(_RESERVED, _HEADER_SIZE):
        if number(address + k, 1) != 0:
            return bad
    most_h, most_v = 0, 0
    for p in range(planes):
        at = address + _HEADER_SIZE + p * _PLANE_SIZE
        table[p, H], table[p, V] = number(at, 1), number(at + 1, 1)
        most_h, most_v = max(most_h, table[p, H]), max(most_v, table[p, V])
    end = header
    for p in range(planes):
        at = address + _HEADER_SIZE + p * _PLANE_SIZE
        h, v = table[p, H], table[p, V]
        if not (1 <= h <= 4 and 1 <= v <= 4) or most_h % h != 0 or most_v % v != 0:
            return bad
        strips, blocks = number(at + _STRIPS, 4), number(at + _BLOCKS, 4)
        if strips != -(-width * h // (8 * most_h)) or blocks != -(-height * v // (8 * most_v)):
            return bad
        length = number(at + _LENGTH, 8)
        if not 0 <= length <= min(126 * strips * blocks, 0xFFFFFFFF):
            return bad
        table[p, STRIPS], table[p, BLOCKS], table[p, VALUES_SIZE] = strips, blocks, length
        for k in range(4):
            start = number(at + _SECTIONS + 8 * k, 8)
            count = length
            if k == 0:
                count = 4 * strips * -(-blocks // GROUP) + 4
            elif k == 1:
                count = 8 * strips * blocks
            elif k == 2:
                count = 2 * strips * blocks
            # Not `start + count > ...`: it could overflow.
            if start % 8 != 0 or start < end or start > size - TAIL - count:
                return bad
            table[p, STARTS + k] = start
            end = start + count
    return planes, width, height, orientation, flags != 0


@kernel
def quantiser(address, plane, numbers):
    """Write the quantiser of a plane: float32 (64,)."""
    at = address + _HEADER_SIZE + plane * _PLANE_SIZE + _QUANTISER
    stored = carray(pointer(at), (64,), np.uint16)
    for k in range(64):
        numbers[k] = np.float32(stored[k])
