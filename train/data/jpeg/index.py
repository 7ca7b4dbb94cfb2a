"""The index of a packed file: written into APP9 segments, found again in a few microseconds.

A segment's payload: IDENTIFIER, version, number of the part, number of parts, a piece of the index.
All parts stand together, right before the tables. Positions count from the end of the last part.

The index, big-endian:

| at | bytes | what |
|---|---|---|
| 0, 2 | 2, 2 | width and height, pixels |
| 4, 5 | 1, 1 | width and height of an MCU, in blocks |
| 6 | 1 | MCUs of a group |
| 7 | 1 | a symbol of AC 0 with an odd number of bits (see made_up.py) |
| 8 | 1 | components: 1 or 3 |
| 9, 11, 13 | 2, 2, 2 | where SOF, DHT and DRI begin |
| 15, 17 | 2, 4 | where the coded bits begin, how many bytes they are with the end marker |
| 21, 25 | 4, 1 | rows: the least value, bits of a value |
| 26, 30 | 4, 1 | lengths: the same |
| 31, 34, 37 | 2 + 1 each | means of a component: the same, signed |
| 40 | | for each row of MCUs its bytes with the marker behind it |
| | | for each row, for each group but the first: how many bits the group before it has, and \
the mean of each component before it |
| | 8 | zeros, so that eight bytes can be read anywhere |

Values are stored less the least one. Each of the two lists begins at a byte.
"""

import struct
from typing import List, NamedTuple, Optional, Tuple, Union

import numpy as np

from train.data.jpeg import IDENTIFIER, MARKER
from train.data.jpeg.entropy import Coded
from train.data.jpeg.markers import Unsupported, segment
from train.data.jpeg.tables import Tables
from train.errors import BadSample

Data = Union[bytes, memoryview]
"""The bytes of a file."""

VERSION = 1

TABLES = 40
"""Where the values begin."""

PART = 65000
"""Bytes of the index in one segment."""

_HEADER = struct.Struct(">HHBBBBBHHHHIIBIBhBhBhB")
_OPENING = len(IDENTIFIER) + 3


class Layout(NamedTuple):
    """What `parse` found.

    Attributes:
        width, height: of the picture as stored, pixels.
        start: position of the picture in the file, behind the index.
        index: the index, uint8 (n,), read-only.
    """

    width: int
    height: int
    start: int
    index: np.ndarray  # type: ignore[assignment]  # hides tuple.index, which nobody calls


def write(
    size: Tuple[int, int], mcu: Tuple[int, int], group: int, tables: Tables, coded: Coded
) -> bytes:
    """The segments.

    Args:
        size: width and height, pixels.
        mcu: the same of an MCU.
        group: MCUs of a group, at most 255.
        tables: what stands between these segments and the scan.
        coded: the scan.

    Raises:
        Unsupported: more parts than can be counted (a picture beyond any camera).
    """
    components = coded.means.shape[2]
    row_base, row_bits, row_values = _reduced(coded.rows)
    fields = [_reduced(coded.lengths.ravel())]
    fields += [_reduced(coded.means[:, :, number].ravel()) for number in range(components)]
    bounds = [bound for base, bits, _ in fields for bound in (base, bits)]
    header = _HEADER.pack(
        *size, mcu[0] // 8, mcu[1] // 8, group, coded.pad, components,
        *tables[1:], int(coded.rows.sum()), row_base, row_bits,
        *bounds, *([0, 0] * (3 - components)),
    )  # fmt: skip
    content = header + _packed([(row_bits, row_values)])
    content += _packed([(bits, values) for _, bits, values in fields]) + bytes(8)
    parts = -(-len(content) // PART)
    if parts > 255:
        raise Unsupported(f"JPEG of {size[0]} x {size[1]} pixels: its index is too long")
    opening = IDENTIFIER + bytes([VERSION])
    return b"".join(
        segment(MARKER, opening + bytes([part, parts]) + content[part * PART : (part + 1) * PART])
        for part in range(parts)
    )


def _reduced(values: np.ndarray) -> Tuple[int, int, np.ndarray]:
    """Least value, bits that the largest needs above it, values above it."""
    if len(values) == 0:
        return 0, 0, values
    base = int(values.min())
    return base, int(values.max() - base).bit_length(), values - base


def _packed(fields: List[Tuple[int, np.ndarray]]) -> bytes:
    """Records of some bits a field, one behind the other."""
    columns = [
        (values[:, None] >> np.arange(bits - 1, -1, -1)) & 1 for bits, values in fields if bits
    ]
    if not columns:
        return b""
    return np.packbits(np.concatenate(columns, axis=1).astype(np.uint8).ravel()).tobytes()


def parse(data: Data) -> Optional[Layout]:
    """Find the index of a packed file.

    Args:
        data: the file's bytes.

    Returns:
        None for a file that has none, whatever else it is.

    Raises:
        BadSample: it has one, and that is damaged or of another version.
    """
    position, size = 2, len(data)
    while position + 4 <= size and data[position] == 0xFF:
        marker = data[position + 1]
        length = data[position + 2] << 8 | data[position + 3]
        if marker == MARKER and data[position + 4 : position + 4 + len(IDENTIFIER)] == IDENTIFIER:
            return _read(data, position)
        if not (0xE0 <= marker <= 0xEF or marker == 0xFE):
            return None
        position += 2 + length
    return None


def _read(data: Data, position: int) -> Layout:
    pieces, part, parts = [], 0, 1
    whole = np.frombuffer(data, np.uint8)
    while part < parts:
        opening = bytes(data[position : position + 4 + _OPENING])
        length = int.from_bytes(opening[2:4], "big")
        end = position + 2 + length
        if (
            len(opening) < 4 + _OPENING
            or opening[:2] != bytes([0xFF, MARKER])
            or opening[4:-3] != IDENTIFIER
            or opening[-2] != part
            or end > len(data)
        ):
            raise BadSample(f"damaged index of windows: part {part} of {parts} is not in its place")
        if opening[-3] != VERSION:
            raise BadSample(f"index of windows of version {opening[-3]}, expected {VERSION}")
        pieces.append(whole[position + 4 + _OPENING : end])
        part, parts, position = part + 1, opening[-1], end
    index = pieces[0] if parts == 1 else np.concatenate(pieces)
    if len(index) < TABLES + 8:
        raise BadSample(f"damaged index of windows: {len(index)} bytes")
    index.flags.writeable = False
    values = index[:4].tolist()
    width, height = values[0] << 8 | values[1], values[2] << 8 | values[3]
    if width == 0 or height == 0:
        raise BadSample(f"damaged index of windows: {width} x {height} pixels")
    return Layout(width, height, position, index)
