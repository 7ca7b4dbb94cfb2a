"""Opens the loader of an arm. All of them give the same images in the same order."""

from itertools import repeat
from typing import Any, Dict, Iterable, Iterator

import torch

from train.accelerator import Accelerator
from train.bench.arms import Arm
from train.config import Config
from train.data import build_loader
from train.data.batch import Batch
from train.data.prefetch import DeviceBatch
from train.data.settings import LoaderSettings
from train.data.sources import Source

ALONE = LoaderSettings(
    workers=0,
    prefetch=None,
    eval_workers=0,
    eval_prefetch=None,
    pin_memory=False,
    start_method="fork",
    reasons=[],
    warnings=[],
)
"""Settings of a loader that makes its batches in the caller's thread."""


def open_loader(arm: Arm, source: Source, config: Config, settings: Dict[str, Any]) -> Any:
    """The loader of an arm: passes of `Batch`, and `close()`.

    Args:
        arm: which one.
        source: the training records.
        config: all settings.
        settings: of torch's DataLoader, or fields of `LoaderSettings`.
    """
    ours = LoaderSettings(**settings) if arm.kind == "ours" else ALONE
    line = build_loader(source, config.data, ours, train=True, seed=config.run.seed)
    if arm.kind == "torch":
        from train.bench.plain import PlainLoader  # late: it imports torchvision

        return PlainLoader(source, line.dataset.recipe, line.sampler, **settings)
    return line


class Cached:
    """An accelerator whose batches are all the first one, which lies on the device already.

    Args:
        accelerator: what it stands before.
    """

    def __init__(self, accelerator: Accelerator):
        self._accelerator = accelerator
        self.name, self.device = accelerator.name, accelerator.device
        self.clock, self.step = accelerator.clock, accelerator.step

    def take(self, loader: Iterable[Batch], ahead: bool = True) -> Iterator[DeviceBatch]:
        """The first batch, for ever."""
        batch = next(iter(self._accelerator.take(loader, ahead)))
        own = batch._replace(images=batch.images.clone(), labels=batch.labels.clone())
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        yield from repeat(own)
