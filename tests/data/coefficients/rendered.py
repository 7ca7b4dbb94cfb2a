"""What several tests of coefficient records share: windows, rendered, and the ordinary way."""

import io

import numpy as np
import pictures
from PIL import Image

from train.data.augment import Box
from train.data.coefficients import render as rendering
from train.data.decode import Scratch

SAMPLINGS = {"444": 0, "422": 1, "420": 2}
"""Name -> Pillow's number."""


def rendered(record, box, size=32, flip=False, resize="antialias"):
    """One window: uint8 (size, size, 3)."""
    out = np.full((size, size, 3), 99, np.uint8)
    reasons = rendering.render([rendering.Task(record, box, flip, out)], Scratch(), resize)
    assert reasons == [None]
    return out


def ordinary(data, box, size, flip=False):
    """A whole decode, cropped and resized by Pillow: int (size, size, 3)."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    x, y, width, height = box
    image = image.crop((x, y, x + width, y + height)).resize((size, size), Image.BILINEAR)
    return np.asarray(image)[:, :: -1 if flip else 1].astype(int)


def boxes(width, height, seed=0):
    """The whole picture, its corners, and some from within."""
    generator = np.random.default_rng(seed)
    found = [Box(0, 0, width, height), Box(0, 0, 1, 1), Box(width - 1, height - 1, 1, 1)]
    for _ in range(5):
        w, h = generator.integers(1, width + 1), generator.integers(1, height + 1)
        x, y = generator.integers(0, width - w + 1), generator.integers(0, height - h + 1)
        found.append(Box(int(x), int(y), int(w), int(h)))
    return found


def jpeg(width, height, sampling="420", seed=0, **options):
    """A JPEG of a smooth picture."""
    pixels = pictures.scene(width, height, seed)
    if sampling == "grey":
        return pictures.encode(pixels[:, :, 1], **{"quality": 90, **options})
    return pictures.encode(pixels, **{"quality": 90, "subsampling": SAMPLINGS[sampling], **options})


def psnr(a, b):
    """Decibels, at most 99."""
    error = np.mean((a.astype(float) - b) ** 2)
    return min(99.0, 10 * np.log10(255**2 / max(error, 1e-9)))
