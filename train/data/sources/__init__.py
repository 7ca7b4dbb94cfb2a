"""Stop 2 of the line: index -> Record. One class per container; a source knows nothing of images.

The contract of a source: `len(source)`, `source[i] -> Record`, `source.key(i)`, `source.labels`
(int64 (N,)), picklable, its index in NumPy arrays and never in Python lists: reference counts of
list items copy the pages of a forked worker, and memory grows with every epoch.
"""

from typing import NamedTuple, Protocol

import numpy as np


class Record(NamedTuple):
    """One encoded sample.

    Attributes:
        data: the bytes as they are stored.
        label: class number.
        key: names the sample for people: a path relative to the data folder.
    """

    data: bytes
    label: int
    key: str


class Source(Protocol):
    """What every container offers."""

    labels: np.ndarray
    """Class numbers, int64 (N,)."""

    def __len__(self) -> int:
        """Number of records."""

    def __getitem__(self, index: int) -> Record:
        """Read one record; OSError where the storage fails."""

    def key(self, index: int) -> str:
        """Name one record without reading it."""


class Subset:
    """Some records of a source, in a given order.

    Args:
        source: the whole.
        indices: int64 (M,), into the source.
    """

    def __init__(self, source: Source, indices: np.ndarray):
        self.source = source
        self.indices = np.asarray(indices, dtype=np.int64)
        self.labels = source.labels[self.indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Record:
        return self.source[int(self.indices[index])]

    def key(self, index: int) -> str:
        """Name one record without reading it."""
        return self.source.key(int(self.indices[index]))
