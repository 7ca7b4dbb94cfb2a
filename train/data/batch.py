"""Stop 5 of the line: B records -> one host batch, uint8 (B, S, S, 3), resized and flipped.

Shapes: B batch, S image_size. `Batches.__getitems__` makes a whole batch in one call, in a worker
or in the main process; what it returns depends on (seed, epoch, indices) alone.
"""

from typing import Any, List, NamedTuple, Optional, Tuple, Union

import numpy as np
from torch.utils.data import Dataset

from train.data import augment
from train.data import resize as resizing
from train.data.fill import TOGETHER, Recipe, fill
from train.data.generators import seeded
from train.data.sampler import BatchRequest
from train.data.sources import Source
from train.errors import BadSample

SUBSTITUTE_TRIES = 16
"""Tries to find a good sample in place of a bad one; with more bad ones than that the data set is
lost."""

NO_LABEL = -1
"""Label of what counts nowhere: a bad sample in evaluation, where nothing may take its place, and
padding (sampler.py)."""


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
        images: uint8 (B, S, S, 3), RGB; None on its way from a worker, while it is in the ring. As
            tensor from the loader; `__getitems__` gives arrays.
        labels: int64 (B,); NO_LABEL for what counts nowhere.
        epoch: the pass it belongs to.
        samples_seen: samples of that epoch, over all ranks, once this batch is done: where a resume
            goes on.
        indices: int64 (B,), what was asked for.
        bad: samples of this batch that could not be used.
        slot: where in the ring the images are; -1: nowhere.
    """

    images: Any
    labels: Any
    epoch: int
    samples_seen: int
    indices: np.ndarray
    bad: Tuple[Bad, ...]
    slot: int = -1


class Failure(NamedTuple):
    """What a worker returns when the batch can't be made: a message without a traceback."""

    message: str


class Batches(Dataset):
    """A data set whose items are whole batches. Threads may share it.

    Args:
        source: where the records come from.
        recipe: what happens to every image.

    Attributes:
        ring: where batches with a slot are written; None: each into memory of its own.
    """

    def __init__(self, source: Source, recipe: Recipe):
        self.source = source
        self.recipe = recipe
        self.ring: Any = None

    def __len__(self) -> int:
        return len(self.source)

    def warm(self) -> None:
        """Load what is compiled: before workers are forked, so that they share it.

        No record is read: one could hang or crash its reader, and here that would be the program.
        """
        resizing.warm()

    def __getitem__(self, index: int) -> Batch:
        """A batch of one, for looking at a sample."""
        batch = self.__getitems__(BatchRequest(0, 0, np.array([index])))
        if isinstance(batch, Failure):
            raise BadSample(batch.message)
        return batch

    def __getitems__(self, request: BatchRequest) -> Union[Batch, Failure]:
        """Make the batch that is asked for."""
        recipe, indices = self.recipe, request.indices
        ring, size = self.ring if request.slot >= 0 else None, recipe.image_size
        if ring is None:
            images = np.empty((len(indices), size, size, 3), np.uint8)
        else:
            images = ring.array(request.slot, len(indices))
        labels = np.empty(len(indices), np.int64)
        draws = augment.uniform(recipe.seed, request.epoch, indices)
        bad: List[Bad] = []
        with seeded(recipe.seed, request):
            for first in range(0, len(indices), TOGETHER):
                some = slice(first, first + TOGETHER)
                found = self._fill(images[some], indices[some].tolist(), draws[some])
                for row, label in enumerate(found, first):
                    if not isinstance(label, Bad):
                        labels[row] = label
                        continue
                    bad.append(label)
                    if not recipe.train:
                        images[row], labels[row] = 0, NO_LABEL
                        continue
                    index = int(indices[row])
                    other = self._substitute(images[row], request, index, draws[row], bad)
                    if other is None:
                        return Failure(no_substitute(bad))
                    labels[row] = other
        labels[len(indices) - request.padding :] = NO_LABEL
        return Batch(
            images if ring is None else None,
            labels,
            request.epoch,
            request.samples_seen,
            indices,
            tuple(bad),
            -1 if ring is None else request.slot,
        )

    def _fill(
        self, images: np.ndarray, indices: List[int], draws: np.ndarray
    ) -> List[Union[int, Bad]]:
        """Write some samples -> for each its label, or why it is bad."""
        found = fill(self.source, self.recipe, images, indices, draws)
        return [
            Bad(index, self.source.key(index), label) if isinstance(label, str) else label
            for index, label in zip(indices, found)
        ]

    def _substitute(
        self, out: np.ndarray, request: BatchRequest, index: int, draws: np.ndarray, bad: List[Bad]
    ) -> Optional[int]:
        """Put another sample in the place of a bad one."""
        for other in substitutes(self.recipe.seed, request.epoch, index, len(self.source)):
            (label,) = self._fill(out[None], [other], draws[None])
            if not isinstance(label, Bad):
                return label
            bad.append(label)
        return None


def substitutes(seed: int, epoch: int, index: int, count: int) -> List[int]:
    """Samples to try in the place of a bad one: a function of (seed, epoch, index)."""
    # Another seed gives a stream of its own, apart from the one that draws crops.
    choices = augment.uniform(seed ^ 0x5BAD, epoch, np.array([index]), SUBSTITUTE_TRIES)[0]
    return [int(choice * count) for choice in choices.tolist()]


def no_substitute(bad: List[Bad]) -> str:
    """The message of the Failure when nothing can take a bad sample's place."""
    examples = "; ".join(f"{item.key!r}: {item.reason}" for item in bad[-3:])
    return (
        f"{SUBSTITUTE_TRIES} substitutes in a row were bad too, so most of the data set seems "
        f"unusable: {examples}; "
        "check that data.path is the right folder and that its disk is mounted"
    )
