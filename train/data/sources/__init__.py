"""Stop 2 of the line: index -> Record. One class per container; a source knows nothing of images.

The contract of a source: `len(source)`, `source[i] -> Record`, `source.key(i)`, `source.labels`
(int64 (N,)), picklable, its index in NumPy arrays and never in Python lists: reference counts of
list items copy the pages of a forked worker, and memory grows with every epoch.

What is damaged: a record that can't be used raises `BadSample` or, where the storage fails,
`OSError`; both cost this record alone. A container that can't be used raises `DataError` when it
is opened.
"""

import os
from typing import Any, Dict, NamedTuple, Optional, Protocol, Union

import numpy as np

BAD_LABEL = -1
"""Label of a record whose own is missing or makes no sense; reading it says why (`BadSample`)."""


class Record(NamedTuple):
    """One sample as it is stored.

    Attributes:
        data: the encoded bytes; or pixels, uint8 (h, w, 3), where the container stores them.
        label: class number.
        key: names the sample for people: a path relative to the data folder.
    """

    data: Union[bytes, memoryview, np.ndarray]
    label: int
    key: str


class Source(Protocol):
    """What every container offers."""

    @property
    def labels(self) -> np.ndarray:
        """Class numbers, int64 (N,); BAD_LABEL where there is none."""

    def __len__(self) -> int:
        """Number of records."""

    def __getitem__(self, index: int) -> Record:
        """Read one record; BadSample or OSError where it can't be used."""

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
        self._labels: Optional[np.ndarray] = None

    @property
    def labels(self) -> np.ndarray:
        """Class numbers, int64 (M,)."""
        if self._labels is None:
            self._labels = self.source.labels[self.indices]
        return self._labels

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "_labels": None}  # the source has them already

    def __len__(self) -> int:
        return len(self.indices)

    def _below(self, index: int) -> int:
        if not 0 <= index < len(self.indices):  # NumPy would take -1 for the last one
            raise IndexError(index)
        return int(self.indices[index])

    def __getitem__(self, index: int) -> Record:
        return self.source[self._below(index)]

    def key(self, index: int) -> str:
        """Name one record without reading it."""
        return self.source.key(self._below(index))

    def file(self, index: int) -> str:
        """The file that a record lies in; see `file_of`."""
        return file_of(self.source, self._below(index))


def file_of(source: Source, index: int) -> str:
    """The container file that a record lies in, for messages; '' where its key says it all.

    A source has `file(index)` where many records share one file.
    """
    file = getattr(source, "file", None)
    return file(index) if file is not None else ""


def root_of(source: Any, index: int) -> str:
    """The folder or container file that a record lies in, absolute; '' where nobody knows.

    A source of files has `root`, as data sets of torchvision have it.
    """
    file = file_of(source, index) if hasattr(source, "key") else ""
    while not file and not hasattr(source, "root"):
        below = getattr(source, "source", None)  # a subset, or something else around it
        source = below if below is not None else getattr(source, "dataset", None)
        if source is None:
            return ""
    root = file or source.root
    return os.path.abspath(os.fsdecode(root)) if isinstance(root, (str, bytes, os.PathLike)) else ""
