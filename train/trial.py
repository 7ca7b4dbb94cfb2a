"""One short measurement: a loader beside an accelerator, for some seconds, warm-up left out."""

import time
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional

from train.accelerator import Accelerator
from train.data.batch import Batch
from train.usage import cpu_seconds, memory

WARM_BATCHES = 4
"""Left out: imports, compilation, caches, and queues that fill."""

WARM_S = 0.5
"""The least time that is left out."""


class Trial(NamedTuple):
    """What was measured after the warm-up.

    Attributes:
        images, seconds: how many in what time.
        wait_share: share of the time in which the accelerator had no batch.
        first_batch_s: from opening the loader to its first batch, on the host.
        cores: mean number of busy cores, of this process and its workers.
        memory_bytes: at the end, of both, without mapped files; None where it is unknown.
    """

    images: int
    seconds: float
    wait_share: float
    first_batch_s: float
    cores: float
    memory_bytes: Optional[int]

    @property
    def images_per_s(self) -> float:
        """Speed: images / seconds."""
        return self.images / self.seconds if self.seconds > 0 else 0.0

    @property
    def busy_share(self) -> float:
        """Share of the time in which the accelerator worked."""
        return 1.0 - self.wait_share

    @property
    def cpu_s_per_1000(self) -> float:
        """CPU seconds for a thousand images."""
        return self.cores * self.seconds / self.images * 1000 if self.images else 0.0


def endless(loader: Iterable[Batch]) -> Iterator[Batch]:
    """Pass after pass, without a pause between them."""
    while True:
        empty = True
        for batch in loader:
            empty = False
            yield batch
        if empty:
            return


def run_trial(
    loader: Iterable[Batch],
    accelerator: Accelerator,
    seconds: float,
    ahead: bool = True,
    warm_s: float = WARM_S,
    after_batch: Optional[Callable[[int], None]] = None,
) -> Trial:
    """Feed an accelerator for some seconds.

    Args:
        loader: gives passes of `Batch`; the caller closes it.
        accelerator: what consumes them.
        seconds: to measure, after the warm-up; at least three batches.
        ahead: see `ModelAccelerator.take`.
        warm_s: the least time that is left out before.
        after_batch: called with the number of images of each batch, warm-up included; may raise.

    Returns:
        The measurement. Its clock ends when the accelerator's work ends.
    """
    begin = time.perf_counter()
    stream: Any = accelerator.take(endless(loader), ahead)
    first_batch_s = 0.0
    try:
        for warm, batch in enumerate(stream, 1):
            if warm == 1:
                first_batch_s = time.perf_counter() - begin
                since = time.perf_counter()
            accelerator.step(batch)
            if after_batch is not None:
                after_batch(len(batch.labels))
            if warm >= WARM_BATCHES and time.perf_counter() - since >= warm_s:
                break
        batch = None
        cpu, images, count = cpu_seconds(), 0, 0
        clock: Any = accelerator.clock()
        start = time.perf_counter()
        for batch in clock.batches(stream):
            accelerator.step(batch)
            clock.computed()
            images, count = images + len(batch.labels), count + 1
            if after_batch is not None:
                after_batch(len(batch.labels))
            if count >= 3 and time.perf_counter() - start >= seconds:
                break
        batch = None
        timing = clock.finish()
        used, taken = cpu_seconds() - cpu, memory()
    finally:
        stream.close()
    elapsed = time.perf_counter() - start
    return Trial(
        images,
        timing.total_s,
        timing.wait_share,
        first_batch_s,
        used / elapsed if elapsed > 0 else 0.0,
        taken.taken if taken else None,
    )
