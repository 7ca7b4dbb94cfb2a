"""Some records -> their places in a batch: each decoded, cropped, resized and flipped.

Coefficients are rendered together, in one call without the GIL; everything else one by one.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from train.config import DataConfig
from train.data import augment
from train.data.coefficients import record as coefficients
from train.data.coefficients import render as rendering
from train.data.decode import Scratch, check_pixels, decode, decode_scaled, probe
from train.data.resize import resize
from train.data.sources import Record, Source
from train.errors import BadSample

TOGETHER = 16
"""Samples that are read before those of them that are coefficients are rendered, in one call."""


class Recipe(NamedTuple):
    """What happens to every image.

    Attributes:
        train: random crop and flip; else the central square.
        image_size: S, pixels.
        crop_min: smallest share of the area of a random crop.
        flip: probability of a mirror image.
        max_pixels: larger images are bad samples.
        seed: of the run.
        resize: "antialias", "bilinear" or "dct", see `DataConfig`.
        verify: compare the checksums of coefficient records, which takes about as long as the rest;
            else damaged numbers that make sense as others are not seen.
    """

    train: bool
    image_size: int
    crop_min: float
    flip: float
    max_pixels: int
    seed: int
    resize: str = "antialias"
    verify: bool = False


def recipe_of(config: DataConfig, train: bool, seed: int) -> Recipe:
    """What a run with these settings does to every image."""
    return Recipe(
        train,
        config.image_size,
        config.crop_min,
        config.flip,
        config.max_pixels,
        seed,
        config.resize,
        verify=config.trust == "nothing",
    )


_scratch = Scratch()


def fill(
    source: Source, recipe: Recipe, images: np.ndarray, indices: Sequence[int], draws: np.ndarray
) -> List[Union[int, str]]:
    """Read some samples and write them.

    Args:
        source: where they are.
        recipe: what happens to them.
        images: uint8 (n, S, S, 3), written.
        indices: n of them.
        draws: float64 (n, DRAWS).

    Returns:
        For each its label, or why it is bad.
    """
    found: List[Any] = []
    tasks: List[rendering.Task] = []
    places: List[int] = []
    for place, index in enumerate(indices):
        try:
            record = source[index]
            task = _task(images[place], record, draws[place], recipe)
            if task is None:
                _render(images[place], record, draws[place], recipe)
            else:
                tasks.append(task)
                places.append(place)
            found.append(record.label)
        except (BadSample, OSError) as error:
            found.append(reason_of(error))
    if tasks:
        for place, reason in zip(places, rendering.render(tasks, _scratch, recipe.resize)):
            if reason is not None:
                found[place] = reason
    return found


def reason_of(error: Exception) -> str:
    """Why a sample is bad, for people: BadSample says it, of an OSError the system does."""
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error)


def _window(width: int, height: int, draws: np.ndarray, recipe: Recipe) -> Tuple[augment.Box, bool]:
    """The part of an upright picture that is wanted, and whether it is mirrored."""
    if not recipe.train:
        return augment.eval_box(width, height), False
    box = augment.train_box(draws, width, height, recipe.crop_min)
    return box, augment.train_flip(draws, recipe.flip)


def _task(
    out: np.ndarray, record: Record, draws: np.ndarray, recipe: Recipe
) -> Optional[rendering.Task]:
    """What is to be done with coefficients, later; None: it is another kind of record."""
    data = record.data
    if isinstance(data, np.ndarray) or not coefficients.is_record(data):
        return None
    width, height = coefficients.size_of(data)
    check_pixels(width, height, recipe.max_pixels)
    if recipe.verify:
        coefficients.check_checksum(data)
    return rendering.Task(data, *_window(width, height, draws, recipe), out)


def _render(out: np.ndarray, record: Record, draws: np.ndarray, recipe: Recipe) -> None:
    data = record.data
    header = probe(data, recipe.max_pixels)
    box, flip = _window(header.width, header.height, draws, recipe)
    if recipe.resize == "dct":
        pixels, part = decode_scaled(data, header, box, len(out), _scratch)
        resize(pixels, out, flip, part=part)
    else:
        pixels = decode(data, header, box, _scratch)
        resize(pixels, out, flip, recipe.resize == "antialias")
