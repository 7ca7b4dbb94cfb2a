"""What one sample costs, measured in child processes, before any device is made.

These functions run in a child (`child.py`); what they return is plain.
"""

import time
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from torch.utils.data import default_collate

from train.data.decode import probe as header_of
from train.data.fill import recipe_of
from train.data.sampler import BatchRequest
from train.doctor.child import run_in_child, run_side_by_side
from train.doctor.item import time_items, time_items_in_threads, together
from train.doctor.measurements import Item, Stages
from train.doctor.observe import record_opened
from train.doctor.own_data import check_samples
from train.doctor.stages import StageClock, transform_code
from train.doctor.subject import Subject
from train.errors import BadSample
from train.tune.stages import read_some, stage_times

ALONE_S = 0.8
STAGES_S = 0.5
TOGETHER_S = 0.8

MOST_SIDE_BY_SIDE = 4
"""Workers that are tried at once: a lock or a busy disk shows with a few."""

COLLATED = 16
"""Samples that are put together, to see what that costs."""


class Cost(NamedTuple):
    """One worker alone.

    Attributes:
        item: seconds of a sample.
        stages: what they go to.
        record_bytes: mean size as stored; None for a user's own.
        image_side: short side as stored, pixels, median; None likewise.
        read: the samples of a user's own that were read.
        opened: the files that were opened for them.
    """

    item: Item
    stages: Stages
    record_bytes: Optional[float] = None
    image_side: Optional[int] = None
    read: Tuple[int, ...] = ()
    opened: Tuple[str, ...] = ()


def cost_alone(subject: Subject, indices: Sequence[int]) -> Cost:
    """What a sample costs one worker that has the machine to itself."""
    if not subject.own:
        subject.batches.warm()
    found: Cost = run_in_child(_alone, subject, [int(index) for index in indices])
    return found


def cost_together(subject: Subject, indices: Sequence[int], workers: int) -> Item:
    """What a sample costs when several workers make samples at once, of the run's kind."""
    numbers = [int(index) for index in indices]
    if subject.settings.workers_kind == "thread":
        found: Item = run_in_child(_threads, subject, numbers, workers)
        return found
    each = [(subject, numbers[number:] + numbers[:number]) for number in range(workers)]
    return together(run_side_by_side(_one_of_several, each))


def _alone(subject: Subject, indices: List[int]) -> Cost:
    with subject.seeds():
        if not subject.own:
            item = time_items(subject.make(), indices, ALONE_S)
            return _line_stages(subject, indices, item)
        check_samples([subject.data[index] for index in indices[:2]])
        opened = record_opened()
        item = time_items(subject.make(), indices, ALONE_S)
        read, files = indices[: item.items + 1], tuple(dict.fromkeys(opened))
        return Cost(item, _own_stages(subject, indices), read=tuple(read), opened=files)


def _one_of_several(subject: Subject, indices: List[int]) -> Item:
    with subject.seeds():
        return time_items(subject.make(), indices, TOGETHER_S)


def _threads(subject: Subject, indices: List[int], workers: int) -> Item:
    return time_items_in_threads(subject.make(), indices, TOGETHER_S, workers)


def _line_stages(subject: Subject, indices: List[int], item: Item) -> Cost:
    """The stages of our own line, by the same means as `train tune` has them."""
    order = _again_and_again(indices)
    records = read_some(subject.data, order, STAGES_S / 2)
    recipe = recipe_of(subject.config.data, True, subject.seed)
    times = stage_times(records, recipe, STAGES_S / 2)
    decode_s, augment_s = (times[0][1], times[1][1]) if times is not None else (item.cpu_s, 0.0)
    sides = []
    for _, _, record in records.kept[:32]:
        try:
            header = header_of(record.data, recipe.max_pixels)
            sides.append(min(header.width, header.height))
        except (BadSample, ValueError):
            continue
    made_s = records.times[1] + decode_s + augment_s
    return Cost(
        item,
        Stages(
            records.times[1],
            decode_s,
            augment_s,
            batch_s=_batch_s(subject, indices[0], made_s),
        ),
        records.mean_bytes,
        int(np.median(sides)) if sides else None,
    )


def _again_and_again(indices: Sequence[int]) -> Iterator[Tuple[int, int]]:
    epoch = 0
    while True:
        for index in indices:
            yield epoch, index
        epoch += 1


def _own_stages(subject: Subject, indices: List[int]) -> Stages:
    """The stages of a user's data set, by a profile of its calls, and its collate."""
    clock = StageClock(transform_code(subject.data), base="unnamed")
    samples: List[Any] = []
    begin, count = time.perf_counter(), 0
    while count < 2 or time.perf_counter() - begin < STAGES_S:
        index = indices[count % len(indices)]
        with clock:
            sample = subject.data[index]
        if len(samples) < COLLATED:
            samples.append(sample)
        count += 1
    cpu = {stage: seconds / count for stage, seconds in clock.cpu_s.items()}
    locked = clock.wall_s.get("lock", 0.0) - clock.cpu_s.get("lock", 0.0)
    return Stages(
        cpu.get("read", 0.0),
        sum(cpu.get(stage, 0.0) for stage in ("decode", "lock", "unnamed")),
        cpu.get("augment", 0.0),
        _collate_s(samples, subject.config.data.batch_size),
        max(0.0, locked) / count,
        _batch_s(subject, indices[0], sum(clock.cpu_s.values()) / count),
        cpu.get("unnamed", 0.0),
    )


def _batch_s(subject: Subject, index: int, sample_s: float) -> float:
    """CPU seconds of a batch of one, less its sample: generators seeded, lists, tensors."""
    whole, request = subject.batches, BatchRequest(0, 0, np.array([index]))
    times: List[float] = []
    while len(times) < 3 or (len(times) < 20 and sum(times) < 0.1):
        begin = time.thread_time()
        whole.__getitems__(request)
        times.append(time.thread_time() - begin)
    return max(0.0, float(np.median(times)) - sample_s)


def _collate_s(samples: List[Any], batch_size: int) -> float:
    """CPU seconds an image of putting a batch together."""
    size = min(batch_size, 4 * COLLATED)
    batch = [samples[number % len(samples)] for number in range(size)]
    default_collate(batch)
    begin, cpu, count = time.perf_counter(), time.thread_time(), 0
    while count < 2 or time.perf_counter() - begin < 0.1:
        default_collate(batch)
        count += 1
    return (time.thread_time() - cpu) / count / size
