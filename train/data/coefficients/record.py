"""The layout of a coefficient record: every field; parsed and checked.

A record is little-endian. One `HEADER`, one `PLANE` for each colour plane, then for each plane four
sections in this order, each beginning at a multiple of 8 bytes from the record's first:

| section | type | what |
|---|---|---|
| starts | uint32 (groups + 1,) | where the values of each group of 8 blocks begin, then the end |
| masks | uint64 (N,) | bit i: coefficient i is not zero; bit 0: values have two bytes |
| means | int16 (N,) | coefficient 0 |
| values | int8 or int16 | the other coefficients that are not zero, in order |

and TAIL zero bytes, so that a vector may be loaded past the last value.

**Everything is transposed**, since rows then are the columns of the picture, and both passes of a
resize work on contiguous rows. A *strip* is a column of blocks, 8 pixels wide; blocks come strip
after strip from the left, within a strip from the top: N = strips * blocks. Coefficient i of a
block has the horizontal frequency i // 8 and the vertical one i % 8. A group is 8 blocks of one
strip, the last of a strip may have less: groups = strips * ceil(blocks / 8).

A plane of sampling (h, v) has ceil(width * h / most h) x ceil(height * v / most v) samples, and
just the blocks that cover them.

**Orientation.** A picture that EXIF says lies on its side is stored turned: exchanging rows and
columns costs nothing when it is packed, whatever its size. What is left is whether the stored
picture is mirrored (orientation 2, 3, 4), which costs nothing at load time. `width` and `height`
are of the upright picture.
"""

import struct
import zlib
from typing import Any, NamedTuple, Sequence, Tuple

import numpy as np

from train.data.coefficients import MAGIC, VERSION
from train.errors import BadSample

HEADER = np.dtype(
    [
        ("magic", "S8"),  # MAGIC
        ("version", "<u2"),  # VERSION
        ("header_size", "<u2"),  # bytes of HEADER and the PLANEs
        ("checksum", "<u4"),  # CRC-32 (zlib's) of all bytes of the record but these four
        ("size", "<u8"),  # bytes of the record, TAIL included
        ("width", "<u4"),  # pixels, upright
        ("height", "<u4"),  # pixels, upright
        ("flags", "<u4"),  # RGB or 0
        ("planes", "u1"),  # 1 (grey) or 3 (Y, Cb, Cr; or red, green, blue)
        ("orientation", "u1"),  # of what is stored: 1 to 4 as in EXIF
        ("reserved", "V26"),  # zeros
    ]
)

PLANE = np.dtype(
    [
        ("h", "u1"),  # sampling factors, 1 to 4, of the stored (turned) picture
        ("v", "u1"),
        ("reserved", "V6"),  # zeros
        ("strips", "<u4"),  # columns of blocks
        ("blocks", "<u4"),  # blocks of a strip
        ("starts", "<u8"),  # where the sections begin, bytes from the record's first
        ("masks", "<u8"),
        ("means", "<u8"),
        ("values", "<u8"),
        ("values_size", "<u8"),  # bytes, without what fills up to 8
        ("reserved_2", "V8"),  # zeros
        ("quantiser", "<u2", (64,)),  # what coefficients are multiplied by, in their order
    ]
)

RGB = 1
"""Flag: the three planes are red, green and blue."""

TAIL = 128
"""Zero bytes at the end: the vectors of a block of 16-bit values reach so far past it."""

GROUP = 8
"""Blocks of one strip that share a number in `starts`; the last of a strip may have less."""

_HEADER = struct.Struct("<8sHHIQIIIBB26s")
_PLANE = struct.Struct("<BB6sIIQQQQQ8s")
_SIZE, _VERSION = struct.Struct("<H14xII"), 8
CHECKSUM = HEADER.fields["checksum"][1]  # type: ignore[index]
"""Where the four bytes of the checksum are."""

Data = Any
"""What a record comes in: bytes, a memoryview of bytes, or uint8 (size,)."""


class Plane(NamedTuple):
    """One plane, see `PLANE`."""

    h: int
    v: int
    strips: int
    blocks: int
    starts: int
    masks: int
    means: int
    values: int
    values_size: int
    quantiser: np.ndarray


class Fields(NamedTuple):
    """What a record says of itself, see `HEADER`."""

    size: int
    width: int
    height: int
    rgb: bool
    orientation: int
    planes: Tuple[Plane, ...]


