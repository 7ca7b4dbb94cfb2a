"""What the accelerator takes at most: one batch, again and again, that is always there."""

import itertools
import time
from typing import Any, NamedTuple

from train.accelerator import Accelerator
from train.data.batch import Batch
from train.usage import CoreClock


class Ceiling(NamedTuple):
    """The accelerator on one batch that is always there.

    Attributes:
        images_per_s: its speed: no loader makes it faster.
        step_s: of one batch.
        cpu_s: an image: CPU seconds of this process meanwhile; of a CPU that is its work.
    """

    images_per_s: float
    step_s: float
    cpu_s: float


def measure_ceiling(accelerator: Accelerator, batch: Batch, seconds: float) -> Ceiling:
    """The accelerator's speed on one host batch again and again; at least two steps.

    The first steps are left out: three, or one where a step takes longer than `seconds`.
    """
    if accelerator.device.type == "cuda":
        batch = batch._replace(images=batch.images.pin_memory(), labels=batch.labels.pin_memory())
    stream: Any = accelerator.take(itertools.repeat(batch))
    for warm in range(3):
        begin = time.perf_counter()
        accelerator.step(next(stream))
        accelerator.clock().finish()
        if time.perf_counter() - begin > seconds and warm == 0:
            break
    clock: Any = accelerator.clock()
    cores, begin, count = CoreClock(), time.perf_counter(), 0
    for one in clock.batches(stream):
        accelerator.step(one)
        clock.computed()
        count += 1
        if count >= 2 and time.perf_counter() - begin >= seconds:
            break
    total_s = clock.finish().total_s
    stream.close()
    images = count * len(batch.labels)
    cpu_s = cores.cores() * (time.perf_counter() - begin) / images
    return Ceiling(images / total_s, total_s / count, cpu_s)
