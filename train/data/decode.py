"""Stop 4 of the line: bytes -> uint8 (h, w, 3), upright RGB.

What a file is, its content says, never its name. Baseline and progressive JPEG in RGB, YCbCr or
grey go through libjpeg-turbo (simplejpeg; it releases the GIL); everything else through Pillow.
Both give the same picture: EXIF orientation applied, 16 bits scaled by 257, transparency over
white, the first frame of an animation, CMYK with or without Adobe's inversion.
"""

import io
import re
import struct
import warnings
from typing import NamedTuple, Optional

import numpy as np
import simplejpeg
from PIL import Image, UnidentifiedImageError

from train.data.augment import Box

Image.MAX_IMAGE_PIXELS = None  # our own limit, data.max_pixels, is checked from the header instead

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "DIB", "GIF", "TIFF", "PPM", "JPEG2000")
"""What Pillow may open. Its plugin for EPS, for one, would start a program (Ghostscript)."""

BACKGROUND = 255
"""Level of the background that transparent images are laid on: white."""


class BadSample(Exception):
    """These bytes are no usable image; the message is the reason, for people."""


class Header(NamedTuple):
    """What an image is, known before any pixel is decoded.

    Attributes:
        kind: "jpeg" (libjpeg-turbo decodes it) or "pillow".
        width, height: upright, pixels.
        orientation: EXIF orientation 1 to 8; 1 is upright.
        inverted_cmyk: a CMYK JPEG whose inks Adobe's marker declares inverted.
    """

    kind: str
    width: int
    height: int
    orientation: int
    inverted_cmyk: bool


def probe(data: bytes, max_pixels: int) -> Header:
    """Read the header.

    Args:
        data: the file's bytes.
        max_pixels: larger images are refused.

    Raises:
        BadSample: empty, no image, damaged header, or more pixels than allowed.
    """
    if not data:
        raise BadSample("the file is empty (0 bytes)")
    header = _probe_jpeg(data) if data[:2] == b"\xff\xd8" else None
    if header is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            header = _probe_pillow(_open(data))
    if header.width * header.height > max_pixels:
        raise BadSample(
            f"{header.width} x {header.height} pixels are more than "
            f"data.max_pixels={max_pixels} allows"
        )
    return header


def decode(data: bytes, header: Header, box: Box) -> np.ndarray:
    """Decode one window.

    Args:
        data: the file's bytes.
        header: what `probe` said of them.
        box: the window, upright pixels, inside the image.

    Returns:
        uint8 (box.height, box.width, 3), RGB; a view where that saves a copy.

    Raises:
        BadSample: truncated or corrupt; half a picture is never returned.
    """
    if header.kind == "jpeg":
        pixels = upright(_decode_jpeg(data), header.orientation)
    else:
        pixels = _decode_pillow(data, header)
    if pixels.shape != (header.height, header.width, 3):
        raise BadSample(
            f"decoded to {pixels.shape[1]} x {pixels.shape[0]}, "
            f"the header says {header.width} x {header.height}"
        )
    return pixels[box.y : box.y + box.height, box.x : box.x + box.width]


def upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Undo a camera's rotation: uint8 (h, w, 3) -> a view of it, upright.

    Source: EXIF 2.3, tag 0x0112.
    """
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def _probe_jpeg(data: bytes) -> Optional[Header]:
    """Walk the marker segments up to the frame header; None: leave this file to Pillow."""
    orientation, adobe, position, size = 1, False, 2, len(data)
    while position + 4 <= size:
        if data[position] != 0xFF:
            return None
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
            continue
        length = int.from_bytes(data[position + 2 : position + 4], "big")
        segment = data[position + 4 : position + 2 + length]
        if marker == 0xE1 and segment[:6] == b"Exif\0\0":
            orientation = _exif_orientation(segment[6:])
        elif marker == 0xEE and segment[:5] == b"Adobe":
            adobe = True
        elif marker in (0xC0, 0xC1, 0xC2):
            if len(segment) < 6 or segment[0] != 8 or segment[5] not in (1, 3, 4):
                return None
            height, width = struct.unpack(">HH", segment[1:5])
            if width == 0 or height == 0:
                return None
            if orientation >= 5:
                width, height = height, width
            kind = "pillow" if segment[5] == 4 else "jpeg"
            return Header(kind, width, height, orientation, adobe)
        elif (0xC3 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)) or marker == 0xDA:
            return None  # lossless, arithmetic, hierarchical; or pixels before a frame header
        position += 2 + length
    return None


def _exif_orientation(tiff: bytes) -> int:
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


def _decode_jpeg(data: bytes) -> np.ndarray:
    try:
        return simplejpeg.decode_jpeg(data, colorspace="RGB", strict=True)
    except ValueError as error:
        reason = str(error)
    if re.search("extraneous bytes before marker 0x(?!d[0-7])", reason):
        # Bytes between two segments or before the end: the picture is whole, libjpeg only mentions
        # them. Before a restart marker (d0 to d7) they mean that the scan is damaged.
        try:
            return simplejpeg.decode_jpeg(data, colorspace="RGB", strict=False)
        except ValueError as error:
            reason = str(error)
    raise BadSample(f"damaged JPEG of {len(data)} bytes: {reason}")


def _open(data: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        raise BadSample(
            f"no image format of {', '.join(FORMATS)} ({len(data)} bytes, begins with {data[:8]!r})"
        ) from None
    except Exception as error:  # Pillow's plugins raise whatever a damaged header makes them raise
        raise BadSample(f"damaged header: {type(error).__name__}: {error}") from None


def _probe_pillow(image: Image.Image) -> Header:
    """Size and orientation from what `open` has read; `getexif` would decode a PNG's pixels."""
    width, height = image.size
    if image.format == "TIFF":
        # Pillow turns TIFF upright itself when it loads; only its newer versions say so in `size`.
        tags = image.tag_v2  # type: ignore[attr-defined]
        width, height = int(tags[256]), int(tags[257])
        turned = tags.get(274, 1) in (5, 6, 7, 8)
        return Header("pillow", *((height, width) if turned else (width, height)), 1, True)
    exif = image.info.get("exif", b"")
    start = 6 if exif[:6] == b"Exif\0\0" else 0
    orientation = _exif_orientation(exif[start:])
    if orientation >= 5:
        width, height = height, width
    return Header("pillow", width, height, orientation, True)


def _decode_pillow(data: bytes, header: Header) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = _open(data)
        try:
            image.load()
            pixels = _to_rgb(image, header)
        except BadSample:
            raise
        except MemoryError:
            raise BadSample(
                f"{header.width} x {header.height} pixels do not fit into memory"
            ) from None
        except Exception as error:  # Pillow's plugins raise many types for damaged data
            raise BadSample(
                f"damaged {image.format} of {len(data)} bytes: {type(error).__name__}: {error}"
            ) from None
    return upright(pixels, header.orientation)


def _to_rgb(image: Image.Image, header: Header) -> np.ndarray:
    """Any Pillow mode -> uint8 (h, w, 3), in the file's own orientation."""
    mode = image.mode
    if mode == "RGB" and "transparency" not in image.info:
        return np.array(image)  # a copy: Pillow lends its pixels read-only
    if mode.startswith("I"):  # 16-bit grey comes as I;16 or I, by Pillow's version and the file
        levels = np.asarray(image).astype(np.int64)
        if levels.min() < 0 or levels.max() > 65535:
            raise BadSample(
                f"levels from {levels.min()} to {levels.max()}, expected 0 to 65535 (16 bits)"
            )
        grey = ((levels + 128) // 257).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if mode == "F":
        raise BadSample(
            "floating point pixels have no agreed range; convert the file to 8 or 16 bits"
        )
    if mode == "CMYK":
        if image.format == "JPEG" and not header.inverted_cmyk:
            # Pillow takes every CMYK JPEG for inverted; without Adobe's marker it is not.
            image = Image.frombytes("CMYK", image.size, (255 - np.asarray(image)).tobytes())
        return np.array(image.convert("RGB"))
    if mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        over = Image.new("RGBA", image.size, (BACKGROUND,) * 4)
        return np.array(Image.alpha_composite(over, image.convert("RGBA")).convert("RGB"))
    return np.array(image.convert("RGB"))
