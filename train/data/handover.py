"""Takes a batch over from a worker: as tensors, page-locked where the device wants that."""

from typing import Any, Set

import numpy as np
import torch

from train.data.batch import Batch
from train.data.ring import Ring

_said: Set[str] = set()


def in_ring(batch: Batch, ring: Ring, pin_memory: bool) -> Batch:
    """A batch whose images a worker wrote into the ring."""
    if pin_memory:
        _pin_or_say(ring)
    return _handed(batch, ring.take(batch.slot, len(batch.indices)), pin_memory)


def beside_ring(batch: Batch, pin_memory: bool) -> Batch:
    """A batch that came with its images."""
    return _handed(batch, _tensor(batch.images), pin_memory)


def say_once(text: str) -> None:
    """Print a line that was not printed before."""
    if text not in _said:
        _said.add(text)
        from train.console import say  # late: a worker that is spawned needs no console

        say(text)


def _handed(batch: Batch, images: Any, pin_memory: bool) -> Batch:
    labels = _tensor(batch.labels)
    if pin_memory:
        images, labels = _page_locked(images), _page_locked(labels)
    return batch._replace(images=images, labels=labels)


def _tensor(values: Any) -> Any:
    return torch.from_numpy(values) if isinstance(values, np.ndarray) else values


def _page_locked(values: Any) -> Any:
    if not isinstance(values, torch.Tensor) or values.is_pinned():
        return values
    return values.pin_memory()


def _pin_or_say(ring: Ring) -> None:
    """Page-lock the ring: late, when all workers have started, since it starts CUDA."""
    problem = ring.pin()
    if problem:
        say_once(
            f"note: the memory of the batches can't be page-locked as a whole ({problem}), so each "
            "batch is copied once more"
        )
