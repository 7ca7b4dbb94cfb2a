"""Python pickles as other programs store samples in: read with data.trust=code alone.

Unpickling runs whatever program the pickle holds.
"""

import pickle
from typing import Any, Optional, Tuple

import numpy as np

from train.errors import BadSample

UNTRUSTED = (
    "a Python pickle, which can run any program when it is read; data.trust=code allows it "
    "(train pack: --trust)"
)
_IMAGE_KEYS = ("image", "img", "jpg", "jpeg", "png", "data")
_LABEL_KEYS = ("label", "cls", "target", "class")


def unpickle(data: bytes) -> Tuple[Any, Optional[int]]:
    """Run a pickle, and find an image and a label in what comes out.

    A whole number is a label; bytes or an array is an image; a pair is an image and a label, either
    way round; a dict has them under their usual names.

    Returns:
        The image (bytes or an array; None where there is none) and the label, or None.

    Raises:
        BadSample: it can't be unpickled.
    """
    try:
        value = pickle.loads(data)
    except Exception as error:  # a pickle raises whatever it likes
        raise BadSample(f"damaged pickle: {type(error).__name__}: {error}") from None
    if isinstance(value, dict):
        parts = [value.get(name) for name in _IMAGE_KEYS + _LABEL_KEYS]
    elif isinstance(value, (tuple, list)):
        parts = list(value[:8])
    else:
        parts = [value]
    image = next((part for part in parts if _is_image(part)), None)
    label: Any = next((part for part in parts if _is_label(part)), None)
    image = bytes(image) if isinstance(image, bytearray) else image
    return image, None if label is None else int(label)


def _is_image(part: Any) -> bool:
    if isinstance(part, np.ndarray):
        return part.dtype == np.uint8 and part.ndim in (1, 3)
    return isinstance(part, (bytes, bytearray))


def _is_label(part: Any) -> bool:
    return isinstance(part, (int, np.integer)) and not isinstance(part, (bool, np.bool_))
