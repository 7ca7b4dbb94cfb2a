"""The examination of a pipeline, from first look to measurements."""

import contextlib
import dataclasses
import math
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from train import machine
from train.accelerator import Accelerator, ModelAccelerator
from train.doctor import cold as files
from train.doctor import pipeline
from train.doctor.child import Failed
from train.doctor.measurements import Measurements, Run
from train.doctor.mend import LARGER
from train.doctor.own_data import pick
from train.doctor.pipeline import Pace
from train.doctor.probe import MOST_SIDE_BY_SIDE, Cost, cost_alone, cost_together
from train.doctor.subject import Subject, halves
from train.doctor.verdict import ENOUGH, SMALL_BATCH
from train.errors import DataError
from train.tune.stages import one_core

LOOKED_AT = 256
"""Samples whose cost is looked at, spread over the data set."""

BATCH_S = 0.3
"""A batch that takes a worker longer is examined with fewer images, or it would take minutes."""

RUN_S = 1.2
LIMIT_S = 4.0
"""Of one run, beside three times RUN_S; where a single step takes seconds."""

LEAST_LARGE = 32
"""Larger batches have so many images at least."""

COLD_SHARE = 0.5
"""With more of the files still in memory a pass over them is not called cold."""

Tell = Callable[[str], None]
MakeAccelerator = Callable[[Sequence[Any]], Accelerator]


class Examined(NamedTuple):
    """What came out.

    Attributes:
        found: the measurements.
        findings: about the data set.
        subject: as it was examined.
        accelerator: that was fed.
        warm, cold: indices that were read.
    """

    found: Measurements
    subject: Subject
    accelerator: Accelerator
    warm: np.ndarray
    cold: np.ndarray


def examine(
    subject: Subject,
    make_accelerator: MakeAccelerator,
    cpus: int,
    tell: Tell = lambda text: None,
    run_s: float = RUN_S,
) -> Examined:
    """Measure a pipeline.

    Args:
        subject: what is examined.
        make_accelerator: given some batches of the data; called after the first workers.
        cpus: that may be used.
        tell: told what comes next.
        run_s: seconds of each run.

    Raises:
        DataError: no sample can be made of these data.
    """
    with contextlib.ExitStack() as stack:
        # Threads of PyTorch that this process has, a forked worker of a user's may wait for.
        stack.enter_context(one_core())
        return _examine(subject, make_accelerator, cpus, tell, run_s, stack)


