"""What the containers of several files have in common: one index a file, one source over all."""

import bisect
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from train.data.sources import Record, Source, Subset
from train.data.sources.index import Index, Progress
from train.data.sources.names import Names
from train.data.sources.skipped import Skipped

MOST_CLASSES = 1_000_000
"""A larger class number, where the number of classes is not known, is taken for damage."""


class Opened(NamedTuple):
    """An opened container.

    Attributes:
        source: its records.
        skipped: what was left out, in reading order.
        notes: what the user should know, one line each.
    """

    source: Source
    skipped: List[Skipped]
    notes: List[str]


class ShardSource:
    """Records of one or more container files, in the order of the files.

    Args:
        indexes: one a file, with arrays "labels" and "keys" and one row a record.
    """

    def __init__(self, indexes: Sequence[Index]):
        self._indexes = list(indexes)
        self._starts = [0]
        for index in self._indexes:
            self._starts.append(self._starts[-1] + len(index["labels"]))
        self._labels: Optional[np.ndarray] = None

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_labels": None}

    @property
    def labels(self) -> np.ndarray:
        """Class numbers, int64 (N,)."""
        if self._labels is None:
            parts = [index["labels"] for index in self._indexes]
            self._labels = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return self._labels

    def __len__(self) -> int:
        return self._starts[-1]

    def _find(self, index: int) -> Tuple[Index, int]:
        """The file that has a record, and the record's row in it."""
        if not 0 <= index < self._starts[-1]:
            raise IndexError(index)
        shard = bisect.bisect_right(self._starts, index) - 1
        return self._indexes[shard], index - self._starts[shard]

    def key(self, index: int) -> str:
        """Name one record without reading it."""
        shard, row = self._find(index)
        return shard.names("keys")[row]

    def file(self, index: int) -> str:
        """The container file that a record lies in."""
        return self._find(index)[0].container

    def __getitem__(self, index: int) -> Record:
        shard, row = self._find(index)
        data = self._read(shard, row)
        return Record(data, int(shard["labels"][row]), shard.names("keys")[row])

    def _read(self, index: Index, row: int) -> Any:
        """The stored image; BadSample where it is damaged."""
        raise NotImplementedError


def pack_skipped(skipped: Iterable[Skipped]) -> Dict[str, np.ndarray]:
    """What a scan left out, as arrays of an index."""
    return Names.of(text for item in skipped for text in item).arrays("skipped")


def collect(
    paths: Iterable[str],
    opener: Callable[[str, Optional[Progress]], Index],
    progress: Optional[Progress],
) -> Tuple[List[Index], List[Skipped], List[str]]:
    """Open the indexes of several files.

    Args:
        paths: of the files, in reading order.
        opener: opens one.
        progress: called with the number of records found so far, in all files.

    Returns:
        The indexes, what was left out, and notes for the user.
    """
    indexes: List[Index] = []
    skipped: List[Skipped] = []
    notes: Dict[str, None] = {}  # as an ordered set: a thousand files may have the same note
    done = 0
    for path in paths:
        before = done
        told = None if progress is None else lambda count, before=before: progress(before + count)
        index = opener(path, told)
        texts = index.names("skipped").tolist()
        skipped += [Skipped(*texts[at : at + 3]) for at in range(0, len(texts), 3)]
        notes.update(dict.fromkeys(index.notes))
        notes.update(
            dict.fromkeys(f"warning: {path!r}: {text}" for text in index.meta.get("notes", []))
        )
        indexes.append(index)
        done += len(index["labels"])
    return indexes, skipped, list(notes)


def refuse_labels(
    source: ShardSource, num_classes: Optional[int], skipped: List[Skipped]
) -> Source:
    """Leave out records whose class number can't be one, adding them to `skipped`.

    Args:
        source: all records.
        num_classes: how many classes there are; None: not known.
        skipped: extended.
    """
    limit = MOST_CLASSES if num_classes is None else num_classes
    labels = source.labels
    good = (labels >= 0) & (labels < limit)
    if good.all():
        return source
    for index in np.flatnonzero(~good).tolist():
        detail = f"class {labels[index]}, expected 0 to {limit - 1}"
        skipped.append(Skipped(source.key(index), "bad_label", detail))
    return Subset(source, np.flatnonzero(good))
