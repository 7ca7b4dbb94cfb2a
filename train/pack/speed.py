"""The speed to expect from a pack: a short measurement on this machine.

One core reads, cuts, decodes and scales, as in training. Cold means that the system was asked to
forget the files first; a disk behind a network or a hypervisor may remember them all the same.
"""

import os
import time
from pathlib import Path
from typing import Any, List, Optional, Tuple

import numpy as np

from train import machine
from train.config import DataConfig
from train.data.coefficients.compiling import is_compiled
from train.data.sources import Record, Source
from train.errors import BadSample
from train.pack.advice import CHANGED, CLOSE, KEPT, Data, Row, show
from train.pack.contents import convert
from train.pack.options import PackOptions
from train.pack.plan import Plan, open_data
from train.pack.pool import in_order

SAMPLES = 48

SECONDS = 0.1
ROUNDS = 5
"""Each content in turn, so often and so long: a busy moment then hits all of them, and the median
leaves it out."""

HELD_BYTES = 64 << 20
"""Of each content; what was packed comes first, and the others use as many images."""

MANY_IMAGES = 2000
"""From here on coefficients are looked at even if that compiles for a quarter of a minute."""

COLD_S = 2.0

MOST_FILES = 10_000

MEMORY_SHARE = 0.7
"""Of the memory, for files that were read before; the rest is for the training itself."""

LEAST_COLD_BYTES = 16 << 20
"""Of a pack; with less, the time of a disk says nothing."""


class _Memory:
    """A source in memory."""

    def __init__(self, records: List[Record]):
        self.records = records
        self.labels = np.array([record.label for record in records], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Record:
        return self.records[index]

    def key(self, index: int) -> str:
        return self.records[index].key


def measure(options: PackOptions, dst: Path, plan: Plan, cpus: int) -> None:
    """Measure the pack and its alternatives on a few images, and say what comes out."""
    source = plan.splits["train"]
    numbers = sorted({n * len(source) // SAMPLES for n in range(SAMPLES)}) if len(source) else []
    records = [record for record in (_read(source, n) for n in numbers) if record is not None]
    if not records:
        return
    disk = cold_bytes_per_s(open_data(str(dst), trust=False).train, cpus)
    rows, lines = [], []
    compiles = looks_at_coefficients(options, plan.num_records)
    for name, content, short_side in _candidates(options):
        if content == "coefficients" and not compiles:
            continue
        asked = PackOptions("", "", content=content, short_side=short_side)
        made, held = [], 0
        pixels = CHANGED if short_side else CLOSE if content == "coefficients" else KEPT
        for record in records:
            image = convert(record.data, asked)
            if image.way == "encoded":  # as a PNG is, even for windows
                pixels = CHANGED
            made.append(record._replace(data=image.data))
            held += len(image.data)
            if held > HELD_BYTES:  # raw pixels of large photographs
                break
        records = records[: len(made)]
        line = _Line(_Memory(made))
        if line.works():
            size = sum(len(record.data) for record in made) / len(made)
            rows.append(Row(name, pixels, size, 0.0))
            lines.append(line)
    rates = [[line.images_per_s() for line in lines] for _ in range(ROUNDS)]
    rows = [
        row._replace(rate=float(np.median([one[place] for one in rates])))
        for place, row in enumerate(rows)
    ]
    if rows:
        memory = int(MEMORY_SHARE * machine.memory_limit_bytes().value)
        show(rows, cpus, Data(plan.num_records, disk, memory), not compiles)


def looks_at_coefficients(options: PackOptions, images: int) -> bool:
    """Whether the table has coefficients in it, whose kernels are compiled once on a machine.

    Args:
        options: of the packing.
        images: that were packed.
    """
    return options.content == "coefficients" or images >= MANY_IMAGES or is_compiled()


class _Line:
    """What training does with a source, on one core.

    Args:
        source: in memory.
    """

    def __init__(self, source: _Memory):
        from train.data.batch import Batches  # imports torch
        from train.data.fill import recipe_of

        self.count = len(source)
        self.epoch = 0
        self.batches = Batches(source, recipe_of(DataConfig(), train=True, seed=0))

    def works(self) -> bool:
        """Whether anything of it can be decoded; compiles what needs compiling."""
        from train.data.batch import Failure

        return not isinstance(self._batch(0, min(16, self.count)), Failure)

    def images_per_s(self) -> float:
        """Measure for a moment."""
        begin, images = time.perf_counter(), 0
        while time.perf_counter() - begin < SECONDS:
            self.epoch += 1
            for start in range(0, self.count, 8):
                stop = min(start + 8, self.count)
                self._batch(start, stop)
                images += stop - start
                if time.perf_counter() - begin > 2 * SECONDS:
                    break
        return images / (time.perf_counter() - begin)

    def _batch(self, start: int, stop: int) -> Any:
        from train.data.sampler import BatchRequest

        return self.batches.__getitems__(BatchRequest(self.epoch, 0, np.arange(start, stop)))


def cold_bytes_per_s(source: Source, threads: int) -> Optional[float]:
    """What the disk gives for records in random order; None: it can't be told.

    Args:
        source: of the pack.
        threads: that read side by side, as workers do.
    """
    if not hasattr(os, "posix_fadvise") or not len(source):
        return None
    size = 0
    for path in files_of(source):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            size += os.fstat(descriptor).st_size
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    if size < LEAST_COLD_BYTES:
        return None
    order = np.random.default_rng(0).permutation(len(source))[: 8 * SAMPLES * threads].tolist()
    begin, total = time.perf_counter(), 0
    for record in in_order(
        lambda place: _read(source, order[place]),
        0,
        len(order),
        threads,
        lambda record: len(record.data) if record is not None else 0,
        lambda: time.perf_counter() - begin > COLD_S,
    ):
        total += len(record.data) if record is not None else 0
    return total / max(1e-9, time.perf_counter() - begin)


def files_of(source: Any) -> List[Any]:
    """The files that a source reads."""
    while hasattr(source, "source"):
        source = source.source
    if hasattr(source, "root"):
        step = max(1, len(source) // MOST_FILES)
        keys = (source.key(number) for number in range(0, len(source), step))
        return [os.path.join(source.root, os.fsencode(key)) for key in keys]
    indexes = getattr(source, "_indexes", None) or [getattr(source, "index", None)]
    return [index.container for index in indexes if index is not None]


def _candidates(options: PackOptions) -> List[Tuple[str, Any, Optional[int]]]:
    """(name, content, short side): what was packed first."""
    side = options.short_side
    scaled = f" --short-side {side}" if side else ""
    found: List[Tuple[str, Any, Optional[int]]] = [
        (f"{options.content}{scaled}", options.content, side)
    ]
    for content in ("original", "windows", "coefficients"):
        found.append((content, content, None))
    for content in ("windows", "coefficients", "raw"):
        found.append((f"{content} --short-side {side or 256}", content, side or 256))
    names = [row[0] for row in found]
    return [row for place, row in enumerate(found) if row[0] not in names[:place]]


def _read(source: Source, index: int) -> Optional[Record]:
    try:
        return source[index]
    except (BadSample, OSError):
        return None
