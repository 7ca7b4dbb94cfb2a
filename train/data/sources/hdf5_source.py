"""HDF5: `images` (encoded files, or pixels), `labels`, and `keys` where the records have names.

Records that lie in the file as they are, are read by position. Compressed ones are read with h5py,
by one thread at a time: the library has one lock for everything.
"""

import math
from typing import Any, List, NamedTuple, Optional

import numpy as np

from train.data.sources import Record
from train.data.sources.handles import Stamp, library_file, stored_file
from train.data.sources.index import Index, Progress, open_index
from train.data.sources.index_check import Needs
from train.data.sources.names import Names
from train.data.sources.probe import probe
from train.errors import BadSample

NEEDS = Needs(
    columns=("labels",),
    optional=("offsets", "sizes"),
    meta={"layout": (str,), "shape": (list, int), "chunk": (int,), "compressed": (str,)},
)


class Hdf5File(NamedTuple):
    """An opened HDF5 file.

    Attributes:
        source: its records.
        notes: what the user should know, one line each.
    """

    source: "Hdf5Source"
    notes: List[str]


class Hdf5Source:
    """Records of an HDF5 file, in its order.

    Args:
        index: labels, keys and places.
    """

    def __init__(self, index: Index):
        self.index = index
        self._stamp = Stamp(*index.fingerprint)

    @property
    def labels(self) -> np.ndarray:
        """Class numbers, int64 (N,)."""
        return self.index["labels"]

    @property
    def names(self) -> Optional[Names]:
        """The keys, where the file has them."""
        return self.index.names("keys") if "keys" in self.index else None

    def __len__(self) -> int:
        return len(self.labels)

    def key(self, index: int) -> str:
        """The name of a record; its number where it has none."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        names = self.names
        return names[index] if names is not None else f"{index:08d}"

    def file(self, index: int) -> str:
        """The file that a record lies in."""
        return self.index.container

    def __getitem__(self, index: int) -> Record:
        key = self.key(index)
        data: Any
        if "offsets" in self.index:
            file = stored_file(self.index.container, self._stamp)
            data = file.read(int(self.index["offsets"][index]), int(self.index["sizes"][index]))
        else:
            data = self._from_library(index)
        meta = self.index.meta
        if meta["layout"] == "encoded":
            return Record(bytes(data), int(self.labels[index]), key)
        pixels = np.frombuffer(data, dtype=np.uint8)
        if len(meta["shape"]) != 3 or pixels.size != math.prod(meta["shape"]):
            raise BadSample(f"it has {pixels.size} bytes, expected {meta['shape']} pixels")
        pixels = pixels.reshape(meta["shape"])
        if meta["layout"] == "chw":
            pixels = np.ascontiguousarray(pixels.transpose(1, 2, 0))
        return Record(pixels, int(self.labels[index]), key)

    def _from_library(self, index: int) -> bytes:
        path = self.index.container
        stored_file(path, self._stamp)  # still the file that was indexed
        try:
            with library_file(path, lambda: _open(path)) as file:
                return np.asarray(file["images"][index], dtype=np.uint8).tobytes()
        except MemoryError:
            raise BadSample("it is larger than what memory is left") from None
        except Exception as error:  # h5py passes on whatever the C library made of the damage
            raise BadSample(f"HDF5 can't read it: {error or type(error).__name__}") from None


def _open(path: str) -> Any:
    import h5py

    try:
        # Without locks: nobody writes, and network disks often have none.
        return h5py.File(path, "r", locking=False)
    except OSError:
        # Somebody else in this process has it open with locks; the library wants all alike.
        return h5py.File(path, "r")


def open_hdf5(path: str, progress: Optional[Progress] = None) -> Hdf5File:
    """Open an HDF5 file.

    Args:
        path: of the file.
        progress: called with the number of records found, while it is indexed.

    Raises:
        DataError: it is damaged, or of another layout.
    """
    index = open_index(
        path, "hdf5", lambda tell: probe("hdf5_scan", path, tell), progress, needs=NEEDS
    )
    meta, notes = index.meta, list(index.notes)
    if "offsets" not in index:
        if meta["compressed"] and meta["chunk"] > 1 and meta["layout"] != "encoded":
            notes.append(
                f"warning: {path!r} is compressed in chunks of {meta['chunk']} images: to read "
                "one, all of them are decompressed; pack it again: train pack"
            )
        elif meta["compressed"]:
            notes.append(
                f"note: {path!r} is compressed ({meta['compressed']}), and HDF5 decompresses for "
                "one thread at a time; use worker processes, or pack it again: train pack"
            )
        elif meta["chunk"]:
            notes.append(
                f"warning: {path!r} stores images in pieces, which is slow to read; pack it again: "
                "train pack"
            )
    return Hdf5File(Hdf5Source(index), notes)
