"""torch's DataLoader as people write it, with the order, the crops and the flips of our line.

So that all arms see the same pixels: the order comes from `train.data.sampler`, box and flip from
`train.data.augment`. The rest is what tutorials do: Pillow decodes, torchvision's functions crop,
scale, flip and normalise on the CPU, samples are collated to float32 (B, 3, S, S).
"""

import io
import random
import warnings
from typing import Any, Iterator, List, Tuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

from train.data import augment, by_pillow
from train.data.batch import SUBSTITUTE_TRIES, Batch, Recipe, substitutes
from train.data.header import probe
from train.data.orientation import upright
from train.data.prefetch import MEAN, STD
from train.data.sampler import Sampler
from train.data.sources import Source
from train.errors import BadSample, DataError

_MEAN = [level / 255 for level in MEAN]
_STD = [level / 255 for level in STD]

_DAMAGED = (BadSample, OSError, ValueError, SyntaxError)
"""What Pillow raises of a damaged file, and what a source does."""

LOOKED_AT = 16

Place = Tuple[int, int]
"""(epoch, index): the epoch travels with the index, so that persistent workers see it."""


def picture(data: Any, max_pixels: int) -> Image.Image:
    """Decode by Pillow: upright, RGB.

    Args:
        data: what a source gave.
        max_pixels: larger ones are refused.

    Raises:
        BadSample, OSError, ValueError or SyntaxError: no image that Pillow reads.
    """
    if isinstance(data, np.ndarray):
        return Image.fromarray(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = Image.open(io.BytesIO(data))
        ordinary = image.mode in ("RGB", "L") and "transparency" not in image.info
        if not ordinary or image.format == "TIFF":  # the one right answer takes more than convert()
            header = probe(data, max_pixels)
            pixels = by_pillow.decode(data, header.width, header.height, header.inverted_cmyk)
            return Image.fromarray(np.ascontiguousarray(upright(pixels, header.orientation)))
        if image.width * image.height > max_pixels:
            raise BadSample(f"more pixels than data.max_pixels={max_pixels} allows")
        ImageOps.exif_transpose(image, in_place=True)
        return image.convert("RGB")


class PlainImages(Dataset):
    """One sample an item: float32 (3, S, S), normalised, and its label.

    Args:
        source: where the records come from.
        recipe: of training.
    """

    def __init__(self, source: Source, recipe: Recipe):
        self.source, self.recipe = source, recipe

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, place: Place) -> Tuple[torch.Tensor, int]:
        """The sample at (epoch, index); a damaged one is replaced as our loader replaces it."""
        epoch, index = place
        draws = augment.uniform(self.recipe.seed, epoch, np.array([index]))[0]
        try:
            return self._sample(index, draws)
        except _DAMAGED:
            pass
        for other in substitutes(self.recipe.seed, epoch, index, len(self.source)):
            try:
                return self._sample(other, draws)
            except _DAMAGED:
                continue
        raise DataError(f"{SUBSTITUTE_TRIES} substitutes in a row were bad: is data.path right?")

    def _sample(self, index: int, draws: np.ndarray) -> Tuple[torch.Tensor, int]:
        recipe, record = self.recipe, self.source[index]
        image = picture(record.data, recipe.max_pixels)
        box = augment.train_box(draws, image.width, image.height, recipe.crop_min)
        image = F.resized_crop(
            image,
            box.y,
            box.x,
            box.height,
            box.width,
            [recipe.image_size, recipe.image_size],
            InterpolationMode.BILINEAR,
        )
        if augment.train_flip(draws, recipe.flip):
            image = F.hflip(image)
        return F.normalize(F.to_tensor(image), _MEAN, _STD), record.label


class EpochOrder:
    """A batch sampler: the batches of one epoch a pass, in the order of our line.

    Args:
        sampler: decides the order.
    """

    def __init__(self, sampler: Sampler):
        self.sampler, self.epoch = sampler, 0

    def __len__(self) -> int:
        return len(self.sampler.batch_sizes())

    def __iter__(self) -> Iterator[List[Place]]:
        # Counted when the first batch is asked for: torch may make an iterator and drop it.
        epoch, self.epoch = self.epoch, self.epoch + 1
        for request in self.sampler.requests(epoch, 0, epoch + 1):
            yield [(epoch, index) for index in request.indices.tolist()]


def seed_worker(worker_id: int) -> None:
    """What the articles do in a worker: 42 and its number."""
    random.seed(42 + worker_id)
    np.random.seed(42 + worker_id)


class PlainLoader:
    """A DataLoader whose batches are `Batch`, one epoch a pass.

    Args:
        source, recipe: see PlainImages.
        sampler: decides the order.
        options: of torch's DataLoader.
    """

    def __init__(self, source: Source, recipe: Recipe, sampler: Sampler, **options: Any):
        if options.get("num_workers"):
            options["worker_init_fn"] = seed_worker
        self.torch: Any = DataLoader(
            PlainImages(source, recipe), batch_sampler=EpochOrder(sampler), **options
        )

    def __iter__(self) -> Iterator[Batch]:
        for images, labels in self.torch:
            yield Batch(images, labels, 0, 0, np.empty(0, np.int64), ())

    def close(self) -> None:
        """Let go of the workers: torch ends them with their iterator."""
        self.torch = ()


def problem(source: Source, max_pixels: int) -> str:
    """Why Pillow can't read these records; '' where it can."""
    places = sorted({n * len(source) // LOOKED_AT for n in range(LOOKED_AT)})
    reason = ""
    for index in places:
        try:
            picture(source[index].data, max_pixels)
            return ""
        except _DAMAGED as error:
            reason = reason or f"{source.key(index)}: {str(error).splitlines()[0]}"
    return f"Pillow reads none of {len(places)} records looked at ({reason})"
