"""What an image costs, stage by stage, on one core; and what the accelerator takes.

Each stage runs alone for a moment, over records in the order that the sampler gives, after a first
round that is left out. Seconds are means, not medians: a throughput is made of means. Wall and CPU
seconds differ where a stage waits for a disk; that part more workers hide, even beyond the cores.
"""

import itertools
import threading
import time
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
import torch

from train.accelerator import Accelerator, ModelAccelerator
from train.config import Config
from train.data.batch import Batch, Batches, Failure
from train.data.sampler import BatchRequest, Sampler
from train.errors import DataError
from train.tune.ceiling import Ceiling, measure_ceiling
from train.tune.handover import hand_over
from train.tune.stages import Records, StageClock, one_core, read_some, stage_times

EPOCH = 10_000
"""The order that is read here: far from those that trials and training read, so what one
measurement has read into memory is not what the next one asks for."""

PIECE = 16
"""Images made in one call at most: a whole batch may take seconds."""

STAGE_S = 0.4
"""Seconds for each stage, after its first round."""


class Stage(NamedTuple):
    """One stage of the line.

    Attributes:
        seconds: an image, by the clock, but for the time that other programs had the core.
        cpu_s: an image, CPU seconds; of all threads and processes that take part.
        images: that it was measured with.
    """

    seconds: float
    cpu_s: float
    images: int

    @property
    def images_per_s(self) -> float:
        """Speed of this stage alone, on one core."""
        return 1.0 / self.seconds if self.seconds > 0 else float("inf")


class Costs(NamedTuple):
    """All of it.

    Attributes:
        read: bytes from the source; None for a data set of a user's own.
        decode: bytes to the pixels of a window, as the crop asks for; None likewise.
        resize: the window to its row of the batch, flipped; None likewise.
        batch: the whole of stops 2 to 5 in this process, as with 0 workers.
        handover: a batch that is ready, from a worker process to this one.
        two_threads: speed of two threads, as a multiple of one; 1.0: the GIL lets one run at a
            time. None where it was not measured.
        ceiling: of the accelerator.
        batch_size: images.
        batch_bytes: of one batch on the host.
        image_bytes: mean size of a record as it is stored; None for a user's own.
        disk_share: share of the records' bytes that came from the disk and not from the page
            cache; None where the system does not say.
        content: how the records are decoded, in words.
    """

    read: Optional[Stage]
    decode: Optional[Stage]
    resize: Optional[Stage]
    batch: Stage
    handover: Stage
    two_threads: Optional[float]
    ceiling: Ceiling
    batch_size: int
    batch_bytes: int
    image_bytes: Optional[float]
    disk_share: Optional[float]
    content: str


def measure_costs(
    dataset: Any,
    config: Config,
    accelerator: Accelerator,
    threads: bool = True,
    start_method: str = "fork",
    stage_s: float = STAGE_S,
    progress: Callable[[str], None] = lambda text: None,
) -> Costs:
    """Measure every stage; about ten times `stage_s`, longer where one image takes long.

    Args:
        dataset: what a loader has: `Batches`, or `Samples` of a user's own.
        config: batch size, image size, crops, seed.
        accelerator: what consumes the batches.
        threads: also see whether two threads run side by side.
        start_method: of the worker that hands batches over.
        stage_s: seconds for each stage.
        progress: told what comes next.

    Raises:
        DataError: no batch can be made of these data.
    """
    sampler = Sampler(len(dataset), config.data.batch_size, config.run.seed, shuffle=True)
    order = _order(sampler)
    read = decode = resize = None
    records = Records()
    if hasattr(dataset, "warm"):
        dataset.warm()
    with one_core():
        if isinstance(dataset, Batches):
            progress("reading")
            records = read_some(dataset.source, order, stage_s)
            read = Stage(*records.times)
            progress("decoding and resizing")
            times = stage_times(records, dataset.recipe, stage_s)
            if times is not None:
                decode, resize = Stage(*times[0]), Stage(*times[1])
        progress("whole batches on one core")
        batch, ready = _batches(dataset, order, stage_s)
        side_by_side = _two_threads(dataset, order, batch, stage_s) if threads else None
    whole = _whole(ready, min(config.data.batch_size, len(dataset)))
    progress("handing over")
    handover = Stage(*hand_over(dataset, sampler, whole, start_method, stage_s))
    progress(f"the accelerator alone ({accelerator.name})")
    few = whole
    if isinstance(accelerator, ModelAccelerator) and accelerator.device.type == "cpu":
        few = _whole(ready, min(PIECE, len(whole.labels)))  # as fast an image, and not for ever
    ceiling = measure_ceiling(accelerator, few, 2 * stage_s)
    ceiling = ceiling._replace(step_s=len(whole.labels) / ceiling.images_per_s)
    return Costs(
        read=read,
        decode=decode,
        resize=resize,
        batch=batch,
        handover=handover,
        two_threads=side_by_side,
        ceiling=ceiling,
        batch_size=len(whole.labels),
        batch_bytes=_bytes(whole.images) + _bytes(whole.labels),
        image_bytes=records.mean_bytes,
        disk_share=records.disk_share,
        content=records.content(config.data.resize),
    )


