"""What all measurements share: the records, read once so that they are in memory; and the pack."""

import hashlib
import json
import math
import os
import pickle
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

from train import machine
from train.bench.jobs import run_job
from train.bench.progress import Show
from train.config import Config
from train.data.sources import Source
from train.data.sources.splits import Splits, open_splits
from train.errors import BadSample, DataError, SetupError
from train.files import write_whole
from train.pack.findings import left_out
from train.pack.speed import files_of
from train.pack.summary import folder_bytes
from train.pack.target import read_marker

WARM_S = 30.0
"""Longest time of the first reading."""

WARM_SHARE = 0.5
"""Of the memory that is available: with more, the first ones would be gone before they are used."""

LOOKED_AT = 64
"""Keys that are compared to see whether a pack holds the same images."""


class Warm(NamedTuple):
    """The first reading.

    Attributes:
        records: that were read.
        size: their bytes.
        whole: all of them were.
    """

    records: int
    size: int
    whole: bool

    def words(self) -> str:
        """For people."""
        if self.whole:
            return f"warm: all {machine.bytes_text(self.size)} were read before"
        return f"partly cold: {self.records:,} images were read before, the rest as it was"


class Pack(NamedTuple):
    """A pack of the data.

    Attributes:
        path: the folder.
        size: bytes.
        content, container: as train pack has them.
        seconds: that packing took; None: unknown.
        made: in this run.
    """

    path: Path
    size: int
    content: str
    container: str
    seconds: Optional[float]
    made: bool

    def words(self) -> str:
        """For people."""
        took = f", packed in {self.seconds:,.1f} s" if self.seconds is not None else ""
        when = "" if self.made or self.seconds is None else " in an earlier run"
        size = machine.bytes_text(self.size)
        return f"{self.path}: {self.content} in {self.container}, {size}{took}{when}"


def warm(source: Source, title: str, stopped: Callable[[], bool], show: Show) -> Warm:
    """Read the records once, as far as memory and patience go, so that the system has them."""
    most = machine.memory_available_bytes().value * WARM_SHARE or math.inf
    begin, size, count = time.monotonic(), 0, len(source)
    with show.apart(title):
        for index in range(count):
            if index % 64 == 0:
                show.note(f"{index:,} of {count:,} images")
            if stopped() or size > most or time.monotonic() - begin > WARM_S:
                return Warm(index, size, False)
            try:
                data = source[index].data
                # bytes(): of a mapped file the pages are read only when they are touched
                size += data.nbytes if isinstance(data, np.ndarray) else len(bytes(data))
            except (BadSample, OSError):
                pass  # the loaders replace it
    return Warm(count, size, True)


def keep(source: Source, path: Path) -> str:
    """Write the opened records down, so that no measurement scans the data again."""
    path.write_bytes(pickle.dumps(source))
    return str(path)


def get_pack(
    config: Config,
    splits: Splits,
    source_file: str,
    folder: Path,
    cpus: machine.Measure[int],
    stopped: Callable[[], bool],
    show: Show,
) -> Pack:
    """The pack of these data below `folder`: an earlier one, or made now.

    Args:
        config: all settings.
        splits: the data.
        source_file: its training records, as `keep` wrote them.
        folder: of packs.
        cpus: usable ones.
        stopped: whether a signal came.
        show: what is seen.

    Raises:
        JobFailed: packing failed; the message says why.
        Stopped: a signal came; the next run goes on.
        SetupError: the folder can't be written.
    """
    name = Path(splits.root).name or "data"
    dst = folder / f"{name}-{_fingerprint(splits)}"
    record = dst.with_name(dst.name + ".json")
    found = opened_pack(dst, record)
    if found is not None:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f"cannot make {str(folder)!r}: {error.strerror or error}; choose another --out"
        ) from None
    job = {
        "what": "pack",
        "source": source_file,
        "src": config.data.path,
        "dst": str(dst),
        "trust": config.data.trust == "code",
        "cpus": [cpus.value, cpus.source],
    }
    partial = dst.with_name(dst.name + ".partial")

    def tick() -> None:
        show.note(f"{machine.bytes_text(_size(partial))} so far")

    with show.apart(f"packing {name}"):
        done = run_job(job, stopped, tick=tick, silent_s=math.inf)
    write_whole(record, json.dumps({"seconds": round(done["seconds"], 2)}).encode() + b"\n")
    made = opened_pack(dst, record)
    assert made is not None
    return made._replace(made=True)


def opened_pack(path: Path, record: Optional[Path] = None) -> Optional[Pack]:
    """What a pack says of itself; None where there is none.

    Args:
        path: the folder.
        record: file that says how long packing took.
    """
    marker = read_marker(path)
    if marker is None:
        return None
    seconds = None
    if record is not None:
        try:
            seconds = float(json.loads(record.read_text(encoding="utf-8"))["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # an older run was ended before it wrote it
    options: Dict[str, Any] = marker["options"]
    return Pack(path, _size(path), options["content"], options["container"], seconds, False)


def open_pack(config: Config, path: Path) -> Splits:
    """Open a pack as the run would."""
    data = config.data
    return open_splits(
        str(path),
        data.val_share,
        config.run.seed,
        data.allow_empty_classes,
        trust=data.trust == "code",
    )


def refuse_other_data(data: Splits, packed: Splits, pack: Path) -> None:
    """A pack of other data is no arm of this comparison; images that it left out are allowed for.

    Raises:
        DataError: it has other numbers of training images or classes.
    """
    missing = len(data.train) - len(packed.train)
    most = sum(len(gone) for gone in left_out(pack).values())
    if 0 <= missing <= most and len(data.classes) == len(packed.classes):
        return
    raise DataError(
        f"--packed: {str(pack)!r} has {len(packed.train):,} training images of "
        f"{len(packed.classes):,} classes, data.path {len(data.train):,} of "
        f"{len(data.classes):,}: a pack of other data; leave --packed out, or make it with "
        f"train pack {data.root} OUT"
    )


def differences(data: Source, packed: Source, content: str) -> List[str]:
    """In what a pack differs from the data it is compared with, for the notes."""
    notes = []
    if len(data) != len(packed):
        notes.append(f"the pack has {len(packed):,} training images, the data {len(data):,}")
    else:
        places = {number * len(data) // LOOKED_AT for number in range(LOOKED_AT)}
        if any(_stem(data.key(n)) != _stem(packed.key(n)) for n in places):
            notes.append("the pack holds other images, or in another order")
    if content not in ("windows", "original"):
        notes.append(f"its pixels are not quite those of the files: content {content}")
    return notes


def _stem(key: str) -> str:
    """A key without its extension: a PNG that became a JPEG is the same image."""
    return os.path.splitext(key)[0]


def _fingerprint(splits: Splits) -> str:
    """A name for these very files: their place, count, labels, sizes and times."""
    digest = hashlib.blake2b(splits.root.encode("utf-8", "surrogateescape"), digest_size=4)
    for source in (splits.train, splits.val):
        digest.update(np.asarray(source.labels, dtype=np.int64).tobytes())
        for path in files_of(source):
            try:
                info = os.stat(path)
            except OSError:
                continue
            digest.update(b"%d %d " % (info.st_size, info.st_mtime_ns))
    return digest.hexdigest()


def _size(folder: Path) -> int:
    try:
        return folder_bytes(folder)
    except OSError:
        return 0  # renamed at this moment
