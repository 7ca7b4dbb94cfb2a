"""Loaders for the tests: built as a run builds them, and their batches in a form that compares."""

import hashlib
import random

import numpy as np
import torch

from train.config import DataConfig
from train.data import build_loader
from train.data.settings import LoaderSettings
from train.data.sources import Record

CONFIG = DataConfig(batch_size=5, image_size=32)


KINDS = [(0, "process"), (2, "process"), (2, "thread")]
"""The three ways in which batches are made, as (workers, kind)."""


def settings(workers, method="fork", prefetch=2, kind="process"):
    depth = prefetch if workers else None
    return LoaderSettings(workers, depth, workers, depth, False, method, [], [], kind)


def make(
    source,
    workers=0,
    method="fork",
    config=CONFIG,
    train=True,
    seed=42,
    kind="process",
    prefetch=2,
    **options,
):
    chosen = settings(workers, method, prefetch, kind)
    return build_loader(source, config, chosen, train=train, seed=seed, **options)


def digest(batch):
    """All of a batch, its pixels as a hash."""
    pixels = hashlib.sha256(batch.images.numpy().tobytes()).hexdigest()
    labels, indices = batch.labels.tolist(), batch.indices.tolist()
    return batch.epoch, batch.samples_seen, indices, labels, batch.bad, pixels


def passes(loader, count=2):
    """The batches of some passes, digested; the loader is closed."""
    try:
        return [[digest(batch) for batch in loader] for _ in range(count)]
    finally:
        loader.close()


class Drawing:
    """A source with a transform of a user's: it draws from the three global generators.

    Each record is a picture of one colour, made of the three draws.
    """

    def __init__(self, count):
        self.labels = np.arange(count)

    def __len__(self):
        return len(self.labels)

    def key(self, index):
        return str(index)

    def __getitem__(self, index):
        draws = (random.randrange(256), np.random.randint(256), int(torch.randint(256, ())))
        return Record(b"P6 9 9 255\n" + bytes(draws) * 81, index, self.key(index))


class Breaking(Drawing):
    """A source that does something terrible at one of its records: `deed(index)`."""

    def __init__(self, count, at, deed):
        super().__init__(count)
        self.at, self.deed = at, deed

    def __getitem__(self, index):
        if index == self.at:
            self.deed(index)
        return super().__getitem__(index)
