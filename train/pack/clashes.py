"""Names that would become one file: told before anything is written, since one would be lost."""

import hashlib
from typing import Iterator, List, Sequence, Tuple

import numpy as np

from train.data.sources import Source
from train.data.sources.names import encode
from train.data.sources.skipped import IMAGE_EXTENSIONS
from train.errors import DataError
from train.pack.writers.folder import check_classes, path_below

_ENDINGS = sorted(IMAGE_EXTENSIONS)


def refuse_clashes(split: str, source: Source, classes: Sequence[str]) -> None:
    """Refuse a source of which two images would be one file, or a file and a folder.

    Args:
        split: its name, for messages.
        source: what is to become a folder of images.
        classes: names; the position is the class number.

    Raises:
        DataError: naming the two; or a name that no file can have.
    """
    check_classes(classes)
    hashes: List[int] = []
    folders: List[int] = []
    owners: List[Tuple[int, bool]] = []
    for index, label in enumerate(source.labels.tolist()):
        if not 0 <= label < len(classes):
            continue  # it can't be read, so it is left out
        path, whole = path_below(source.key(index), classes[label])
        for name in [path] if whole else [path + ending for ending in _ENDINGS]:
            hashes.append(_hash(name))
            owners.append((index, whole))
        folders += map(_hash, _above(path, classes[label]))
    _refuse_equal(split, source, np.array(hashes, dtype=np.uint64), owners)
    both = np.intersect1d(np.array(hashes, np.uint64), np.array(folders, np.uint64))
    if len(both):
        index = owners[hashes.index(int(both[0]))][0]
        raise DataError(
            f"{source.key(index)!r} of {split} would have to be a file and a folder, since other "
            "keys begin with it; pack into another container"
        )


def _refuse_equal(
    split: str, source: Source, hashes: np.ndarray, owners: List[Tuple[int, bool]]
) -> None:
    order = np.argsort(hashes, kind="stable")
    for first in np.flatnonzero(np.diff(hashes[order]) == 0).tolist():
        one, other = owners[int(order[first])][0], owners[int(order[first + 1])][0]
        raise DataError(
            f"{source.key(one)!r} and {source.key(other)!r} of {split} (numbers {one} and "
            f"{other}) would become one file in a folder of images; pack into another container"
        )


def _above(path: str, class_name: str) -> Iterator[str]:
    """The folders of a file, below that of its class."""
    end = path.rfind("/")
    while end > len(class_name):
        yield path[:end]
        end = path.rfind("/", 0, end)


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(encode(name), digest_size=8).digest(), "little")
