"""What becomes of one image: its bytes, a JPEG, one with windows, coefficients, or raw pixels.

What can't be changed (damaged, CMYK) keeps its bytes, and the reason is told: nothing is lost.
"""

from typing import Any, NamedTuple, Optional, Union

import numpy as np
import simplejpeg
from PIL import Image

from train.config import DataConfig
from train.data.augment import Box
from train.data.coefficients.record import is_record
from train.data.decode import Header, decode, probe
from train.data.jpeg.markers import Unsupported
from train.errors import BadSample
from train.pack.options import PackOptions

MAX_PIXELS = DataConfig().max_pixels
"""As in training: larger images are bad samples."""

Stored = Union[bytes, memoryview, np.ndarray]

RECORD = ".coef"
"""How the file of a coefficient record ends."""

_LOSSLESS = ("windows", "coefficients")


class Converted(NamedTuple):
    """One image as it is packed.

    Attributes:
        data: its bytes.
        ending: ".jpg", ".ppm" or RECORD where it was made here; None: the source's own bytes, or a
            JPEG that stays one.
        way: "kept", "windows", "coefficients", "encoded" or "raw".
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
        known = is_jpeg(data) or is_record(data)
        if known and options.content in _LOSSLESS and options.short_side is None:
            return _without_loss(data, header, options.content)
        pixels = shrink(_decoded(data, header), options.short_side)
    except BadSample as error:
        return Converted(data, ending, "kept", str(error), bad=True)
    if options.content == "raw":
        return Converted(ppm(pixels), ".ppm", "raw")
    if max(pixels.shape[:2]) > 65500:
        return Converted(data, ending, "kept", "larger than a JPEG can be (65500 pixels)")
    encoded = encode(pixels, options)
    if options.content == "jpeg":
        return Converted(encoded, ".jpg", "encoded")
    try:
        made = _packed(encoded, options.content)
        return made._replace(ending=made.ending or ".jpg", way="encoded")
    except (BadSample, Unsupported) as error:
        return Converted(data, ending, "kept", str(error))


def pixels_of(stored: Stored) -> np.ndarray:
    """Decode the whole image: uint8 (h, w, 3), upright RGB.

    Raises:
        BadSample: it can't be decoded.
    """
    data: Any = ppm(stored) if isinstance(stored, np.ndarray) else bytes(stored)
    return _decoded(data, probe(data, MAX_PIXELS))


def encode(pixels: np.ndarray, options: PackOptions) -> bytes:
    """A baseline JPEG of uint8 (h, w, 3)."""
    space, subsampling = "RGB", options.subsampling
    if options.content == "coefficients" and (pixels == pixels[:, :, :1]).all():
        # Grey: the same brightness, a third of the work when it is loaded.
        pixels, space, subsampling = pixels[:, :, :1], "GRAY", "Gray"
    return simplejpeg.encode_jpeg(
        np.ascontiguousarray(pixels),
        quality=options.jpeg_quality,
        colorspace=space,
        colorsubsampling=subsampling,
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


def _without_loss(data: bytes, header: Header, content: str) -> Converted:
    """What the way can't carry over stays as it is."""
    try:
        return _packed(data, content)
    except (BadSample, Unsupported) as error:
        reason = str(error)
    try:
        _decoded(data, header)
    except BadSample as error:
        return Converted(data, None, "kept", str(error), bad=True)
    return Converted(data, None, "kept", reason)


def _packed(data: bytes, content: str) -> Converted:
    """A JPEG or a record with windows, or as coefficients; what is needed compiles at first use."""
    from train.data.coefficients.unpack import to_jpeg, unpack

    if content == "coefficients":
        from train.data.coefficients.pack import pack

        if not is_record(data):
            return Converted(pack(data), RECORD, "coefficients")
        unpack(data)  # sound to its last block
        return Converted(data, None, "coefficients")
    from train.data.jpeg import windows

    made = windows.pack(to_jpeg(data) if is_record(data) else data)
    return Converted(made, ".jpg" if is_record(data) else None, "windows")


def _decoded(data: bytes, header: Header) -> np.ndarray:
    """The whole image; of a record by libjpeg-turbo as well, so its pixels are a JPEG file's."""
    if is_record(data):
        from train.data.coefficients.unpack import to_jpeg

        data = to_jpeg(data)
        header = probe(data, MAX_PIXELS)
    return decode(data, header, Box(0, 0, header.width, header.height))
