"""Stop 4 of the line: a record and a window -> uint8 (h, w, 3), upright RGB, nothing else decoded.

Which way, the record says (header.py):

| kind | what | how |
|---|---|---|
| jpeg | baseline or progressive JPEG, RGB, YCbCr or grey | libjpeg-turbo, whole (simplejpeg) |
| windows | a JPEG that `pack` has given an index | the same, but the window alone |
| raw | binary PPM, or an array | a view of the pixels |
| coefficients | what `pack` made of a JPEG | our kernels, the window alone; `batch.py` calls them \
itself, since they scale as well |
| pillow | everything else | by_pillow.py |

The pixels of a window are exactly those of the whole picture. libjpeg-turbo releases the GIL.
"""

import re
import threading
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np
import simplejpeg

from train.data import by_pillow
from train.data.augment import Box
from train.data.coefficients import render as rendering
from train.data.header import Data, Header, check_pixels, probe
from train.data.orientation import stored_box, upright, upright_part
from train.data.rare_sampling import check_whole
from train.data.resize import Part
from train.errors import BadSample

__all__ = [
    "BadSample", "Data", "Header", "Scratch", "Scaled", "check_pixels", "decode", "decode_scaled",
    "describe", "probe", "upright",
]  # fmt: skip

KEPT_BYTES = 64 << 20
"""Scratch memory that a thread keeps for its next image: 22 megapixels."""

FACTORS = ((16, 8), (6, 4), (3, 2))
"""How many times the pixels that are needed a window must have each way to be decoded at 1/8, 1/4
or 1/2. With less to spare the mean difference to the full way exceeds one level on sharp
photographs: at 1/2 it was 1.4 with twice the pixels, 0.8 and less from three times on."""


