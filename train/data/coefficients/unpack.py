"""A coefficient record -> all its coefficients, checked one by one; and the JPEG file they make.

For whoever wants the whole picture: `pack --verify`, packing records into something else, looking
at one. Training goes another way.
"""

from typing import Any, List, NamedTuple

import numpy as np

from train.data.coefficients import record
from train.data.coefficients.create import sections
from train.data.coefficients.pack import order_of, orientation_of
from train.data.coefficients.pack_kernels import OK, unpack_plane
from train.data.jpeg import coefficients, entropy, markers, tables
from train.data.jpeg.coefficients import Coefficients, Plane
from train.data.jpeg.markers import Unsupported, segment
from train.errors import BadSample

_ADOBE = b"Adobe\0d\0\0\0\0"
_EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\3\0\0\0\1\0"
"""One directory of one entry: tag 0x0112, one SHORT, whose second byte follows (EXIF 2.3)."""

_GROUP = 255
"""MCUs of a group of an index: there is none here."""


class Unpacked(NamedTuple):
    """What a record holds.

    Attributes:
        picture: coefficients, in the order of a JPEG file.
        orientation: EXIF's, of the picture.
    """

    picture: Coefficients
    orientation: int


def unpack(data: Any, turned: bool = False) -> Unpacked:
    """Read a whole record; checksum, counts and places of all blocks are checked.

    Args:
        data: the record.
        turned: exchange rows and columns, as `pack` does for orientations 5 to 8.

    Returns:
        Its picture, with the blocks that fill up the last MCUs made flat.

    Raises:
        BadSample: damaged, or of a newer version.
    """
    # A copy: what comes out of a container begins at any address.
    memory = np.empty(-(-len(data) // 8), np.uint64).view(np.uint8)[: len(data)]
    memory[:] = np.frombuffer(data, np.uint8)
    fields = record.parse(memory)
    record.check_checksum(memory)
    width, height = (fields.width, fields.height)[:: -1 if turned else 1]
    factors = [(plane.v, plane.h) if turned else (plane.h, plane.v) for plane in fields.planes]
    across = -(-width // (8 * max(h for h, _ in factors)))
    down = -(-height // (8 * max(v for _, v in factors)))
    planes: List[Plane] = []
    first, order = 0, order_of(turned)
    for stored, (h, v) in zip(fields.planes, factors):
        quantiser = np.empty(64, np.uint16)
        quantiser[order] = stored.quantiser
        planes.append(Plane(h, v, quantiser, first, down * v, across * h))
        first += down * v * across * h
    blocks = np.zeros((first, 64), np.int16)
    picture = Coefficients(width, height, blocks, tuple(planes), fields.rgb, ())
    for number, (plane, stored) in enumerate(zip(planes, fields.planes)):
        grid = stored.strips, stored.blocks
        steps = (plane.columns, 1) if turned else (1, plane.columns)
        if unpack_plane(*sections(memory, stored), grid, steps, order, blocks, plane.first) != OK:
            raise BadSample(f"damaged coefficient record: the blocks of plane {number}")
        needed = grid[::-1] if turned else grid
        coefficients.pad(picture.plane(number), *needed)
    return Unpacked(picture, (5, 6, 7, 8)[fields.orientation - 1] if turned else fields.orientation)


def holds(data: Any, jpeg: bytes) -> bool:
    """Whether a record holds just the size, colours, quantisers and coefficients of a JPEG file.

    Args:
        data: the record.
        jpeg: what it was made of.

    Raises:
        BadSample: either is damaged.
        Unsupported: the JPEG is of a kind that has no record.
    """
    expected = coefficients.decode(jpeg)
    orientation = orientation_of(expected)
    picture, found = unpack(data, turned=orientation >= 5)
    sizes = [(p.width, p.height, p.rgb, len(p.planes)) for p in (picture, expected)]
    if found != orientation or sizes[0] != sizes[1]:
        return False
    for number, (one, other) in enumerate(zip(picture.planes, expected.planes)):
        columns, rows = record.grid(expected.width, expected.height, other, expected.planes)
        blocks, others = (p.plane(number)[:rows, :columns] for p in (picture, expected))
        if (one.h, one.v) != (other.h, other.v) or not np.array_equal(blocks, others):
            return False
        if not np.array_equal(one.quantiser, other.quantiser):
            return False
    return True


def to_jpeg(data: Any) -> bytes:
    """The baseline JPEG file of a record: decoded, it gives the very pixels of the original.

    Args:
        data: the record.

    Returns:
        The file; where the record's picture is mirrored, EXIF's orientation says so.

    Raises:
        BadSample: damaged, or of a newer version.
    """
    picture, orientation = unpack(data)
    try:
        coded = entropy.encode(picture, _GROUP)
    except Unsupported as error:
        raise BadSample(f"damaged coefficient record: {error}") from None
    before = tables.write(picture, coded, -(-picture.width // entropy.mcu_size(picture)[0]))
    parts = [b"\xff\xd8"]
    if orientation != 1:
        parts.append(segment(markers.APP1, _EXIF + bytes([orientation]) + bytes(6)))
    if len(picture.planes) == 3:
        # Adobe's marker says red, green, blue (0) or Y, Cb, Cr (1) to every decoder.
        parts.append(segment(markers.APP14, _ADOBE + bytes([0 if picture.rgb else 1])))
    return b"".join([*parts, before.data, coded.bits, b"\xff\xd9"])
