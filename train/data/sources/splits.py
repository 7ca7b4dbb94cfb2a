"""From a path to what is trained and validated on."""

import hashlib
from typing import Callable, List, NamedTuple, Optional, Tuple

import numpy as np

from train.data.sources import Source, Subset
from train.data.sources.names import Names
from train.data.sources.open import open_sets
from train.data.sources.skipped import Skipped


class Splits(NamedTuple):
    """The data of a run.

    Attributes:
        train, val: the two sources.
        classes: names; the position is the class number, the same in both.
        notes: what the user should know, one line each.
        skipped: what the scan left out, keys relative to `root`.
        root: absolute path of the data folder; of one's own module:function.
        kind: "folder", "tar", "lmdb", "hdf5", "tfrecord" or "own".
    """

    train: Source
    val: Source
    classes: Tuple[str, ...]
    notes: List[str]
    skipped: List[Skipped]
    root: str
    kind: str = "folder"


def open_splits(
    path: str,
    val_share: float,
    seed: int,
    allow_empty: bool = False,
    progress: Optional[Callable[[int], None]] = None,
    trust: bool = False,
) -> Splits:
    """Open a data set: its training and validation sets, else a share of the one set aside.

    Args:
        path: a folder of images, the folder of a pack, a container, a folder of shards.
        val_share: share of each class set aside where there is no validation set, in (0, 1).
        seed: decides, with each record's key, which ones those are.
        allow_empty: go on when a class has no image.
        progress: called with the number of images found so far.
        trust: unpickle what a container holds as pickles.

    Raises:
        DataError: missing or unreadable folder, a damaged container, no classes, an empty class, a
            class that only val has.
    """
    sets = open_sets(path, allow_empty, progress, trust)
    source, val, notes = sets.train, sets.val, list(sets.notes)
    rest = (sets.classes, notes, sets.skipped, sets.root, sets.kind)
    if val is not None:
        return Splits(source, val, *rest)
    train, val = split(source, val_share, seed)
    if len(val) == 0:
        notes.append(
            "warning: every class has a single image, so validation uses the training images"
        )
        return Splits(source, source, *rest)
    notes.append(
        f"no validation set: {len(val)} of {len(source)} images set aside for validation "
        "(data.val_share)"
    )
    return Splits(train, val, *rest)


def split(source: Source, val_share: float, seed: int) -> Tuple[Subset, Subset]:
    """Set a share of each class aside, at least one image of each class that has two or more.

    The second part is empty where every class has a single image. A record without a class is
    never set aside.

    Each record's place depends on its key and the seed, not on the other records, nor on the
    container.
    """
    labels = source.labels
    order = np.lexsort((_ranks(source, seed), labels))  # by class, then by rank
    begins = np.flatnonzero(np.diff(labels[order], prepend=labels[order[:1]] - 1))
    sizes = np.diff(begins, append=len(order))
    in_val = np.zeros(len(order), dtype=bool)
    for begin, size in zip(begins.tolist(), sizes.tolist()):
        if labels[order[begin]] >= 0:
            count = min(size - 1, max(1, round(val_share * size)))
            in_val[order[begin : begin + count]] = True
    return Subset(source, np.flatnonzero(~in_val)), Subset(source, np.flatnonzero(in_val))


def _ranks(source: Source, seed: int) -> np.ndarray:
    """A number for each key, uint64 (N,): BLAKE2b keyed with the seed.

    About two microseconds a key.
    """
    begun = hashlib.blake2b(digest_size=8, key=seed.to_bytes(8, "little"))
    digests = bytearray()
    names = getattr(source, "names", None)
    if isinstance(names, Names):
        blob, start = names.blob.tobytes(), 0
        for end in names.ends.tolist():
            one = begun.copy()
            one.update(blob[start:end])
            digests += one.digest()
            start = end
    else:
        for index in range(len(source)):
            one = begun.copy()
            one.update(source.key(index).encode("utf-8", "surrogateescape"))
            digests += one.digest()
    return np.frombuffer(bytes(digests), dtype="<u8")
