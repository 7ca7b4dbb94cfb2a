"""Images that Pillow decodes: all that are no plain JPEG and have one right answer.

The same picture as everywhere: EXIF orientation applied, 16 bits scaled by 257, transparency over
white, the first frame of an animation, CMYK with or without Adobe's inversion.
"""

import io
import warnings
from typing import Any, Tuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from train.data.orientation import exif_orientation
from train.errors import BadSample

Image.MAX_IMAGE_PIXELS = None  # our own limit, data.max_pixels, is checked from the header instead

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "DIB", "GIF", "TIFF", "PPM", "JPEG2000")
"""What Pillow may open. Its plugin for EPS, for one, would start a program (Ghostscript)."""

BACKGROUND = 255
"""Level of the background that transparent images are laid on: white."""


SMALL_TILES = 1 << 24
"""Pixels that the tiles of a TIFF may have beyond four times those of its picture."""


def probe(data: Any) -> Tuple[int, int, int, bool]:
    """Width and height (upright), orientation, whether CMYK is inverted: nothing is decoded.

    Raises:
        BadSample: no image, or a damaged header.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = _open(data)
        try:
            return _probe(image)
        except BadSample:
            raise
        except Exception as error:  # a tag may hold anything: two numbers, a text
            raise BadSample(f"damaged header: {type(error).__name__}: {error}") from None


def name(data: Any) -> str:
    """The format as Pillow calls it, such as "PNG"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return str(_open(data).format)


def decode(data: Any, width: int, height: int, inverted_cmyk: bool) -> np.ndarray:
    """Decode a whole image.

    Args:
        data: the file's bytes.
        width: upright, pixels; for messages.
        height: the same.
        inverted_cmyk: what `probe` said.

    Returns:
        uint8 (h, w, 3), RGB, in the file's own orientation.

    Raises:
        BadSample: truncated or corrupt.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = _open(data)
        try:
            image.load()
            return _to_rgb(image, inverted_cmyk)
        except BadSample:
            raise
        except MemoryError:
            raise BadSample(f"{width} x {height} pixels do not fit into memory") from None
        except Exception as error:  # Pillow's plugins raise many types for damaged data
            raise BadSample(
                f"damaged {image.format} of {len(data)} bytes: {type(error).__name__}: {error}"
            ) from None


def to_rgb(image: Image.Image) -> np.ndarray:
    """Pixels of a picture that somebody else has opened: uint8 (h, w, 3), RGB.

    Raises:
        BadSample: floating point pixels, or levels beyond 16 bits.
    """
    return _to_rgb(image, inverted_cmyk=True)


def _open(data: Any) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        raise BadSample(
            f"no image format of {', '.join(FORMATS)} ({len(data)} bytes, begins with "
            f"{bytes(data[:8])!r})"
        ) from None
    except Exception as error:  # Pillow's plugins raise whatever a damaged header makes them raise
        raise BadSample(f"damaged header: {type(error).__name__}: {error}") from None


def _probe(image: Image.Image) -> Tuple[int, int, int, bool]:
    """Size and orientation from what `open` has read; `getexif` would decode a PNG's pixels."""
    width, height = image.size
    if image.format == "TIFF":
        # Pillow turns TIFF upright itself when it loads; only its newer versions say so in `size`.
        tags = image.tag_v2  # type: ignore[attr-defined]
        width, height = int(tags[256]), int(tags[257])
        if 324 in tags:  # where its tiles lie
            _check_tiles(width, height, int(tags[322]), int(tags[323]))
        turned = tags.get(274, 1) in (5, 6, 7, 8)
        return (height, width, 1, True) if turned else (width, height, 1, True)
    exif = image.info.get("exif", b"")
    start = 6 if exif[:6] == b"Exif\0\0" else 0
    orientation = exif_orientation(exif[start:])
    if orientation >= 5:
        width, height = height, width
    return width, height, orientation, True


def _check_tiles(width: int, height: int, across: int, down: int) -> None:
    """Refuse a TIFF whose tiles hold far more than its picture: libtiff decodes a whole one."""
    most = max(width, across) * max(height, down)
    if most > 4 * width * height + SMALL_TILES:
        raise BadSample(f"tiles of {across} x {down} pixels for a picture of {width} x {height}")


def _to_rgb(image: Image.Image, inverted_cmyk: bool) -> np.ndarray:
    """Any Pillow mode -> uint8 (h, w, 3)."""
    mode = image.mode
    if mode == "RGB" and "transparency" not in image.info:
        return np.array(image)  # a copy: Pillow lends its pixels read-only
    if mode.startswith("I"):  # 16-bit grey comes as I;16 or I, by Pillow's version and the file
        levels = np.asarray(image)
        if levels.min() < 0 or levels.max() > 65535:
            raise BadSample(
                f"levels from {levels.min()} to {levels.max()}, expected 0 to 65535 (16 bits)"
            )
        pixels = np.empty((*levels.shape, 3), np.uint8)
        for row, line in enumerate(levels):  # all at once would take 30 bytes a pixel
            pixels[row] = ((line.astype(np.int32) + 128) // 257)[:, None]
        return pixels
    if mode == "F":
        raise BadSample(
            "floating point pixels have no agreed range; convert the file to 8 or 16 bits"
        )
    if mode == "CMYK":
        if image.format == "JPEG" and not inverted_cmyk:
            # Pillow takes every CMYK JPEG for inverted; without Adobe's marker it is not.
            image = Image.frombytes("CMYK", image.size, (255 - np.asarray(image)).tobytes())
        return np.array(image.convert("RGB"))
    if mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        over = Image.new("RGBA", image.size, (BACKGROUND,) * 4)
        return np.array(Image.alpha_composite(over, image.convert("RGBA")).convert("RGB"))
    return np.array(image.convert("RGB"))
