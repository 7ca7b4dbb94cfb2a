"""What is packed: the splits of the source as they are, and whether there is room."""

import hashlib
import os
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np

from train.console import say
from train.data.sources import Source
from train.data.sources.names import encode
from train.data.sources.open import Sets, open_sets
from train.data.sources.skipped import Skipped, describe_skipped
from train.errors import BadSample, DataError, SetupError
from train.machine import bytes_text
from train.pack.clashes import refuse_clashes
from train.pack.contents import convert
from train.pack.options import PackOptions

SAMPLES = 64
"""Records looked at for the estimate: enough for some per cent, done in a blink."""


class Plan(NamedTuple):
    """What is packed.

    Attributes:
        splits: sources by name, in the order they are written; "val" only where the source has one.
        classes: names; the position is the class number.
        skipped: what the source's scan left out.
        fingerprint: of all keys and labels, in their order.
    """

    splits: Dict[str, Source]
    classes: Tuple[str, ...]
    skipped: List[Skipped]
    fingerprint: str

    @property
    def num_records(self) -> int:
        """In all splits."""
        return sum(map(len, self.splits.values()))


def open_data(path: str, trust: bool) -> Sets:
    """Open a data set, with a line now and then while it is scanned."""
    told = time.monotonic()

    def progress(count: int) -> None:
        nonlocal told
        if time.monotonic() - told > 2.0:
            told = time.monotonic()
            say(f"scanning {path}: {count} images so far")

    return open_sets(path, allow_empty=True, progress=progress, trust=trust)


def splits_of(sets: Sets) -> Dict[str, Source]:
    """The sets by name, in the order they are written."""
    return {"train": sets.train} if sets.val is None else {"train": sets.train, "val": sets.val}


def make_plan(options: PackOptions) -> Plan:
    """Open the source and say what was found.

    Raises:
        DataError: it can't be opened, or two samples have one name where that can't be.
    """
    opened = open_data(options.src, options.trust)
    splits = splits_of(opened)
    sizes = " and ".join(f"{len(source)} {name}" for name, source in splits.items())
    say(f"source    {opened.root}: {sizes} images, {len(opened.classes)} classes", indent=10)
    if "val" not in splits:
        say("          no val part: all is packed as train, and loading sets a share aside")
    for line in opened.notes + describe_skipped(opened.skipped):
        say(f"          {line}", indent=10)
    unique = options.container in ("folder", "tar")
    digest = hashlib.blake2b(digest_size=16)
    for name, source in splits.items():
        digest.update(f"{name} {len(source)}\n".encode())
        _read_keys(name, source, digest, unique)
        if options.container == "folder":
            refuse_clashes(name, source, opened.classes)
    return Plan(splits, opened.classes, opened.skipped, digest.hexdigest())


def _read_keys(name: str, source: Source, digest: Any, unique: bool) -> None:
    """Add all keys and labels to a digest; refuse a key that comes twice where files bear keys."""
    hashes = np.empty(len(source), dtype=np.uint64)
    labels = source.labels
    for index in range(len(source)):
        digest8 = hashlib.blake2b(encode(source.key(index)), digest_size=8).digest()
        hashes[index] = int.from_bytes(digest8, "little")
    digest.update(hashes.tobytes())
    digest.update(np.asarray(labels, dtype=np.int64).tobytes())
    if not unique or len(np.unique(hashes)) == len(hashes):
        return
    order = np.argsort(hashes, kind="stable")
    for first in np.flatnonzero(np.diff(hashes[order]) == 0).tolist():
        one, other = int(order[first]), int(order[first + 1])
        if source.key(one) == source.key(other):
            raise DataError(
                f"two samples of {name} have the key {source.key(one)!r} (numbers {one} and "
                f"{other}), and files need names of their own; pack into lmdb, hdf5 or tfrecord, "
                "or mend the source"
            )


class Estimate(NamedTuple):
    """What a few samples say of all.

    Attributes:
        before: bytes of the images as they are now.
        after: bytes of the pack.
        room: most bytes on the disk at any time.
    """

    before: int
    after: int
    room: int


def estimate(plan: Plan, options: PackOptions) -> Estimate:
    """Convert a few samples and extrapolate."""
    before: List[int] = []
    after: List[int] = []
    for source, index in _some(plan, SAMPLES):
        try:
            data = source[index].data
        except (BadSample, OSError):
            continue
        before.append(data.nbytes if isinstance(data, np.ndarray) else len(data))
        after.append(_on_disk(len(convert(data, options).data), options.container))
    share = plan.num_records / max(1, len(before))
    size = int(sum(after) * share) + (1 << 20)
    # HDF5 is made from a plain file of all images, which goes only then.
    room = 2 * size if options.container == "hdf5" else size
    return Estimate(int(sum(before) * share), size, room)


def check_room(folder: Path, needed: Estimate, done: float) -> None:
    """Refuse to begin what the disk can't hold.

    Args:
        folder: where it is written; it exists.
        needed: the estimate.
        done: share that is written already.

    Raises:
        SetupError: too little room.
    """
    info = os.statvfs(folder)
    free = info.f_bavail * info.f_frsize
    wanted = needed.room - int(needed.after * done)
    if wanted > free:
        raise SetupError(
            f"not enough room in {str(folder)!r}: the pack needs about {bytes_text(wanted)}, "
            f"{bytes_text(free)} are free; make room, choose another disk, or a smaller content "
            "(--short-side 256, --content windows)"
        )


def _on_disk(size: int, container: str) -> int:
    """Bytes of one image in a container, with what stands around it."""
    if container == "tar":
        return 1536 + -(-size // 512) * 512
    if container in ("lmdb", "folder"):
        return -(-(size + 64) // 4096) * 4096
    return size + (256 if container == "tfrecord" else 96)


def _some(plan: Plan, most: int) -> Iterator[Tuple[Source, int]]:
    """Records spread evenly over all splits."""
    count = min(most, plan.num_records)
    for place in range(count):
        index = place * plan.num_records // count
        for source in plan.splits.values():
            if index < len(source):
                yield source, index
                break
            index -= len(source)
