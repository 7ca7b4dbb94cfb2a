"""Data sets whose batches are ready: what is left of a loader is the way from its workers."""

from typing import Any, Sequence

import numpy as np
import torch

from train.data.batch import Batch, Recipe
from train.data.sampler import BatchRequest


class Ready:
    """A data set whose batches are ready, as tensors of their own."""

    def __init__(self, batches: Sequence[Batch]):
        self.ready = [
            (_plain(batch.images), np.asarray(batch.labels.cpu().numpy())) for batch in batches
        ]

    def __len__(self) -> int:
        return len(self.ready[0][1])

    def __getitems__(self, request: BatchRequest) -> Batch:
        """One of them, in memory of its own, as a new one would be."""
        images, labels = self._one(request)
        return Batch(
            images.clone(), labels, request.epoch, request.samples_seen, request.indices, ()
        )

    def _one(self, request: BatchRequest) -> Any:
        size = max(1, len(request.indices))
        return self.ready[(request.samples_seen // size) % len(self.ready)]


class ReadyForRing(Ready):
    """The same, written into the slots of a ring.

    Args:
        batches: uint8 (B, S, S, 3).
        recipe: the loader asks it for the size of its slots.
    """

    def __init__(self, batches: Sequence[Batch], recipe: Recipe):
        super().__init__(batches)
        self.recipe, self.ring = recipe, None

    def __getitems__(self, request: BatchRequest) -> Batch:
        """One of them, in the slot that is asked for."""
        ring: Any = self.ring
        if ring is None or request.slot < 0:
            return super().__getitems__(request)
        images, labels = self._one(request)
        ring.array(request.slot, len(request.indices))[:] = images.numpy()
        head = (None, labels, request.epoch, request.samples_seen, request.indices, ())
        return Batch(*head, request.slot)


def _plain(images: torch.Tensor) -> torch.Tensor:
    """Not page-locked: a forked worker copies from it."""
    return images.clone() if images.is_pinned() else images
