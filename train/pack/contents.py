"""What becomes of one image: its bytes untouched, a JPEG, a JPEG with windows, or raw pixels.

What can't be changed (damaged, CMYK) keeps its bytes, and the reason is told: nothing is lost.
"""

from typing import Any, NamedTuple, Optional, Union

import numpy as np
import simplejpeg
from PIL import Image

from train.config import DataConfig
from train.data.augment import Box
from train.data.decode import Header, decode, probe
from train.errors import BadSample
from train.pack.options import SUBSAMPLING, PackOptions

MAX_PIXELS = DataConfig().max_pixels
"""As in training: larger images are bad samples."""

Stored = Union[bytes, memoryview, np.ndarray]


class Converted(NamedTuple):
    """One image as it is packed.

    Attributes:
        data: its bytes.
        ending: ".jpg" or ".ppm" where it was made here; None: the source's own bytes.
        way: "kept", "windows", "encoded" or "raw".
        reason: why it was kept though something else was asked for; '' otherwise.
        bad: it can't be decoded, so it goes into the ledger.
    """

    data: bytes
    ending: Optional[str]
    way: str
    reason: str = ""
    bad: bool = False


def convert(stored: Stored, options: PackOptions) -> Converted:
    """Make of a record's data what was asked for; it never raises for the image's sake.

    Args:
        stored: an encoded image, or pixels uint8 (h, w, 3).
        options: content, short_side, quality.
    """
    if isinstance(stored, np.ndarray):
        data, ending = ppm(stored), ".ppm"
    else:
        data, ending = bytes(stored), None
    if options.content == "original":
        return Converted(data, ending, "kept")
    try:
        header = probe(data, MAX_PIXELS)
        if options.content == "windows" and options.short_side is None and is_jpeg(data):
            return _with_windows(data, header)
        pixels = shrink(decode(data, header, _whole(header)), options.short_side)
    except BadSample as error:
        return Converted(data, ending, "kept", str(error), bad=True)
    if options.content == "raw":
        return Converted(ppm(pixels), ".ppm", "raw")
    if max(pixels.shape[:2]) > 65500:
        return Converted(data, ending, "kept", "larger than a JPEG can be (65500 pixels)")
    encoded = encode(pixels, options.jpeg_quality)
    if options.content == "windows":
        made = _with_windows(encoded, header)
        return made._replace(ending=".jpg", way="encoded" if made.way == "windows" else made.way)
    return Converted(encoded, ".jpg", "encoded")


def pixels_of(stored: Stored) -> np.ndarray:
    """Decode the whole image: uint8 (h, w, 3), upright RGB.

    Raises:
        BadSample: it can't be decoded.
    """
    data: Any = ppm(stored) if isinstance(stored, np.ndarray) else bytes(stored)
    header = probe(data, MAX_PIXELS)
    return decode(data, header, _whole(header))


def encode(pixels: np.ndarray, quality: int) -> bytes:
    """A baseline JPEG of uint8 (h, w, 3)."""
    return simplejpeg.encode_jpeg(
        np.ascontiguousarray(pixels),
        quality=quality,
        colorspace="RGB",
        colorsubsampling=SUBSAMPLING,
        fastdct=False,
    )


def ppm(pixels: np.ndarray) -> bytes:
    """Raw pixels, uint8 (h, w, 3), behind one short header: an image for everybody."""
    height, width = pixels.shape[:2]
    return b"P6\n%d %d\n255\n" % (width, height) + np.ascontiguousarray(pixels).tobytes()


def shrink(pixels: np.ndarray, short_side: Optional[int]) -> np.ndarray:
    """Scale down to a short side, antialiased (triangle filter); never up."""
    height, width = pixels.shape[:2]
    if short_side is None or min(width, height) <= short_side:
        return pixels
    scale = short_side / min(width, height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize(size, Image.Resampling.BILINEAR))


def is_jpeg(data: bytes) -> bool:
    """Whether it begins as a JPEG does."""
    return data[:3] == b"\xff\xd8\xff"


def _with_windows(data: bytes, header: Header) -> Converted:
    """The lossless way; what it can't carry over stays as it is."""
    from train.data.jpeg import windows  # compiles at first use

    try:
        return Converted(windows.pack(data), None, "windows")
    except (BadSample, windows.Unsupported) as error:
        reason = str(error)
    try:
        decode(data, header, _whole(header))
    except BadSample as error:
        return Converted(data, None, "kept", str(error), bad=True)
    return Converted(data, None, "kept", reason)


def _whole(header: Header) -> Box:
    return Box(0, 0, header.width, header.height)
