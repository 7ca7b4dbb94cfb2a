"""Scaling a window into its place in the batch: uint8 (h, w, 3) -> uint8 (S, S, 3).

The kernels (resize_kernels.py) are compiled at their first use, or by `warm()`.
"""

from types import ModuleType
from typing import NamedTuple, Optional

import numpy as np

_kernels: Optional[ModuleType] = None


class Part(NamedTuple):
    """A part of a picture in its pixels; edges may lie between two pixels."""

    x: float
    y: float
    width: float
    height: float


def warm() -> ModuleType:
    """Load the kernels, or compile them (some seconds, the first time on a machine).

    Called before workers are forked, so that none of them needs to.

    Returns:
        The module of the kernels.
    """
    global _kernels
    if _kernels is None:
        from train.data import resize_kernels

        _kernels = resize_kernels
    return _kernels


def resize(
    pixels: np.ndarray,
    out: np.ndarray,
    flip: bool = False,
    antialias: bool = True,
    part: Optional[Part] = None,
) -> None:
    """Scale a window into a square, and mirror it.

    With `antialias` the triangle filter of Pillow's BILINEAR and torchvision: as wide as the scale,
    pixels outside of the window left out; within one level of Pillow everywhere. Without, two
    pixels each way, within one level of PyTorch's.

    Args:
        pixels: uint8 (h, w, 3); views are welcome.
        out: uint8 (S, S, 3), contiguous, written.
        flip: exchange left and right.
        antialias: see above.
        part: what of `pixels` fills the square; None: all.
    """
    kernels = _kernels or warm()
    height, width = pixels.shape[:2]
    x, y, x_size, y_size = part or (0.0, 0.0, float(width), float(height))
    step_y, step_x, step = pixels.strides
    turned = step == 1 and step_x != 3 and abs(step_y) == 3
    if turned:  # a camera's rotation: scale what is stored, exchange rows and columns after
        pixels = pixels.transpose(1, 0, 2)
        if flip:  # left and right are the stored rows
            pixels, x = pixels[::-1], width - x - x_size
            flip = False
        x, y, x_size, y_size = y, x, y_size, x_size
        height, width = width, height
        step_y, step_x, step = pixels.strides
    if step == 1 and step_x == -3 and width > 1:
        pixels, x, flip = pixels[:, ::-1], width - x - x_size, not flip
    elif step != 1 or step_x != 3:
        pixels = np.ascontiguousarray(pixels)
    target = np.empty(out.shape, np.uint8) if turned else out
    kernels.scale(
        pixels.__array_interface__["data"][0],
        pixels.strides[0],
        width,
        height,
        x,
        y,
        x_size,
        y_size,
        antialias,
        flip,
        target,
    )
    if turned:
        kernels.transpose(target, out)