class Scratch(threading.local):
    """Memory that each thread decodes into again and again: fresh memory costs page faults."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def take(self, size: int) -> np.ndarray:
        """At least so many bytes, uint8; what they held is lost."""
        if size > KEPT_BYTES:
            return np.empty(size, np.uint8)
        if size > len(self._memory):
            self._memory = np.empty(min(size + size // 4, KEPT_BYTES), np.uint8)
        return self._memory


class Scaled(NamedTuple):
    """A window in fewer pixels than it has.

    Attributes:
        pixels: uint8 (h, w, 3), upright.
        part: what of them the window is; its edges may lie between two pixels.
    """

    pixels: np.ndarray
    part: Part


def decode(data: Data, header: Header, box: Box, scratch: Optional[Scratch] = None) -> np.ndarray:
    """Decode one window.

    Args:
        data: what a source gave.
        header: what `probe` said of it.
        box: the window, upright pixels, inside the image.
        scratch: decode into this memory: the pixels last until the thread's next decoding.

    Returns:
        uint8 (box.height, box.width, 3), RGB; a view where that saves a copy.

    Raises:
        BadSample: truncated or corrupt; half a picture is never returned.
    """
    kind = header.kind
    if kind == "jpeg":
        stored = _decode_jpeg(data, header, scratch)
    elif kind == "coefficients":
        pixels = np.empty((box.height, box.width, 3), np.uint8)
        rendering.render_now(rendering.Task(data, box, False, pixels), scratch or Scratch())
        return pixels
    elif kind == "windows":
        return _decode_window(data, header, box, scratch)
    elif kind == "raw":
        stored = _raw(data, header)
    else:
        if header.rare_sampling:
            check_whole(data)
        stored = by_pillow.decode(data, header.width, header.height, header.inverted_cmyk)
    pixels = upright(stored, header.orientation)
    if pixels.shape != (header.height, header.width, 3):
        raise BadSample(
            f"decoded to {pixels.shape[1]} x {pixels.shape[0]}, "
            f"the header says {header.width} x {header.height}"
        )
    return pixels[box.y : box.y + box.height, box.x : box.x + box.width]


def decode_scaled(
    data: Data, header: Header, box: Box, size: int, scratch: Optional[Scratch] = None
) -> Scaled:
    """Decode one window in fewer pixels, where it has far more than needed.

    JPEG stores waves, 64 to a block of 8 x 8 pixels; leaving the short ones out gives 4 x 4, 2 x 2
    or 1 pixel. Other kinds come in all their pixels.

    Args:
        data: what a source gave.
        header: what `probe` said of it.
        box: the window, upright pixels, inside the image.
        size: pixels each way that are needed.
        scratch: see `decode`.

    Returns:
        The window at 1/8, 1/4, 1/2 or 1, see FACTORS.

    Raises:
        BadSample: as `decode`.
    """
    ratio = min(box.width, box.height) / size
    factor = next((factor for least, factor in FACTORS if ratio >= least), 1)
    if factor == 1 or header.kind not in ("jpeg", "windows"):
        pixels = decode(data, header, box, scratch)
        return Scaled(pixels, Part(0.0, 0.0, float(box.width), float(box.height)))
    x, y, width, height = stored_box(box, header.width, header.height, header.orientation)
    left = top = 0
    if header.kind == "windows":
        data, left, top = _cut(data, header, _widened((x, y, width, height), header, 2 * factor))
    pixels = _by_libjpeg(data, _size(data, header), factor, scratch)
    x, y = x - left, y - top
    first_x, first_y = x // factor, y // factor
    end_x, end_y = -(-(x + width) // factor), -(-(y + height) // factor)
    pixels = pixels[first_y:end_y, first_x:end_x]
    if pixels.shape != (end_y - first_y, end_x - first_x, 3):
        raise BadSample(f"damaged JPEG of {len(data)} bytes: smaller than its header says")
    pixels = upright(pixels, header.orientation)
    part = Part(x / factor - first_x, y / factor - first_y, width / factor, height / factor)
    return Scaled(pixels, upright_part(part, end_x - first_x, end_y - first_y, header.orientation))


def describe(data: Data, resize: str = "antialias") -> str:
    """How a record will be decoded, in words, to be shown at the start of a run.

    What decoding needs is loaded, so that workers that are forked later share it.

    Args:
        data: what a source gave; one record stands for all.
        resize: data.resize.
    """
    try:
        header = probe(data, 1 << 62)
        if header.kind in ("windows", "coefficients"):
            decode(data, header, Box(0, 0, 1, 1))
    except BadSample as error:
        return f"a bad sample ({error})"
    smaller = ", at 1/2, 1/4 or 1/8 where that is enough" if resize == "dct" else ""
    if header.kind == "windows":
        return f"JPEG with an index: libjpeg-turbo decodes the window alone{smaller}"
    if header.kind == "jpeg":
        return f"JPEG: libjpeg-turbo decodes it whole{smaller}"
    if header.kind == "coefficients":
        smaller = ", in fewer samples where that is enough" if resize == "dct" else ""
        return f"coefficients of JPEG: our kernels transform and scale the window alone{smaller}"
    if header.kind == "raw":
        return "pixels as they are: nothing to decode"
    return f"{by_pillow.name(data)}: Pillow decodes it"


def _widened(box: Tuple[int, int, int, int], header: Header, margin: int) -> Any:
    """A stored window with so many pixels more on each side, where the picture has them.

    In fewer pixels the interpolation of colour reaches further.
    """
    x, y, width, height = box
    turned = header.orientation >= 5
    across, down = (header.height, header.width) if turned else (header.width, header.height)
    left, top = max(0, x - margin), max(0, y - margin)
    return left, top, min(across, x + width + margin) - left, min(down, y + height + margin) - top


def _raw(data: Data, header: Header) -> np.ndarray:
    if isinstance(data, np.ndarray):
        return data
    count = header.width * header.height * 3
    pixels = np.frombuffer(data, np.uint8, count, header.place)
    return pixels.reshape(header.height, header.width, 3)


def _decode_jpeg(data: Any, header: Header, scratch: Optional[Scratch]) -> np.ndarray:
    turned = header.orientation >= 5
    size = (header.width, header.height) if turned else (header.height, header.width)
    return _by_libjpeg(data, size, 1, scratch)


def _decode_window(data: Any, header: Header, box: Box, scratch: Optional[Scratch]) -> np.ndarray:
    x, y, width, height = stored_box(box, header.width, header.height, header.orientation)
    coded, left, top = _cut(data, header, (x, y, width, height))
    pixels = _by_libjpeg(coded, _size(coded, header), 1, scratch)
    x, y = x - left, y - top
    pixels = pixels[y : y + height, x : x + width]
    if pixels.shape != (height, width, 3):
        raise BadSample(f"damaged JPEG of {len(data)} bytes: its index does not fit its picture")
    return upright(pixels, header.orientation)


def _cut(data: Any, header: Header, box: Tuple[int, int, int, int]) -> Any:
    """The window as a JPEG, and where it begins in the picture: (bytes, x, y)."""
    from train.data.jpeg import windows  # loaded since `probe`

    return windows.cut(data, header.place, box)


def _size(data: Any, header: Header) -> Tuple[int, int]:
    """Height and width of a JPEG, or a part of it, that is no larger than its header says."""
    try:
        height, width, _, _ = simplejpeg.decode_jpeg_header(data, strict=False)
    except ValueError as error:
        raise BadSample(f"damaged JPEG of {len(data)} bytes: {error}") from None
    except KeyError:  # simplejpeg's, of tables without a picture
        raise BadSample(f"damaged JPEG of {len(data)} bytes: it has no scan") from None
    if height * width > header.width * header.height:
        raise BadSample(
            f"damaged JPEG of {len(data)} bytes: it has {width} x {height} pixels, more than "
            "its header says"
        )
    return height, width


def _by_libjpeg(
    data: Any, size: Tuple[int, int], factor: int, scratch: Optional[Scratch]
) -> np.ndarray:
    """A whole JPEG of `size` (height, width) -> uint8 (height / factor, width / factor, 3)."""
    height, width = -(-size[0] // factor), -(-size[1] // factor)
    options = {}
    if factor > 1:
        options = {"min_height": height, "min_width": width, "min_factor": factor}
    # Always memory of ours: libjpeg may find another size, and take as much as that asks for.
    memory = (scratch or Scratch()).take(height * width * 3)
    try:
        return simplejpeg.decode_jpeg(data, "RGB", buffer=memory, strict=True, **options)
    except ValueError as error:
        reason = str(error)
    if re.search("extraneous bytes before marker 0x(?!d[0-7])", reason):
        # Bytes between two segments or before the end: the picture is whole, libjpeg only mentions
        # them. Before a restart marker (d0 to d7) they mean that the scan is damaged.
        try:
            return simplejpeg.decode_jpeg(data, "RGB", buffer=memory, strict=False, **options)
        except ValueError as error:
            reason = str(error)
    raise BadSample(f"damaged JPEG of {len(data)} bytes: {reason}")
