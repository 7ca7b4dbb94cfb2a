"""A JPEG file -> a coefficient record: what Huffman decoding gives, in the load kernel's order.

Every coefficient that the picture needs is kept as it is; what is left out: metadata, and blocks
that lie wholly outside the picture (JPEG fills its last MCU up).
"""

import threading
from typing import List, Tuple

import numpy as np

from train.data.coefficients import record
from train.data.coefficients.create import Part, create, seal, sections
from train.data.coefficients.pack_kernels import OUT_OF_RANGE, pack_plane
from train.data.jpeg import coefficients
from train.data.jpeg.coefficients import Coefficients, Plane
from train.data.jpeg.markers import APP1, Unsupported
from train.data.orientation import exif_orientation

__all__ = ["Unsupported", "order_of", "orientation_of", "pack", "stored"]

_ZIGZAG = sorted(
    range(64), key=lambda at: (at // 8 + at % 8, (at // 8 if (at // 8 + at % 8) % 2 else at % 8))
)
"""Where the k-th coefficient of the zigzag order stands, row by row (T.81, figure A.6)."""

_MOST_VALUES = 126
"""Bytes that the values of a block take at most."""

_KEPT_BYTES = 64 << 20
"""Memory that a thread keeps for its next picture, of about 25 megapixels."""

_memory = threading.local()


def pack(data: bytes) -> bytes:
    """Make the record of a JPEG file; the same file gives the same bytes.

    Args:
        data: baseline or progressive, 8 bits, one or three components.

    Raises:
        BadSample: damaged.
        Unsupported: of a kind that stays as it is.
    """
    picture = coefficients.decode(data)
    return stored(picture, orientation_of(picture))


def stored(picture: Coefficients, orientation: int = 1) -> bytes:
    """The record of a picture.

    Args:
        picture: its coefficients.
        orientation: EXIF's, 1 to 8. What turns rows into columns is done here, without loss; what
            only mirrors is written down.

    Raises:
        Unsupported: it can't be stored.
    """
    turned = orientation >= 5
    _check_factors(picture)
    size = (picture.height, picture.width) if turned else (picture.width, picture.height)
    sides = [(plane.v, plane.h) if turned else (plane.h, plane.v) for plane in picture.planes]
    parts = [Part(h, v, None, 0) for h, v in sides]
    tables, order = [], order_of(turned)
    for number, (plane, part) in enumerate(zip(picture.planes, parts)):
        table = _tables_of(picture, plane, record.grid(*size, part, parts), order, turned)
        parts[number] = part._replace(quantiser=plane.quantiser[order], values_size=len(table[3]))
        tables.append(table)
    mirrored = {5: 1, 6: 2, 7: 3, 8: 4}.get(orientation, orientation)
    made = create(*size, parts, picture.rgb, mirrored)
    for room, table in zip(record.parse(made).planes, tables):
        for place, content in zip(sections(made, room), table):
            place[:] = content
    seal(made)
    return made.tobytes()


def orientation_of(picture: Coefficients) -> int:
    """EXIF's orientation of a file, 1 to 8."""
    parts = [payload for marker, payload in picture.metadata if marker == APP1]
    found = [exif_orientation(part[6:]) for part in parts if part[:6] == b"Exif\0\0"]
    return found[-1] if found else 1


def order_of(turned: bool) -> np.ndarray:
    """The place in zigzag order of each stored coefficient: int64 (64,).

    Args:
        turned: rows and columns of the JPEG change places.
    """
    across, down = np.divmod(np.arange(64), 8)  # frequencies, of the upright picture
    natural = across * 8 + down if turned else down * 8 + across
    return np.argsort(_ZIGZAG)[natural]


def _check_factors(picture: Coefficients) -> None:
    factors = [(plane.h, plane.v) for plane in picture.planes]
    most_h, most_v = max(h for h, _ in factors), max(v for _, v in factors)
    if any(most_h % h or most_v % v for h, v in factors):
        raise Unsupported(f"JPEG with sampling factors {factors}: no whole ratios")


def _tables_of(
    picture: Coefficients, plane: Plane, grid: Tuple[int, int], order: np.ndarray, turned: bool
) -> List[np.ndarray]:
    """Starts, masks, means and values of one plane."""
    strips, blocks = grid
    count = strips * blocks
    starts = np.empty(strips * -(-blocks // record.GROUP) + 1, np.uint32)
    masks, means = np.empty(count, np.uint64), np.empty(count, np.int16)
    values = _room(count * _MOST_VALUES)
    steps = (plane.columns, 1) if turned else (1, plane.columns)
    size = pack_plane(
        picture.blocks, plane.first, steps, grid, order, starts, masks, means, values
    )  # fmt: skip
    if size == OUT_OF_RANGE:
        raise Unsupported("JPEG with coefficients that 8 bits a sample never give")
    return [starts, masks, means, values[:size].copy()]


def _room(size: int) -> np.ndarray:
    """Memory of this thread, uint8, at least so much: fresh memory costs page faults."""
    if size > _KEPT_BYTES:
        return np.empty(size, np.uint8)
    found = getattr(_memory, "values", None)
    if found is None or len(found) < size:
        found = _memory.values = np.empty(size, np.uint8)
    return found
