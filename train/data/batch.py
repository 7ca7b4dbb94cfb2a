"""Stop 5 of the line: B records -> one host batch, uint8 (B, S, S, 3), resized and flipped.

Shapes: B batch, S image_size. `Batches.__getitems__` makes a whole batch in one call, in a worker
or in the main process; what it returns depends on (seed, epoch, indices) alone.
"""

import contextlib
import random
from typing import Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset

from train.data import augment
from train.data.decode import BadSample, decode, probe
from train.data.sampler import BatchRequest
from train.data.sources import Record, Source

SUBSTITUTE_TRIES = 16
"""Tries to find a good sample in place of a bad one; with more bad ones than that the data set is
lost."""

NO_LABEL = -1
"""Label of a bad sample in evaluation, where nothing may take its place: it counts nowhere."""


class Bad(NamedTuple):
    """A sample that could not be used.

    Attributes:
        sample: its index in the source (a tuple has a method of that name already).
        key: its name.
        reason: why, for people.
    """

    sample: int
    key: str
    reason: str


class Batch(NamedTuple):
    """One batch on the host.

    Attributes:
        images: uint8 (B, S, S, 3), RGB.
        labels: int64 (B,); NO_LABEL for a bad sample in evaluation.
        epoch: the pass it belongs to.
        samples_seen: samples of that epoch, over all ranks, once this batch is done: where a resume
            goes on.
        indices: int64 (B,), what was asked for.
        bad: samples of this batch that could not be used.
    """

    images: torch.Tensor
    labels: torch.Tensor
    epoch: int
    samples_seen: int
    indices: np.ndarray
    bad: Tuple[Bad, ...]


class Failure(NamedTuple):
    """What a worker returns when the batch can't be made: a message without a traceback."""

    message: str


class Recipe(NamedTuple):
    """What happens to every image.

    Attributes:
        train: random crop and flip; else the central square.
        image_size: S, pixels.
        crop_min: smallest share of the area of a random crop.
        flip: probability of a mirror image.
        max_pixels: larger images are bad samples.
        seed: of the run.
    """

    train: bool
    image_size: int
    crop_min: float
    flip: float
    max_pixels: int
    seed: int


class Batches(Dataset):
    """A data set whose items are whole batches.

    Args:
        source: where the records come from.
        recipe: what happens to every image.
    """

    def __init__(self, source: Source, recipe: Recipe):
        self.source = source
        self.recipe = recipe

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Batch:
        """A batch of one, for looking at a sample."""
        batch = self.__getitems__(BatchRequest(0, 0, np.array([index])))
        if isinstance(batch, Failure):
            raise BadSample(batch.message)
        return batch

    def __getitems__(self, request: BatchRequest) -> Union[Batch, Failure]:
        """Make the batch that is asked for.

        torch's fetcher calls this with what the sampler yields.
        """
        recipe, size = self.recipe, self.recipe.image_size
        count = len(request.indices)
        images = torch.empty((count, size, size, 3), dtype=torch.uint8)
        labels = torch.empty(count, dtype=torch.int64)
        draws = augment.uniform(recipe.seed, request.epoch, request.indices)
        bad: List[Bad] = []
        with _seeded(recipe.seed, request):
            for row, index in enumerate(request.indices.tolist()):
                label = self._fill(images[row], index, draws[row], bad)
                if label is None and recipe.train:
                    label = self._substitute(images[row], index, request.epoch, draws[row], bad)
                    if label is None:
                        return Failure(_no_substitute(bad))
                if label is None:
                    images[row].zero_()
                    label = NO_LABEL
                labels[row] = label
        return Batch(
            images, labels, request.epoch, request.samples_seen, request.indices, tuple(bad)
        )

    def _fill(
        self, out: torch.Tensor, index: int, draws: np.ndarray, bad: List[Bad]
    ) -> Optional[int]:
        """Read, decode and write one sample into `out`.

        Returns:
            Its label, or None after noting why it is bad.
        """
        try:
            record = self.source[index]
            self._render(out, record, draws)
            return record.label
        except BadSample as error:
            reason = str(error)
        except OSError as error:
            reason = f"cannot be read: {error.strerror or error}"
        bad.append(Bad(index, self.source.key(index), reason))
        return None

    def _render(self, out: torch.Tensor, record: Record, draws: np.ndarray) -> None:
        recipe = self.recipe
        header = probe(record.data, recipe.max_pixels)
        if recipe.train:
            box = augment.train_box(draws, header.width, header.height, recipe.crop_min)
        else:
            box = augment.eval_box(header.width, header.height)
        resize(decode(record.data, header, box), out)
        if recipe.train and augment.train_flip(draws, recipe.flip):
            out.copy_(out.flip(1))

    def _substitute(
        self, out: torch.Tensor, index: int, epoch: int, draws: np.ndarray, bad: List[Bad]
    ) -> Optional[int]:
        """Put another sample in the place of a bad one.

        Which one is a function of (seed, epoch, index).
        """
        # Another seed gives a stream of its own, apart from the one that draws crops.
        choices = augment.uniform(
            self.recipe.seed ^ 0x5BAD, epoch, np.array([index]), SUBSTITUTE_TRIES
        )[0]
        for choice in choices.tolist():
            label = self._fill(out, int(choice * len(self.source)), draws, bad)
            if label is not None:
                return label
        return None


def resize(pixels: np.ndarray, out: torch.Tensor) -> None:
    """Scale a window into its place in the batch.

    Antialiased triangle filter with torchvision's semantics (the window is cut first), within two
    levels of Pillow's BILINEAR. PyTorch's uint8 kernel takes about a third of Pillow's time
    (benchmarks/resize.py, docs/log.md).

    Args:
        pixels: uint8 (h, w, 3); views are welcome.
        out: uint8 (S, S, 3), written.
    """
    window = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1).unsqueeze(0)
    scaled = F.interpolate(
        window, out.shape[:2], mode="bilinear", align_corners=False, antialias=True
    )
    out.copy_(scaled[0].permute(1, 2, 0))


def identity(batch: Union[Batch, Failure]) -> Union[Batch, Failure]:
    """Collate nothing: `__getitems__` has already made the batch.

    A named function, so it pickles.
    """
    return batch


@contextlib.contextmanager
def _seeded(seed: int, request: BatchRequest) -> Iterator[None]:
    """Seed Python's, NumPy's and PyTorch's generators by the batch, and put them back after.

    The seed is a function of (seed, epoch, batch).

    Our own line draws nothing from them. A transform of yours that does gets the same numbers
    whichever worker runs it, other numbers in every epoch and on every rank, and leaves the model's
    numbers alone.
    """
    first = request.indices[:1] if len(request.indices) else np.zeros(1, dtype=np.int64)
    number = int(augment.uniform(seed, request.epoch, first, 1)[0, 0] * 2**32)
    saved = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(number)
    np.random.seed(number)
    # The CPU's alone: torch.manual_seed would seed the GPUs too, and they could not be put back.
    torch.default_generator.manual_seed(number)
    try:
        yield
    finally:
        random.setstate(saved[0])
        np.random.set_state(saved[1])
        torch.set_rng_state(saved[2])


def _no_substitute(bad: List[Bad]) -> str:
    examples = "; ".join(f"{item.key!r}: {item.reason}" for item in bad[-3:])
    return (
        f"{SUBSTITUTE_TRIES} substitutes in a row were bad too, so most of the data set seems "
        f"unusable: {examples}; "
        "check that data.path is the right folder and that its disk is mounted"
    )