def is_record(data: Any) -> bool:
    """Whether bytes begin like a record."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def size_of(data: Data) -> Tuple[int, int]:
    """Width and height, upright, without any check but that of the version.

    Raises:
        BadSample: too short, or of a newer version.
    """
    if len(data) < HEADER.itemsize:
        raise _damaged(f"{len(data)} bytes")
    version, width, height = _SIZE.unpack_from(data, _VERSION)
    if version != VERSION:
        raise _other_version(version)
    return width, height


def parse(data: Data) -> Fields:
    """Read header and planes, and check them; blocks are checked when they are used.

    Args:
        data: the record.

    Raises:
        BadSample: no record, damaged, or of a newer version.
    """
    size = len(data)
    if size < HEADER.itemsize or not is_record(data):
        raise BadSample(f"no coefficient record ({size} bytes, begins with {bytes(data[:8])!r})")
    found = _HEADER.unpack(bytes(data[: HEADER.itemsize]))
    _, version, header_size, _, said, width, height, flags, planes, orientation, reserved = found
    if version != VERSION:
        raise _other_version(version)
    if said != size:
        raise BadSample(f"damaged coefficient record: {size} bytes, its header says {said}")
    if not (0 < width < 65536 and 0 < height < 65536):
        raise _damaged(f"{width} x {height} pixels")
    if planes not in (1, 3) or header_size != HEADER.itemsize + planes * PLANE.itemsize:
        raise _damaged(f"{planes} planes and a header of {header_size} bytes")
    if flags not in (0, RGB) or (flags and planes != 3) or any(reserved):
        raise _damaged(f"flags {flags:#x}")
    if not 1 <= orientation <= 4:
        raise _damaged(f"orientation {orientation}")
    if size < header_size + TAIL:
        raise _damaged(f"{size} bytes")
    parts = tuple(_plane(bytes(data[_place(n) : _place(n + 1)])) for n in range(planes))
    _check(parts, width, height, header_size, size)
    return Fields(size, width, height, bool(flags), orientation, parts)


def checksum(data: Data) -> int:
    """CRC-32 of all bytes but the checksum's own."""
    view = memoryview(data)
    return zlib.crc32(view[CHECKSUM + 4 :], zlib.crc32(view[:CHECKSUM]))


def check_checksum(data: Data) -> None:
    """Compare the stored checksum with the bytes.

    Raises:
        BadSample: they differ.
    """
    stored = int.from_bytes(bytes(data[CHECKSUM : CHECKSUM + 4]), "little")
    found = checksum(data)
    if stored != found:
        raise BadSample(
            f"damaged coefficient record: its checksum is {found:08x}, it says {stored:08x}"
        )


def grid(width: int, height: int, part: Any, parts: Sequence[Any]) -> Tuple[int, int]:
    """Strips and blocks of a plane: those that the picture needs."""
    most_h, most_v = max(p.h for p in parts), max(p.v for p in parts)
    return -(-width * part.h // (8 * most_h)), -(-height * part.v // (8 * most_v))


def sizes(strips: int, blocks: int) -> Tuple[int, int, int]:
    """Bytes of starts, masks and means."""
    groups, count = strips * -(-blocks // GROUP), strips * blocks
    return 4 * groups + 4, 8 * count, 2 * count


def _other_version(version: int) -> BadSample:
    remedy = "update it, or pack the data again" if version > VERSION else "pack the data again"
    return BadSample(
        f"a coefficient record of version {version}, this program reads version {VERSION}: {remedy}"
    )


def _damaged(what: str) -> BadSample:
    return BadSample(f"damaged coefficient record: {what}")


def _place(number: int) -> int:
    return HEADER.itemsize + number * PLANE.itemsize


def _plane(data: bytes) -> Plane:
    numbers = _PLANE.unpack_from(data)
    quantiser = np.frombuffer(data, "<u2", 64, _PLANE.size)
    return Plane._make([*numbers[:2], *numbers[3:10], quantiser])


def _check(planes: Sequence[Plane], width: int, height: int, position: int, size: int) -> None:
    """Sampling, grids, and that all sections lie in order and inside."""
    factors = [(plane.h, plane.v) for plane in planes]
    most_h, most_v = max(h for h, _ in factors), max(v for _, v in factors)
    if not all(1 <= h <= 4 and 1 <= v <= 4 and most_h % h == most_v % v == 0 for h, v in factors):
        raise _damaged(f"sampling factors {factors}")
    for number, plane in enumerate(planes):
        if (plane.strips, plane.blocks) != grid(width, height, plane, planes):
            raise _damaged(f"plane {number} has {plane.strips} x {plane.blocks} blocks")
        lengths = sizes(plane.strips, plane.blocks) + (plane.values_size,)
        for start, length in zip(plane[4:8], lengths):
            if start % 8 or start < position or start + length > size - TAIL:
                raise _damaged(f"a section of plane {number} lies at {start} ({length} bytes)")
            position = start + length
        if plane.values_size > 126 * plane.strips * plane.blocks or plane.values_size >= 1 << 32:
            raise _damaged(f"plane {number} has {plane.values_size} bytes of values")
