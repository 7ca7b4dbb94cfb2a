"""The stages of the line one by one: read, decode, resize, each timed over the same records."""

import contextlib
import sys
import time
from typing import Any, Iterator, List, Optional, Tuple

import numpy as np
import torch

from train.data import augment
from train.data.batch import Recipe
from train.data.decode import Scratch, decode, decode_scaled, describe, probe
from train.data.resize import Part, resize
from train.data.sources import Record, Source
from train.errors import BadSample, DataError

HELD_BYTES = 64 << 20
HELD = 256
"""Records that are kept for the stages after reading: at most so many, and so many bytes."""

Times = Tuple[float, float, int]
"""Seconds an image by the clock, CPU seconds an image, images."""


class Records:
    """What was read, and how long it took."""

    def __init__(self) -> None:
        self.kept: List[Tuple[int, int, Record]] = []
        self.times: Times = (0.0, 0.0, 0)
        self.mean_bytes: Optional[float] = None
        self.disk_share: Optional[float] = None

    def content(self, how: str) -> str:
        """How the records are decoded, by one in the middle; how: data.resize."""
        if not self.kept:
            return "samples of your own"
        return describe(self.kept[len(self.kept) // 2][2].data, how)


class StageClock:
    """Seconds of this thread since it was made.

    Attributes:
        begin: `time.perf_counter`.
    """

    def __init__(self) -> None:
        self.begin, self._cpu, self._queued = time.perf_counter(), time.process_time(), _queued_s()

    def seconds(self) -> Tuple[float, float]:
        """By the clock, without those in which other programs had its core; and of the CPU.

        So what is left between the two is true waiting, for a disk or for a lock.
        """
        wall, cpu = time.perf_counter() - self.begin, time.process_time() - self._cpu
        return max(1e-9, wall - (_queued_s() - self._queued)), cpu


def _queued_s() -> float:
    """Seconds in which this thread could have run but had no core; 0 where Linux does not say."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """PyTorch and OpenCV with one thread, as in a worker, and as they were afterwards."""
    threads, cv2 = torch.get_num_threads(), sys.modules.get("cv2")
    of_cv2 = cv2.getNumThreads() if cv2 is not None else 0
    torch.set_num_threads(1)
    if cv2 is not None:
        cv2.setNumThreads(0)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if cv2 is not None:
            cv2.setNumThreads(of_cv2)


def read_some(source: Source, order: Iterator[Tuple[int, int]], seconds: float) -> Records:
    """Read records in order for some seconds; the first one is left out of the times.

    Raises:
        DataError: none of the first ones can be read.
    """
    records, held, stored = Records(), 0, 0
    failed: List[str] = []
    clock, images, from_disk = StageClock(), -1, 0
    while images < 2 or time.perf_counter() - clock.begin < seconds:
        epoch, index = next(order)
        try:
            record = source[index]
            size = _size(record.data)
        except (BadSample, OSError) as error:
            failed.append(f"{source.key(index)!r}: {error}")
            if len(failed) > 100 > images:
                raise DataError(f"most records can't be read: {failed[-1]}") from error
            continue
        images += 1
        if images == 0:  # left out: it opened the files
            clock, from_disk = StageClock(), _disk_bytes()
            continue
        stored += size
        if len(records.kept) < HELD and held < HELD_BYTES:
            data: Any = record.data
            if isinstance(data, np.ndarray):
                data = data.copy()
            elif not isinstance(data, bytes):
                data = bytes(data)
            records.kept.append((epoch, index, record._replace(data=data)))
            held += size
    elapsed, cpu = clock.seconds()
    came = _disk_bytes() - from_disk
    records.times = (elapsed / images, cpu / images, images)
    records.mean_bytes = stored / images
    records.disk_share = min(1.0, came / stored) if stored and came >= 0 else None
    return records


def stage_times(records: Records, recipe: Recipe, seconds: float) -> Optional[Tuple[Times, Times]]:
    """Decoding and resizing, each timed over the records in memory.

    Decoding is what `Batches` does with bytes: header, window, pixels. Resizing is the rest.

    Returns:
        (decode, resize); None where no record can be decoded.
    """
    scratch, size = Scratch(), recipe.image_size
    row = np.empty((size, size, 3), np.uint8)
    spent = _Spent()
    first, images, number = True, 0, 0
    clock = StageClock()
    while images < 2 or time.perf_counter() - clock.begin < 2 * seconds:
        epoch, index, record = records.kept[number % len(records.kept)]
        number += 1
        if number > 2 * len(records.kept) and images == 0:
            return None
        # Another window each time round.
        draws = augment.uniform(recipe.seed, epoch + number, np.array([index]))[0]
        try:
            _render(record, draws, recipe, row, scratch, spent)
        except BadSample:
            spent.drop()
            continue
        if first:  # compiled, loaded, memory taken
            first, spent, clock = False, _Spent(), StageClock()
            continue
        images += 1
    # A look at the scheduler for each image would cost more than some images do.
    kept = clock.seconds()[0] / max(1e-9, time.perf_counter() - clock.begin)
    decoding, resizing = spent.sums
    return (
        (decoding[0] * kept / images, decoding[1] / images, images),
        (resizing[0] * kept / images, resizing[1] / images, images),
    )


class _Spent:
    """Seconds by the clock and of the CPU, for two stages."""

    def __init__(self) -> None:
        self.sums = [[0.0, 0.0], [0.0, 0.0]]
        self.drop()

    def drop(self) -> None:
        """Forget what was since the last stage."""
        self._wall, self._cpu = time.perf_counter(), time.thread_time()

    def add(self, stage: int) -> None:
        """What was since the last call belongs to this stage."""
        wall, cpu = time.perf_counter(), time.thread_time()
        self.sums[stage][0] += wall - self._wall
        self.sums[stage][1] += cpu - self._cpu
        self._wall, self._cpu = wall, cpu


def _render(
    record: Record,
    draws: np.ndarray,
    recipe: Recipe,
    row: np.ndarray,
    scratch: Scratch,
    spent: _Spent,
) -> None:
    """As `Batches` does it for training, with a look at the clock between the stages."""
    spent.drop()
    header = probe(record.data, recipe.max_pixels)
    box = augment.train_box(draws, header.width, header.height, recipe.crop_min)
    flip = augment.train_flip(draws, recipe.flip)
    part: Optional[Part] = None
    if recipe.resize == "dct":
        pixels, part = decode_scaled(record.data, header, box, len(row), scratch)
    else:
        pixels = decode(record.data, header, box, scratch)
    spent.add(0)
    if recipe.resize == "dct":
        resize(pixels, row, flip, part=part)
    else:
        resize(pixels, row, flip, recipe.resize == "antialias")
    spent.add(1)


def _size(data: Any) -> int:
    return int(data.nbytes) if isinstance(data, np.ndarray) else len(data)


def _disk_bytes() -> int:
    """Bytes that this process made the disks read; -1 where the system does not say."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            for line in file:
                if line.startswith("read_bytes:"):
                    return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return -1
