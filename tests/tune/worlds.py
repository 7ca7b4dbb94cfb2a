"""Machines made of numbers: what a trial of a setting would measure there, noise included."""

import random

from train.trial import Trial
from train.tune.costs import Ceiling, Costs, Stage
from train.tune.predict import Space


def costs(
    batch_ms=2.0,
    waiting_ms=0.0,
    accelerator=1000.0,
    own_ms=0.0,
    handover_ms=0.02,
    two_threads=1.95,
    batch_size=64,
):
    """Costs of a line whose images take so long on one core."""
    batch = Stage((batch_ms + waiting_ms) / 1000, batch_ms / 1000, 500)
    return Costs(
        read=Stage((0.05 + waiting_ms) / 1000, 0.05 / 1000, 500),
        decode=Stage(0.7 * batch_ms / 1000, 0.7 * batch_ms / 1000, 500),
        resize=Stage(0.25 * batch_ms / 1000, 0.25 * batch_ms / 1000, 500),
        batch=batch,
        handover=Stage(handover_ms / 1000, handover_ms / 1000, 5000),
        two_threads=two_threads,
        ceiling=Ceiling(accelerator, batch_size / accelerator, own_ms / 1000),
        batch_size=batch_size,
        batch_bytes=batch_size * 224 * 224 * 3,
        image_bytes=110_000.0,
        disk_share=0.0,
        content="JPEG",
    )


def space(found=None, cpus=2, competes=False, base=4, fits=lambda one: True, **options):
    """Where the search looks."""
    return Space(found or costs(), cpus, competes, base, fits, **options)


class World:
    """The truth: how fast each setting is, which the costs may have misjudged.

    Args:
        speed: candidate -> images/s that the loader delivers.
        accelerator: images/s.
        noise: standard deviation of a trial's speed, as a share.
        core_ms: CPU milliseconds an image.
    """

    def __init__(self, speed, accelerator=1000.0, noise=0.0, core_ms=2.0, seed=0):
        self.speed, self.accelerator, self.core_ms = speed, accelerator, core_ms
        self.noise, self.random = noise, random.Random(seed)

    def trial(self, one):
        """What a trial of a second would measure."""
        delivered = self.speed(one) * (1 + self.random.gauss(0, self.noise))
        rate = min(delivered, self.accelerator)
        cores = rate * (self.core_ms + (0.02 if one.workers else 0)) / 1000
        return Trial(round(rate), 1.0, 1 - rate / self.accelerator, 0.1, cores, 50 << 20)
