"""What a record is, known before any pixel is decoded: its kind, its size, which way is up.

What a file is, its content says, never its name.
"""

import re
import struct
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from train.data import by_pillow
from train.data.coefficients import MAGIC, record
from train.data.jpeg import IDENTIFIER, MARKER
from train.data.orientation import exif_orientation
from train.data.rare_sampling import is_rare
from train.errors import BadSample

Data = Union[bytes, memoryview, np.ndarray]
"""What a source gives: a file's bytes, or pixels: uint8 (h, w, 3)."""

_PIXMAP = re.compile(rb"P6\n([1-9]\d{0,8}) ([1-9]\d{0,8})\n255\n")


MAX_SCANS = 500
"""Of a progressive JPEG; encoders write about ten. 30 bytes may stand for one over all pixels, so
that a megabyte of them takes minutes."""


class Header(NamedTuple):
    """What an image is.

    Attributes:
        kind: who decodes it: "jpeg" (libjpeg-turbo), "windows" (the same, but only what is needed),
            "raw" (nobody, pixels are stored), "coefficients" (our kernels, only what is needed) or
            "pillow".
        width: upright, pixels.
        height: upright, pixels.
        orientation: EXIF orientation 1 to 8; 1 is upright.
        inverted_cmyk: a CMYK JPEG whose inks Adobe's marker declares inverted.
        place: where its pixels are. "windows": the index of the file; "raw": the first byte of the
            pixels, or None where the record is the pixels.
        rare_sampling: a JPEG of sampling factors that Pillow alone decodes (rare_sampling.py).
    """

    kind: str
    width: int
    height: int
    orientation: int = 1
    inverted_cmyk: bool = False
    place: Any = None
    rare_sampling: bool = False


def probe(data: Data, max_pixels: int) -> Header:
    """Read the header.

    Args:
        data: what a source gave.
        max_pixels: larger images are refused.

    Raises:
        BadSample: empty, no image, damaged header, or more pixels than allowed.
    """
    if isinstance(data, np.ndarray):
        header = _of_pixels(data)
    elif len(data) == 0:
        raise BadSample("the file is empty (0 bytes)")
    else:
        found = None
        if data[:2] == b"\xff\xd8":
            found = _of_jpeg(data)
        elif data[:3] == b"P6\n":
            found = _of_pixmap(data)
        elif data[: len(MAGIC)] == MAGIC:
            fields = record.parse(data)
            found = Header("coefficients", fields.width, fields.height)
        header = found or Header("pillow", *by_pillow.probe(data))
    check_pixels(header.width, header.height, max_pixels)
    return header


def check_pixels(width: int, height: int, max_pixels: int) -> None:
    """Refuse what is too large; BadSample."""
    if width * height > max_pixels:
        raise BadSample(
            f"{width} x {height} pixels are more than data.max_pixels={max_pixels} allows"
        )


def _of_pixels(pixels: np.ndarray) -> Header:
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise BadSample(
            f"an array of {pixels.dtype} {pixels.shape}; expected uint8 (height, width, 3)"
        )
    return Header("raw", pixels.shape[1], pixels.shape[0])


def _of_pixmap(data: Union[bytes, memoryview]) -> Optional[Header]:
    """A binary PPM as `pack` writes it; None: one with comments or 16 bits is left to Pillow."""
    match = _PIXMAP.match(bytes(data[:32]))
    if match is None:
        return None
    width, height = int(match.group(1)), int(match.group(2))
    expected = match.end() + 3 * width * height
    if len(data) < expected:
        raise BadSample(
            f"damaged PPM: {len(data)} bytes, {width} x {height} pixels need {expected}"
        )
    return Header("raw", width, height, place=match.end())


def _of_jpeg(data: Union[bytes, memoryview]) -> Optional[Header]:
    """Walk the marker segments up to the frame header; None: leave this file to Pillow."""
    orientation, adobe, indexed, position, size = 1, False, False, 2, len(data)
    while position + 4 <= size:
        if data[position] != 0xFF:
            return None
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
            continue
        length = data[position + 2] << 8 | data[position + 3]
        start, position = position + 4, position + 2 + length
        if marker == 0xE1 and data[start : start + 6] == b"Exif\0\0":
            orientation = exif_orientation(bytes(data[start + 6 : position]))
        elif marker == 0xEE and data[start : start + 5] == b"Adobe":
            adobe = True
        elif marker == MARKER and data[start : start + len(IDENTIFIER)] == IDENTIFIER:
            indexed = True
        elif marker in (0xC0, 0xC1, 0xC2):
            segment = bytes(data[start:position])
            if len(segment) < 6 or segment[0] != 8 or segment[5] not in (1, 3, 4):
                return None
            height, width = struct.unpack(">HH", segment[1:5])
            if width == 0 or height == 0:
                return None
            if marker == 0xC2 and bytes(data[position:]).count(b"\xff\xda") > MAX_SCANS:
                raise BadSample(f"damaged JPEG of {size} bytes: more than {MAX_SCANS} scans")
            layout = _layout(data, width, height) if indexed else None
            if orientation >= 5:
                width, height = height, width
            if segment[5] == 4:
                return Header("pillow", width, height, orientation, adobe)
            if is_rare(segment):
                return Header("pillow", width, height, orientation, adobe, rare_sampling=True)
            kind = "jpeg" if layout is None else "windows"
            return Header(kind, width, height, orientation, adobe, layout)
        elif (0xC3 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)) or marker == 0xDA:
            return None  # lossless, arithmetic, hierarchical; or pixels before a frame header
    return None


def _layout(data: Union[bytes, memoryview], width: int, height: int) -> Any:
    """The index of a file that `pack` has made; None where it says nothing of this picture."""
    from train.data.jpeg import windows  # late: it needs numba

    layout = windows.parse(data)
    fits = layout is not None and (layout.width, layout.height) == (width, height)
    return layout if fits else None
