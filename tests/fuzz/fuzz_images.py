"""Readers of images: probe, decode, the JPEG transcoder, windows."""

import numpy as np
import simplejpeg

from train.data import augment, by_pillow
from train.data.augment import Box
from train.data.decode import Scratch, decode, decode_scaled, describe, probe
from train.data.jpeg import windows
from train.data.orientation import exif_orientation
from train.pack import contents
from train.pack.options import PackOptions

MAX_PIXELS = 1 << 20
UNSUPPORTED = (windows.Unsupported,)

_scratch = Scratch()
_options = [
    PackOptions("src", "dst", content=content, short_side=side)
    for content in ("windows", "jpeg", "raw")
    for side in (None, 24)
]


def image(data, folder, draw):
    """As a batch is made: whatever comes out has the size that was promised."""
    header = probe(data, MAX_PIXELS)
    width, height = header.width, header.height
    assert 1 <= width * height <= MAX_PIXELS
    box = _box(draw, width, height)
    pixels = decode(data, header, box, _scratch if draw.random() < 0.7 else None)
    assert (pixels.shape, pixels.dtype) == ((box.height, box.width, 3), np.uint8)
    scaled = decode_scaled(data, header, box, draw.choice((2, 4, 8)), _scratch)
    x, y, across, down = scaled.part
    assert scaled.pixels.shape[2:] == (3,)
    assert x >= 0 <= y
    assert x + across <= scaled.pixels.shape[1] + 1e-6
    assert y + down <= scaled.pixels.shape[0] + 1e-6
    if draw.random() < 0.05:
        assert describe(data)
    if header.kind == "pillow" and draw.random() < 0.1:
        assert by_pillow.name(data) in (*by_pillow.FORMATS, "MPO")


def _box(draw, width, height):
    if draw.random() < 0.3:
        return augment.eval_box(width, height)
    draws = np.array([draw.random() for _ in range(augment.uniform(0, 0, np.arange(1)).shape[1])])
    box = augment.train_box(draws, width, height, 0.08)
    return box if draw.random() < 0.7 else Box(0, 0, width, height)


def transcode(data, folder, draw):
    """`pack` refuses a JPEG, or makes one that looks the same to libjpeg."""
    packed = windows.pack(data, 8)
    before = _strictly(data)
    assert before is None or np.array_equal(_strictly(packed), before)


def _strictly(data):
    """The pixels, or None where libjpeg complains at all."""
    try:
        height, width = simplejpeg.decode_jpeg_header(data)[:2]
        if height * width > MAX_PIXELS:
            return None
        return simplejpeg.decode_jpeg(data, "RGB", strict=True)
    except ValueError:
        return None


def splice(data, folder, draw):
    """The bits under a window, however wrong the index."""
    layout = windows.parse(data)
    if layout is not None:
        window = windows.cut(data, layout, _box(draw, layout.width, layout.height))
        assert len(window.data) <= len(data) + (layout.height // 8 + 1) * 160
        assert window.data[:2].tobytes() in (b"\xff\xd8", data[:2])
        assert 0 <= window.x < layout.width
        assert 0 <= window.y < layout.height


def convert(data, folder, draw):
    """`pack` never fails for an image's sake."""
    before, contents.MAX_PIXELS = contents.MAX_PIXELS, MAX_PIXELS
    try:
        made = contents.convert(data, draw.choice(_options))
    finally:
        contents.MAX_PIXELS = before
    assert made.bad <= bool(made.reason)
    assert made.way != "kept" or made.data == data


def orientation(data, folder, draw):
    """Damaged metadata never costs a picture."""
    assert exif_orientation(data) in range(1, 9)
