"""LMDB: key `%08d`, value = label (uint32, little-endian) + the encoded image.

`__len__` (ASCII) says how many there should be; `__keys__`, where it exists, has their names, one a
line. Databases that hold Python pickles instead are read only when they are trusted.
"""

import os
from typing import List, NamedTuple, Optional

import numpy as np

from train.data.sources import BAD_LABEL, Record
from train.data.sources.handles import Stamp, stored_file
from train.data.sources.index import Built, Index, Progress, open_index
from train.data.sources.index_check import Needs
from train.data.sources.lmdb_index import (
    LABEL,
    PICKLED,
    build_index,
    looks_pickled,
    quote,
    unpickled,
)
from train.data.sources.names import Names
from train.errors import BadSample

__all__ = ["Database", "LmdbSource", "open_lmdb", "quote"]

_SHOWN = 5
_NEEDS = Needs(
    columns=("labels", "offsets", "sizes"),
    names=("keys",),
    meta={
        "pickled": (bool,),
        "said": (int,),
        "missing": (list, str),
        "missing_count": (int,),
        "notes": (list, str),
    },
)


class Database(NamedTuple):
    """An opened LMDB file.

    Attributes:
        source: its records.
        notes: what the user should know, one line each.
        missing: keys that should be there and are not.
    """

    source: "LmdbSource"
    notes: List[str]
    missing: List[str]


class LmdbSource:
    """Records of an LMDB file, in the order of their numbers.

    Args:
        index: where each value lies.
        trust: unpickle values.
    """

    def __init__(self, index: Index, trust: bool):
        self.index = index
        self.trust = trust
        self._stamp = Stamp(*index.fingerprint)

    @property
    def labels(self) -> np.ndarray:
        """Class numbers, int64 (N,)."""
        return self.index["labels"]

    @property
    def names(self) -> Names:
        """The keys."""
        return self.index.names("keys")

    def __len__(self) -> int:
        return len(self.labels)

    def key(self, index: int) -> str:
        """The name of a record; its number in the database where it has none."""
        return self.names[index]

    def file(self, index: int) -> str:
        """The file that a record lies in."""
        return self.index.container

    def __getitem__(self, index: int) -> Record:
        key = self.names[index]
        arrays = self.index.arrays
        offset, size = int(arrays["offsets"][index]), int(arrays["sizes"][index])
        label = int(arrays["labels"][index])
        file = stored_file(self.index.container, self._stamp)
        if self.index.meta["pickled"]:
            if not self.trust:  # an index that lies beside the data may say anything
                raise BadSample(f"the value {PICKLED}")
            return Record(unpickled(file.read(offset, size))[0], label, key)
        if label == BAD_LABEL:
            raise BadSample(_why_unusable(file.read(offset, size)))
        return Record(file.read(offset + LABEL.size, size - LABEL.size), label, key)


def open_lmdb(path: str, trust: bool = False, progress: Optional[Progress] = None) -> Database:
    """Open an LMDB database.

    Args:
        path: its folder, or its file.
        trust: unpickle what it holds.
        progress: called with the number of records found, while it is indexed.

    Raises:
        DataError: it is damaged, of another layout, or holds pickles and is not trusted.
    """
    file = os.path.join(path, "data.mdb") if os.path.isdir(path) else path

    def build(progress: Optional[Progress]) -> Built:
        return build_index(file, trust, progress)

    index = open_index(file, "lmdb", build, progress, {"trust": trust}, _NEEDS)
    meta, notes = index.meta, list(index.notes)
    if meta["missing_count"]:
        shown = ", ".join(repr(key) for key in meta["missing"][:_SHOWN])
        more = " ..." if meta["missing_count"] > _SHOWN else ""
        notes.append(
            f"warning: {file!r} should have {meta['said']} records by its __len__, "
            f"{meta['missing_count']} are missing: {shown}{more}"
        )
    notes += meta["notes"]
    return Database(LmdbSource(index, trust), notes, list(meta["missing"]))


def _why_unusable(value: bytes) -> str:
    if looks_pickled(value):
        return f"the value {PICKLED}"
    return f"the value has {len(value)} bytes, expected a label of 4 bytes and an image"