def _examine(
    subject: Subject,
    make_accelerator: MakeAccelerator,
    cpus: int,
    tell: Tell,
    run_s: float,
    stack: contextlib.ExitStack,
) -> Examined:
    count, asked = len(subject), subject.config.data.batch_size
    workers = subject.settings.workers
    looked = pick(count, LOOKED_AT)
    tell("one sample, one worker")
    cost = _cost(subject, looked)
    side_by_side = min(workers, MOST_SIDE_BY_SIDE)
    beside = None
    if side_by_side > 1:
        tell(f"{side_by_side} workers side by side")
        beside = cost_together(subject, looked, side_by_side)
    subject = _with_batch(subject, batch_for(asked, cost.item.wall_s, count))
    size = subject.config.data.batch_size
    flying = pipeline.in_flight(subject)
    made_s = (beside.wall_s / max(1, side_by_side) if beside else cost.item.wall_s) or 1e-6
    num_warm = _number(1.0 / made_s, 3 * size, count)
    first, _ = halves(count, num_warm, 0)
    tell("some batches to keep")
    batches = pipeline.some_batches(subject, first)
    accelerator = make_accelerator(batches)
    if accelerator.device.type == "cpu" and isinstance(accelerator, ModelAccelerator):
        stack.close()  # it computes with all of them
    if accelerator.device.type == "cpu" and isinstance(accelerator, ModelAccelerator):
        size = min(size, pipeline.images_of_a_short_step(batches[0], accelerator))
        subject, batches = _with_batch(subject, size), [_first(one, size) for one in batches]
        flying = pipeline.in_flight(subject)
    tell("the accelerator alone")
    pace = Pace(run_s, 2, 3 * run_s + LIMIT_S)
    alone = pipeline.synthetic(batches[0], accelerator, pace)
    copied = alone
    if accelerator.device.type == "cuda" or not isinstance(accelerator, ModelAccelerator):
        tell("copying batches that are ready")
        copied = pipeline.copied(batches, accelerator, pace)
    tell("handing over batches that are ready")
    cached = pipeline.cached(subject, batches, accelerator, pace._replace(warm=flying))
    tell("the real loader, data in memory")
    passes = max(flying, math.ceil(len(first) / size))
    warm = pipeline.warm(subject, first, accelerator, pace._replace(warm=passes))
    num_cold = _number(1.3 * run_s * warm.images_per_s + flying * size, 4 * size, count)
    first, second = halves(count, num_warm, num_cold)
    paths = subject.files(second)
    if subject.own:  # we know the files of the samples that we saw, and no others
        second, paths = np.array(cost.read), list(cost.opened)
    tell("the real loader, data not in memory")
    cold, note = _cold(subject, second, paths, accelerator, pace)
    large, large_size = None, max(LARGER * asked, LEAST_LARGE)
    # Of a simulated accelerator larger batches only change what the loader does.
    pays = warm.wait_share >= ENOUGH or isinstance(accelerator, ModelAccelerator)
    if asked <= SMALL_BATCH and pays and len(first) >= 2 * large_size:
        tell("the real loader, larger batches")
        passes = max(2, flying, math.ceil(len(first) / large_size))
        large = pipeline.warm(
            subject, first, accelerator, pace._replace(warm=passes), batch_size=large_size
        )
    data_bytes = _data_bytes(subject, cost)
    found = Measurements(
        accelerator=accelerator.name,
        images=count,
        batch_size=asked,
        examined_batch=size,
        workers=workers,
        prefetch=subject.settings.prefetch or 0,
        workers_kind=subject.settings.workers_kind,
        cpus=cpus,
        own=subject.own,
        synthetic=alone,
        copied=copied,
        cached=cached,
        warm=warm,
        cold=cold,
        cold_note=note,
        large=large,
        large_batch=large_size,
        alone=cost.item,
        together=beside,
        side_by_side=side_by_side,
        stages=cost.stages,
        batch_bytes=_batch_bytes(batches[0]) * asked // size,
        record_bytes=cost.record_bytes,
        data_bytes=data_bytes,
        memory_bytes=machine.memory_available_bytes().value,
        image_side=cost.image_side,
        window_side=subject.config.data.image_size,
        packed=subject.packed,
    )
    return Examined(found, subject, accelerator, first, second)


def _cost(subject: Subject, indices: Sequence[int]) -> Cost:
    try:
        return cost_alone(subject, indices)
    except Failed as error:
        raise DataError(f"making a sample raised {error}") from None


def batch_for(asked: int, image_s: float, count: int) -> int:
    """The batch size of the examination: no batch takes a worker long, three fit the data set."""
    return max(1, min(asked, max(2, int(BATCH_S / max(image_s, 1e-9))), max(2, count // 3)))


def _with_batch(subject: Subject, size: int) -> Subject:
    data = dataclasses.replace(subject.config.data, batch_size=size)
    return dataclasses.replace(subject, config=dataclasses.replace(subject.config, data=data))


def _first(batch: Any, size: int) -> Any:
    """The first images of a batch."""
    return batch._replace(
        images=batch.images[:size], labels=batch.labels[:size], indices=batch.indices[:size]
    )


def _number(wanted: float, least: int, most: int) -> int:
    return int(min(max(wanted, least), most))


def _cold(
    subject: Subject,
    indices: np.ndarray,
    paths: List[str],
    accelerator: Accelerator,
    pace: Pace,
) -> Tuple[Optional[Run], str]:
    """A pass over data that are not in memory, or why there is none."""
    if not paths:
        return None, "not measured: no file of the data was seen to be opened"
    left = [0.0]

    def forget() -> None:
        files.forget(paths)
        left[0] = files.cached_share(paths)

    try:
        run = pipeline.cold(subject, indices, accelerator, pace._replace(warm=1), forget)
    except DataError as error:
        return None, f"not measured: {error}"
    if left[0] > COLD_SHARE:
        return None, f"not measured: {left[0]:.0%} of the files stayed in memory when asked to go"
    return run, f"{len(paths):,} file(s) dropped from memory before"


def _data_bytes(subject: Subject, cost: Cost) -> Optional[int]:
    if cost.record_bytes is None:
        return None
    return int(cost.record_bytes * len(subject))


def _batch_bytes(batch: Any) -> int:
    return sum(int(one.numel() * one.element_size()) for one in (batch.images, batch.labels))
