"""The index file beside a container: where each record lies, its label and its key.

A container is read through once; from then on its index is opened by mmap, in milliseconds, and
workers share its pages. It is never trusted: a file that is torn, damaged, of another container or
older than its container is built again.
"""

import json
import os
import secrets
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from train.data.sources import index_file
from train.data.sources.index_check import Needs, is_sound
from train.data.sources.names import Names
from train.errors import DataError

Progress = Callable[[int], None]
"""Called with the number of records found so far."""

ANYTHING = Needs()

Built = Tuple[Dict[str, np.ndarray], Dict[str, Any]]
"""What a builder returns: arrays by name, and a small dict that JSON can hold."""


class Index:
    """Arrays of one container, read-only. It pickles by its path, and opens where it is used.

    Attributes:
        path: the index file.
        container: the file it describes.
        fingerprint: (size, mtime_ns) of the container when it was read.
        notes: what the user should know of how it was opened, one line each; not pickled.
    """

    def __init__(self, path: str, container: str, fingerprint: Tuple[int, int], id: str):
        self.path = path
        self.container = container
        self.fingerprint = fingerprint
        self.notes: List[str] = []
        self._id = id
        self._opened: Optional[Tuple[Dict[str, np.ndarray], Dict[str, Any]]] = None

    def __getstate__(self) -> Tuple[str, str, Tuple[int, int], str]:
        return self.path, self.container, self.fingerprint, self._id

    def __setstate__(self, state: Tuple[str, str, Tuple[int, int], str]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @property
    def meta(self) -> Dict[str, Any]:
        """The builder's small dict."""
        return self._open()[1]

    @property
    def arrays(self) -> Dict[str, np.ndarray]:
        """All arrays by name."""
        return self._open()[0]

    def __getitem__(self, name: str) -> np.ndarray:
        return self._open()[0][name]

    def __contains__(self, name: str) -> bool:
        return name in self._open()[0]

    def names(self, name: str) -> Names:
        """A block of names that was stored with `Names.arrays(name)`."""
        return Names.from_arrays(self.arrays, name)

    def _open(self) -> Tuple[Dict[str, np.ndarray], Dict[str, Any]]:
        if self._opened is None:
            found = index_file.read(self.path, check=False)
            if found is None or found[0].id != self._id:
                state = "has been replaced" if found or os.path.exists(self.path) else "is gone"
                raise DataError(
                    f"the index {self.path!r} {state} since this process's parent opened it; "
                    f"nothing is lost: start again, and it is built anew from {self.container!r}"
                )
            self._opened = found[1], found[0].meta
        return self._opened


def open_index(
    container: str,
    kind: str,
    build: Callable[[Optional[Progress]], Built],
    progress: Optional[Progress] = None,
    options: Optional[Dict[str, Any]] = None,
    needs: Needs = ANYTHING,
) -> Index:
    """Open a container's index; build and write it where there is none that fits.

    Args:
        container: the file (for LMDB its data.mdb); the index is `<container>.index`.
        kind: "tar", "tfrecord" ...; an index of another kind does not fit.
        build: called with `progress`, returns arrays and a small dict (JSON).
        progress: called with the number of records found so far.
        options: whatever else the content depends on; an index made with others does not fit.
        needs: what an index of this kind must hold; one that has something else is built again.

    Raises:
        DataError: no such container, it changes while it is read, or the index can't be kept
            anywhere.
    """
    container = os.path.abspath(container)
    fingerprint = fingerprint_of(container)
    options = json.loads(json.dumps(options or {}))  # tuples become lists, as in the file
    places = index_file.places(container)
    stale = ""
    for path in places:
        found = index_file.read(path, check=True)
        if found is None or not is_sound(found[1], found[0].meta, needs):
            if os.path.exists(path):
                stale = f"note: the index {path!r} is damaged or of another version: built again"
            continue
        header = found[0]
        if (header.kind, header.fingerprint, header.options) == (kind, fingerprint, options):
            index = Index(path, container, fingerprint, header.id)
            index._opened = found[1], header.meta
            return index
        if header.fingerprint != fingerprint:
            stale = f"note: {container!r} has changed since it was indexed: built again"
    arrays, meta = build(progress)
    if fingerprint_of(container) != fingerprint:
        raise DataError(f"{container!r} changed while it was being read; start again when it rests")
    identity = secrets.token_hex(8)
    blocks = index_file.pack(identity, kind, fingerprint, options, meta, arrays)
    path, notes = index_file.write_somewhere(places, blocks)
    index = Index(path, container, fingerprint, identity)
    index.notes = ([stale] if stale else []) + notes
    return index


def fingerprint_of(container: str) -> Tuple[int, int]:
    """(size, mtime_ns) of a file.

    Raises:
        DataError: it can't be reached.
    """
    try:
        info = os.stat(container)
    except OSError as error:
        raise DataError(f"cannot read {container!r}: {error.strerror}") from None
    return info.st_size, info.st_mtime_ns
