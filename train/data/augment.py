"""Stop 3 of the line: (seed, epoch, index) -> crop box and flip, before anything is decoded.

Randomness is a counter, not a state: each number is a hash of (seed, epoch, index, draw). It
therefore does not depend on which worker asks, in which order, or whether the run was resumed.
"""

import math
from typing import NamedTuple

import numpy as np

DRAWS = 42
"""Uniform numbers per sample: 10 tries x (area, ratio, x, y), then flip and one in reserve."""

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Box(NamedTuple):
    """A window of an image in pixels, upright (after the EXIF orientation was applied)."""

    x: int
    y: int
    width: int
    height: int


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64, uint64 -> uint64; arrays, since uint64 arrays wrap silently.

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def uniform(seed: int, epoch: int, indices: np.ndarray, draws: int = DRAWS) -> np.ndarray:
    """Uniform numbers that depend on (seed, epoch, index, draw) alone.

    Args:
        seed: in [0, 2**63).
        epoch: from 0.
        indices: int64 (B,), from 0.
        draws: numbers per index.

    Returns:
        float64 (B, draws) in [0, 1).
    """
    key = _mix(np.array([seed], dtype=np.uint64) + _GAMMA)
    key = _mix(key + np.array([epoch], dtype=np.uint64) * _GAMMA + _MIX_1)
    start = _mix(key ^ _mix(np.asarray(indices).astype(np.uint64) + _MIX_2))
    counter = np.arange(1, draws + 1, dtype=np.uint64) * _GAMMA
    bits = _mix(start[:, None] + counter[None, :])
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def train_box(draws: np.ndarray, width: int, height: int, crop_min: float) -> Box:
    """Random resized crop with the semantics of torchvision's.

    The area is in [crop_min, 1], the ratio in [3/4, 4/3].

    Args:
        draws: float64 (DRAWS,) in [0, 1).
        width: of the upright image, pixels.
        height: of the upright image, pixels.
        crop_min: smallest share of the area.

    Returns:
        A box inside the image. After ten tries that do not fit (very long images) it is the
        largest central box of an allowed ratio.

    Source: Szegedy et al., arXiv:1409.4842, as torchvision's RandomResizedCrop.get_params reads it.
    """
    log_low, log_high = math.log(3 / 4), math.log(4 / 3)
    values = draws.tolist()
    for first in range(0, 40, 4):
        area_draw, ratio_draw, x_draw, y_draw = values[first : first + 4]
        area = width * height * (crop_min + (1.0 - crop_min) * area_draw)
        ratio = math.exp(log_low + (log_high - log_low) * ratio_draw)
        box_width = round(math.sqrt(area * ratio))
        box_height = round(math.sqrt(area / ratio))
        if 0 < box_width <= width and 0 < box_height <= height:
            x = int(x_draw * (width - box_width + 1))
            y = int(y_draw * (height - box_height + 1))
            return Box(x, y, box_width, box_height)
    box_width = min(width, max(1, round(height * 4 / 3)))
    box_height = min(height, max(1, round(width * 4 / 3)))
    return Box((width - box_width) // 2, (height - box_height) // 2, box_width, box_height)


def train_flip(draws: np.ndarray, probability: float) -> bool:
    """Whether the sample is mirrored."""
    return bool(draws[40] < probability)


def eval_box(width: int, height: int) -> Box:
    """The central square of 7/8 of the short side: resize to 256, crop 224, in one step."""
    side = max(1, round(min(width, height) * 0.875))
    return Box((width - side) // 2, (height - side) // 2, side, side)
