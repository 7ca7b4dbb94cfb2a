"""The runs of an examination: the same accelerator, fed with one thing more each time."""

import itertools
import statistics
import time
from typing import Any, Callable, Iterable, Iterator, List, NamedTuple, Optional, Sequence

from train.accelerator import Accelerator
from train.data.batch import Batch
from train.data.fill import recipe_of
from train.data.loader import Loader
from train.data.plan import DEPTH
from train.data.sampler import Sampler
from train.doctor.measurements import Run
from train.doctor.ready import Ready, ReadyForRing
from train.doctor.subject import Indices, Subject
from train.errors import DataError
from train.usage import CoreClock

LEAST = 3
"""Batches that are measured at least; two where one takes longer than the run is meant to."""

HELD = 4
"""Batches that are kept, to be copied and handed over again."""

STEP_S = 0.5

WINDOWS = 5
"""A run is cut into so many parts, for its spread."""


class Pace(NamedTuple):
    """How long a run goes on.

    Attributes:
        seconds: that are measured.
        warm: batches that are left out before.
        limit_s: the most that all of it may take, when what it needs takes longer.
    """

    seconds: float
    warm: int
    limit_s: float


def feed(
    batches: Iterable[Batch],
    accelerator: Accelerator,
    pace: Pace,
    loader: Optional[Loader] = None,
) -> Run:
    """Feed an accelerator, and measure after the warm-up.

    Args:
        batches: as many as it takes, or fewer.
        accelerator: takes them.
        pace: how long.
        loader: where they come from; it is closed at the end.

    Raises:
        DataError: no batch came after the warm-up.
    """
    begin = time.perf_counter()
    stream: Any = accelerator.take(batches)
    first_batch_s, start, images = 0.0, begin, 0
    stamps: List[float] = []
    sizes: List[int] = []
    try:
        for number, batch in enumerate(stream, 1):
            if number == 1:
                first_batch_s = time.perf_counter() - begin
            accelerator.step(batch)
            late = time.perf_counter() - begin > pace.limit_s / 2
            if number >= pace.warm or (late and number >= 1):
                break
        clock: Any = accelerator.clock()
        cores, start = CoreClock(), time.perf_counter()
        batch = None
        for batch in clock.batches(stream):
            accelerator.step(batch)
            clock.computed()
            images += len(batch.labels)
            stamps.append(time.perf_counter())
            sizes.append(len(batch.labels))
            elapsed = stamps[-1] - start
            enough = len(stamps) >= LEAST or (len(stamps) >= 2 and elapsed >= pace.limit_s / 2)
            if enough and elapsed >= pace.seconds:
                break
        batch = None
        timing = clock.finish()
        busy = cores.cores()
    finally:
        if loader is not None:
            _let_out(loader)
        stream.close()
        if loader is not None:
            loader.close()
    if images == 0 or timing.total_s <= 0:
        raise DataError("there are too few samples for a measurement: less than two batches")
    return Run(
        images / timing.total_s,
        timing.wait_share,
        _spread(start, stamps, sizes),
        images,
        busy,
        first_batch_s,
    )