def _order(sampler: Sampler) -> Iterator[Tuple[int, int]]:
    """(epoch, index) without end: each stage goes on where the one before stopped."""
    for epoch in itertools.count(EPOCH):
        for index in sampler.order(epoch).tolist():
            yield epoch, index


def _pieces(order: Iterator[Tuple[int, int]], size: int) -> Iterator[BatchRequest]:
    while True:
        taken = list(itertools.islice(order, size))
        yield BatchRequest(taken[0][0], 0, np.array([index for _, index in taken]))


def _make(dataset: Any, request: BatchRequest) -> Batch:
    made = dataset.__getitems__(request)
    if isinstance(made, Failure):
        raise DataError(made.message)
    return made


def _batches(
    dataset: Any, order: Iterator[Tuple[int, int]], seconds: float
) -> Tuple[Stage, List[Batch]]:
    """Cost of making batches here, and a few of them."""
    ready: List[Batch] = []
    _make(dataset, next(_pieces(order, 2)))  # left out: imports, open files, compilation
    clock = StageClock()
    _make(dataset, next(_pieces(order, 2)))
    size = max(1, min(PIECE, round(seconds * 2 / clock.seconds()[0])))
    pieces, clock, images = _pieces(order, size), StageClock(), 0
    while images < 2 * size or time.perf_counter() - clock.begin < seconds:
        made = _make(dataset, next(pieces))
        images += size
        if len(ready) < 8:
            ready.append(made)
    elapsed, cpu = clock.seconds()
    return Stage(elapsed / images, cpu / images, images), ready


def _two_threads(
    dataset: Any, order: Iterator[Tuple[int, int]], one: Stage, seconds: float
) -> float:
    """Speed of two threads over that of one."""
    size = max(1, min(PIECE, round(seconds * one.images_per_s)))
    pieces, lanes = _pieces(order, size), [0.0, 0.0]
    requests = [next(pieces) for _ in range(64)]  # drawn before: a generator has one user at a time
    end = time.perf_counter() + seconds

    def work(number: int) -> None:
        clock, images = StageClock(), 0
        for request in itertools.cycle(requests[number::2]):
            dataset.__getitems__(request)
            images += len(request.indices)
            if time.perf_counter() >= end:
                break
        lanes[number] = images * one.seconds / clock.seconds()[0]

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(lanes)


def _whole(pieces: List[Batch], size: int) -> Batch:
    """One batch of `size` images from what there is, as tensors."""
    images = torch.cat([torch.as_tensor(piece.images) for piece in pieces])
    labels = torch.cat([torch.as_tensor(piece.labels) for piece in pieces])
    rows = torch.arange(size) % len(labels)
    return pieces[0]._replace(
        images=images[rows].contiguous(), labels=labels[rows], indices=rows.numpy(), bad=()
    )


def _bytes(values: Any) -> int:
    return int(values.numel() * values.element_size())
