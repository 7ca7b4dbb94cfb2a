"""Which way is up: the EXIF orientation of cameras that were held sideways.

Orientation 1 is upright; 2 to 8 are the other ways in which a picture can be mirrored and turned
by quarters. Source: EXIF 2.3, tag 0x0112.
"""

import struct

import numpy as np

from train.data.augment import Box
from train.data.resize import Part


def exif_orientation(tiff: bytes) -> int:
    """The orientation tag of the first directory; damaged metadata never costs a picture: 1."""
    try:
        order = {b"II": "<", b"MM": ">"}[tiff[:2]]
        (start,) = struct.unpack(order + "I", tiff[4:8])
        (count,) = struct.unpack(order + "H", tiff[start : start + 2])
        for entry in range(start + 2, start + 2 + 12 * min(count, 512), 12):
            tag, kind = struct.unpack(order + "HH", tiff[entry : entry + 4])
            if tag == 0x0112 and kind in (3, 4):  # SHORT; some writers say LONG
                width = 2 if kind == 3 else 4
                format_ = order + ("H" if kind == 3 else "I")
                (value,) = struct.unpack(format_, tiff[entry + 8 : entry + 8 + width])
                return value if 1 <= value <= 8 else 1
    except (KeyError, struct.error):
        pass
    return 1


def upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Undo a camera's rotation: uint8 (h, w, 3) -> a view of it, upright."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def upright_part(part: Part, columns: int, rows: int, orientation: int) -> Part:
    """As `upright`, for a part of so many stored columns and rows."""
    x, y, width, height = part
    if orientation >= 5:
        x, y, width, height, columns, rows = y, x, height, width, rows, columns
    if orientation in (2, 3, 6, 7):
        x = columns - x - width
    if orientation in (3, 4, 7, 8):
        y = rows - y - height
    return Part(x, y, width, height)


def stored_box(box: Box, width: int, height: int, orientation: int) -> Box:
    """Where a window of an upright picture of `width` x `height` lies in what is stored."""
    x, y, columns, rows = box
    if orientation == 1:
        return box
    if orientation in (2, 3, 6, 7):
        x = width - x - columns
    if orientation in (3, 4, 7, 8):
        y = height - y - rows
    return Box(y, x, rows, columns) if orientation >= 5 else Box(x, y, columns, rows)
