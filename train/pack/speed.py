"""The speed to expect from a pack: a short measurement on this machine, and what it recommends.

One core reads, cuts, decodes and scales, as in training. Cold means that the system was asked to
forget the files first; a disk behind a network or a hypervisor may remember them all the same.
"""

import os
import time
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np

from train.config import DataConfig
from train.console import say
from train.data.sources import Record, Source
from train.errors import BadSample
from train.pack.contents import convert
from train.pack.options import PackOptions
from train.pack.plan import Plan, open_data

SAMPLES = 48
SECONDS = 0.4
"""Per row of the table: enough for some per cent, and the whole takes a few seconds."""

WORTH = 1.1
"""A change is recommended from this gain on; less is within the noise of so short a look."""


class Row(NamedTuple):
    """What one content would give.

    Attributes:
        name: as it is asked for.
        kept: whether the pixels stay those of the source.
        image_bytes: mean size.
        rate: images/s of one core, from memory.
    """

    name: str
    kept: bool
    image_bytes: float
    rate: float

    def expected(self, cpus: int, disk: Optional[float]) -> float:
        """Images/s of all cores, from a disk of so many bytes/s (None: from memory)."""
        decoded = self.rate * cpus
        return decoded if disk is None else min(decoded, disk / max(1.0, self.image_bytes))


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
    records = [record for record in map(lambda n: _read(source, n), numbers) if record is not None]
    if not records:
        return
    disk = cold_bytes_per_s(open_data(str(dst), trust=False).train)
    rows = []
    for name, kept, content, short_side in _candidates(options):
        made = [
            record._replace(
                data=convert(
                    record.data, PackOptions("", "", content=content, short_side=short_side)
                ).data
            )
            for record in records
        ]
        size = sum(len(record.data) for record in made) / len(made)
        rate = images_per_s(_Memory(made))
        if rate is not None:
            rows.append(Row(name, kept, size, rate))
    if rows:
        _tell(rows, cpus, disk)


def images_per_s(source: Any) -> Optional[float]:
    """What one core makes of a source in memory; None: nothing of it can be decoded."""
    from train.data.batch import Batches, Failure, Recipe  # imports torch
    from train.data.sampler import BatchRequest

    config = DataConfig()
    recipe = Recipe(
        train=True,
        image_size=config.image_size,
        crop_min=config.crop_min,
        flip=config.flip,
        max_pixels=config.max_pixels,
        seed=0,
    )
    batches = Batches(source, recipe)
    some = np.arange(min(16, len(source)))
    if isinstance(batches.__getitems__(BatchRequest(0, 0, some)), Failure):  # and compiles
        return None
    begin, images, epoch = time.perf_counter(), 0, 0
    while time.perf_counter() - begin < SECONDS:
        epoch += 1
        for start in range(0, len(source), 16):
            indices = np.arange(start, min(start + 16, len(source)))
            batches.__getitems__(BatchRequest(epoch, 0, indices))
            images += len(indices)
            if time.perf_counter() - begin > 2 * SECONDS:
                break
    return images / (time.perf_counter() - begin)


def cold_bytes_per_s(source: Source) -> Optional[float]:
    """What the disk gives for records in random order; None: it can't be asked to forget."""
    if not hasattr(os, "posix_fadvise"):
        return None
    paths = _files(source)
    if not paths:
        return None
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    order = np.random.default_rng(0).permutation(len(source))[: 4 * SAMPLES]
    begin, total = time.perf_counter(), 0
    for number in order.tolist():
        record = _read(source, number)
        total += len(record.data) if record is not None else 0
        if time.perf_counter() - begin > 2.0:
            break
    return total / max(1e-9, time.perf_counter() - begin)


def _files(source: Any) -> List[Any]:
    """The files that a source reads."""
    while hasattr(source, "source"):
        source = source.source
    if hasattr(source, "root"):
        return [
            os.path.join(source.root, os.fsencode(source.key(n)))
            for n in range(0, len(source), max(1, len(source) // 10_000))
        ]
    indexes = getattr(source, "_indexes", None) or [getattr(source, "index", None)]
    return [index.container for index in indexes if index is not None]


def _candidates(options: PackOptions) -> List[Tuple[str, bool, Any, Optional[int]]]:
    """(name, whether pixels stay, content, short side): what was packed first."""
    side = options.short_side
    scaled = f" --short-side {side}" if side else ""
    found: List[Tuple[str, bool, Any, Optional[int]]] = [
        (f"{options.content}{scaled}", side is None, options.content, side)
    ]
    for content in ("original", "windows"):
        found.append((content, True, content, None))
    for content in ("windows", "raw"):
        found.append((f"{content} --short-side {side or 256}", False, content, side or 256))
    names = [row[0] for row in found]
    return [row for place, row in enumerate(found) if row[0] not in names[:place]]


def _read(source: Source, index: int) -> Optional[Record]:
    try:
        return source[index]
    except (BadSample, OSError):
        return None


def _tell(rows: List[Row], cpus: int, disk: Optional[float]) -> None:
    say(f"\nspeed to expect at {DataConfig().image_size} px (a look at {SAMPLES} images):")
    say(f"  {'--content':<28} {'kB':>7} {'images/s/core':>14} {f'x {cpus} CPUs':>9} {'cold':>9}")
    for place, row in enumerate(rows):
        cold = "?" if disk is None else f"{row.expected(cpus, disk):,.0f}"
        say(
            f"  {row.name:<28} {row.image_bytes / 1000:>7.1f} {row.rate:>14,.0f} "
            f"{row.expected(cpus, None):>9,.0f} {cold:>9}{'   <- packed' if place == 0 else ''}"
        )
    if disk is not None:
        say(f"  cold: this disk gave {disk / 1e6:,.0f} MB/s for single images in random order")
    say(recommendation(rows, cpus, disk))


def recommendation(rows: List[Row], cpus: int, disk: Optional[float]) -> str:
    """One sentence: the fastest content from this disk, if the packed one is not."""
    packed = rows[0]
    now = packed.expected(cpus, disk)
    alike = [row for row in rows[1:] if row.kept or not packed.kept]
    others = [row for row in rows[1:] if row not in alike]
    said = []
    for group, words in ((alike, ""), (others, ", which changes the images")):
        best = max(group, key=lambda row: row.expected(cpus, disk), default=None)
        if best is not None and best.expected(cpus, disk) > WORTH * now:
            gain = best.expected(cpus, disk) / now
            said.append(f"--content {best.name} would be {gain:.1f} x as fast{words}")
    if not said:
        return "recommended: what you have; no other content is faster here"
    if disk is not None and now < 0.9 * packed.expected(cpus, None):
        said.append("the disk is the limit: fewer bytes an image is what helps")
    return "recommended: " + "; ".join(said)
