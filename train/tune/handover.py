"""What it costs to hand a batch over: from a worker process to this one."""

import itertools
import time
from typing import Any

import numpy as np

from train.data.batch import Batch
from train.data.loader import Loader
from train.data.sampler import BatchRequest, Sampler
from train.tune.stages import Times
from train.usage import cpu_seconds


class _Ready:
    """A data set whose batch is ready: what is left is the way from worker to main process."""

    def __init__(self, dataset: Any, batch: Batch):
        self.batch = batch
        if hasattr(dataset, "ring"):
            self.ring, self.recipe = None, dataset.recipe

    def __len__(self) -> int:
        return len(self.batch.labels)

    def __getitems__(self, request: BatchRequest) -> Batch:
        """The batch, in the slot that is asked for or as a tensor of its own."""
        if getattr(self, "ring", None) is not None and request.slot >= 0:
            return self.batch._replace(images=None, labels=_array(self.batch), slot=request.slot)
        return self.batch._replace(images=self.batch.images.clone(), labels=_array(self.batch))


def _array(batch: Batch) -> np.ndarray:
    return np.asarray(batch.labels)


def hand_over(
    dataset: Any, sampler: Sampler, batch: Batch, start_method: str, seconds: float
) -> Times:
    """Take a batch that is ready from a worker process, again and again.

    Args:
        dataset: tells how its batches travel: in the ring, or as tensors.
        sampler: of a loader on it.
        batch: of the loader's size.
        start_method: of the worker.
        seconds: to measure, about half of them.

    Returns:
        Seconds an image, CPU seconds of both processes an image, images.
    """
    ready = _Ready(dataset, batch)
    loader = Loader(ready, sampler, workers=1, prefetch=2, start_method=start_method)
    try:
        stream = itertools.chain.from_iterable(itertools.repeat(loader))
        for _ in range(3):
            next(stream)
        begin, cpu, images = time.perf_counter(), cpu_seconds(), 0
        while images == 0 or time.perf_counter() - begin < seconds / 2:
            images += len(next(stream).labels)
        elapsed, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    finally:
        loader.close()
    return elapsed / images, max(0.0, cpu) / images, images