def _spread(start: float, stamps: Sequence[float], sizes: Sequence[int]) -> float:
    """(largest - smallest) / median of the speeds of parts of a run; 0 where it is too short."""
    if len(stamps) < 2 * WINDOWS:
        return 0.0  # the letter says so
    edges = [len(stamps) * part // WINDOWS for part in range(WINDOWS + 1)]
    times = [start, *stamps]
    speeds = [
        sum(sizes[first:last]) / max(1e-9, times[last] - times[first])
        for first, last in zip(edges, edges[1:])
    ]
    return (max(speeds) - min(speeds)) / statistics.median(speeds)


def synthetic(batch: Batch, accelerator: Accelerator, pace: Pace) -> Run:
    """One batch that is on the accelerator, again and again: its ceiling."""
    stream: Any = accelerator.take([batch])
    held = next(stream)

    class _Held:
        """Takes nothing and gives the batch that is there."""

        device = accelerator.device
        name = accelerator.name

        def take(self, batches: Iterable[Batch], ahead: bool = True) -> Iterator[Any]:
            return (held for _ in batches)

        step = staticmethod(accelerator.step)
        clock = staticmethod(accelerator.clock)

    try:
        return feed(itertools.repeat(batch), _Held(), pace)  # type: ignore[arg-type]
    finally:
        stream.close()


def images_of_a_short_step(batch: Batch, accelerator: Accelerator) -> int:
    """How many images a step of STEP_S has: on a CPU a whole batch may take many seconds."""
    few = batch._replace(images=batch.images[:4], labels=batch.labels[:4])
    times = []
    for _ in range(2):
        stream: Any = accelerator.take([few])
        begin = time.perf_counter()
        accelerator.step(next(stream))
        times.append(time.perf_counter() - begin)
        stream.close()
    return max(2, int(len(few.labels) * STEP_S / min(times)))


def copied(batches: Sequence[Batch], accelerator: Accelerator, pace: Pace) -> Run:
    """Batches of this process, copied as the run copies them."""
    return feed(itertools.cycle(batches), accelerator, pace)


def cached(subject: Subject, batches: Sequence[Batch], accelerator: Accelerator, pace: Pace) -> Run:
    """Batches that are ready, through the run's workers."""
    settings, size = subject.settings, len(batches[0].labels)
    ready: Any = Ready(batches)
    if not subject.own:
        ready = ReadyForRing(batches, recipe_of(subject.config.data, True, subject.seed))
    loader = Loader(
        ready,
        Sampler(max(2, 64 * size), size, 0, shuffle=False),
        workers=settings.workers,
        prefetch=settings.prefetch,
        pin_memory=settings.pin_memory,
        start_method=settings.start_method,
        workers_kind=settings.workers_kind,
    )
    return _through(loader, accelerator, pace)


def warm(
    subject: Subject,
    indices: Indices,
    accelerator: Accelerator,
    pace: Pace,
    batch_size: Optional[int] = None,
) -> Run:
    """The real loader, over data that one pass has brought into memory before."""
    return _through(subject.loader(indices, batch_size), accelerator, pace)


def cold(
    subject: Subject,
    indices: Indices,
    accelerator: Accelerator,
    pace: Pace,
    forget: Callable[[], None],
) -> Run:
    """The real loader, once over data that are not in memory."""
    loader = subject.loader(indices, epochs=1)
    forget()
    return feed(loader, accelerator, pace, loader)


def _through(loader: Loader, accelerator: Accelerator, pace: Pace) -> Run:
    return feed(itertools.chain.from_iterable(itertools.repeat(loader)), accelerator, pace, loader)


def _let_out(loader: Loader) -> None:
    """Before workers are ended: none of them is in the middle of a sample of a user's own."""
    gate = getattr(getattr(loader.dataset, "dataset", None), "gate", None)
    if gate is not None:
        gate.close()


def in_flight(subject: Subject) -> int:
    """Batches that are ready or on their way at most: what a warm-up has to use up."""
    settings = subject.settings
    return settings.workers * (settings.prefetch or 1) + DEPTH


def some_batches(subject: Subject, indices: Indices) -> List[Batch]:
    """A few whole batches of the run's own, in memory of their own."""
    loader, kept = subject.loader(indices), []
    stream = iter(loader)
    try:
        for batch in stream:
            images, labels = batch.images.clone(), batch.labels.clone()
            if subject.settings.pin_memory:
                images, labels = images.pin_memory(), labels.pin_memory()
            kept.append(batch._replace(images=images, labels=labels))
            del batch
            if len(kept) >= HELD:
                break
    finally:
        _let_out(loader)
        del stream
        loader.close()
    full = max(len(batch.labels) for batch in kept)
    return [batch for batch in kept if len(batch.labels) == full]
