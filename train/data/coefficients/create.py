"""A new coefficient record: room for its sections, for the packer to fill."""

import struct
from typing import Any, NamedTuple, Sequence

import numpy as np

from train.data.coefficients import MAGIC, VERSION
from train.data.coefficients.record import (
    CHECKSUM,
    GROUP,
    HEADER,
    PLANE,
    RGB,
    TAIL,
    Plane,
    checksum,
    grid,
    sizes,
)


class Sections(NamedTuple):
    """The sections of one plane, views of the record: uint32, uint64, int16, uint8."""

    starts: np.ndarray
    masks: np.ndarray
    means: np.ndarray
    values: np.ndarray


class Part(NamedTuple):
    """What `create` is told of a plane, see `PLANE`; `quantiser` is in transposed order."""

    h: int
    v: int
    quantiser: Any
    values_size: int


def create(
    width: int, height: int, parts: Sequence[Part], rgb: bool = False, orientation: int = 1
) -> np.ndarray:
    """A record with its header; sections are zeros, for the packer to fill. Then `seal` it.

    Args:
        width: upright, pixels.
        height: the same.
        parts: one or three planes.
        rgb: they are red, green and blue.
        orientation: of what is stored, 1 to 4.

    Returns:
        uint8 (size,), its first byte at a multiple of 8.
    """
    table = np.zeros(len(parts), PLANE)
    position = HEADER.itemsize + table.nbytes
    for row, part in zip(table, parts):
        strips, blocks = grid(width, height, part, parts)
        row["h"], row["v"], row["strips"], row["blocks"] = part.h, part.v, strips, blocks
        row["quantiser"], row["values_size"] = part.quantiser, part.values_size
        lengths = sizes(strips, blocks) + (part.values_size,)
        for name, size in zip(("starts", "masks", "means", "values"), lengths):
            row[name] = position
            position += _rounded(size)
    header = np.zeros((), HEADER)
    header["magic"], header["version"], header["size"] = MAGIC, VERSION, position + TAIL
    header["header_size"] = HEADER.itemsize + table.nbytes
    header["width"], header["height"], header["flags"] = width, height, RGB if rgb else 0
    header["planes"], header["orientation"] = len(parts), orientation
    record = np.zeros((position + TAIL) // 8, np.uint64).view(np.uint8)
    record[: int(header["header_size"])] = np.frombuffer(header.tobytes() + table.tobytes(), "u1")
    return record


def sections(record: np.ndarray, plane: Plane) -> Sections:
    """The sections of a plane of a record whose memory begins at a multiple of 8."""
    count = plane.strips * plane.blocks
    groups = plane.strips * -(-plane.blocks // GROUP)
    return Sections(
        record[plane.starts :][: 4 * groups + 4].view("<u4"),
        record[plane.masks :][: 8 * count].view("<u8"),
        record[plane.means :][: 2 * count].view("<i2"),
        record[plane.values :][: plane.values_size],
    )


def seal(record: np.ndarray) -> None:
    """Write the checksum."""
    record[CHECKSUM : CHECKSUM + 4] = np.frombuffer(struct.pack("<I", checksum(record)), "u1")


def _rounded(size: int) -> int:
    return -(-size // 8) * 8
