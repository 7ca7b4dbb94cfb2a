"""LMDB: SPLIT.lmdb/data.mdb, key `%08d`, value = label (uint32, little-endian) and the image.

`__len__` is the number in ASCII, `__keys__` the samples' names, one a line.

LMDB's bytes depend on where its transactions end, and its unused bytes on what the process wrote
before. So transactions end at counted places, and each is written by an environment of its own: a
killed transaction, repeated, writes the same pages again.
"""

import errno
import os
import struct
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import lmdb

from train.data.sources.lmdb_source import quote
from train.data.sources.names import encode
from train.pack.writers import Sample, Target
from train.pack.writers.append import AppendFile

PAGE = 4096
LEN, KEYS = b"__len__", b"__keys__"
SYNC = True
"""Off in tests alone, on disks that others keep busy."""

_MAP_STEP = 1 << 30
_ENDS = b"\0"  # between names in our own file; they may hold line breaks, and never this


class LmdbWriter:
    """See `Writer`. What is added lies in memory until `commit`."""

    commits_anywhere = False

    def __init__(self, target: Target, state: Optional[Dict[str, Any]]):
        self._folder = _folder(target)
        self._folder.mkdir(exist_ok=True)
        self._entries = int(state["entries"]) if state else 0
        self._bytes = int(state["bytes"]) if state else 0
        if state is None:
            _data(target).unlink(missing_ok=True)
        self._keys: Optional[AppendFile] = None  # gone when the split is finished
        if state is None or _keys(target).exists():
            self._keys = AppendFile(_keys(target), state["keys"] if state else 0)
        self._staged: List[Tuple[bytes, bytes]] = []

    @staticmethod
    def usable(target: Target, state: Dict[str, Any]) -> bool:
        """Whether the file holds what `state` says: the transaction may not have been written."""
        try:
            entries = int(state["entries"])
            found, finished = _count(_folder(target))
            if found == entries + 2 and finished == b"%d" % entries:
                return True
            return found == entries and _keys(target).stat().st_size >= int(state["keys"])
        except (lmdb.Error, OSError, KeyError, TypeError, ValueError, OverflowError):
            return False

    def add(self, sample: Sample) -> str:
        """Keep one for the next `commit`; returns its key."""
        number = self._entries + len(self._staged)
        value = struct.pack("<I", sample.label) + sample.data
        self._staged.append((b"%08d" % number, value))
        assert self._keys is not None
        self._keys.write(encode(sample.key) + _ENDS)
        return sample.key

    def flush(self) -> Dict[str, Any]:
        """Say where it will stand after `commit`."""
        entries = self._entries + len(self._staged)
        return {
            "entries": entries,
            "bytes": self._bytes + _room(self._staged),
            "keys": self._keys.sync() if self._keys is not None else 0,
        }

    def commit(self) -> None:
        """Write one transaction."""
        if not self._staged:
            return
        self._bytes += _room(self._staged)
        self._put(self._staged)
        self._entries += len(self._staged)
        self._staged = []

    def finish(self) -> None:
        """Add the number and the names."""
        if self._keys is None:
            return
        self._keys.sync()
        if _count(self._folder)[1] is None:  # else killed before the names went
            names = self._keys.path.read_bytes().split(_ENDS)[:-1]
            lines = b"\n".join(map(quote, names))
            self._bytes += len(lines) + PAGE
            self._put([(LEN, b"%d" % self._entries), (KEYS, lines)])
        self._keys.close()
        self._keys.path.unlink()

    def close(self) -> None:
        """Let go of the names; what is staged is lost."""
        if self._keys is not None:
            self._keys.close()

    def _put(self, pairs: List[Tuple[bytes, bytes]]) -> None:
        # The size of the map stands in the file, so it must follow from what is written alone.
        size = (self._bytes * 9 // 8 + (256 << 20)) // _MAP_STEP * _MAP_STEP + _MAP_STEP
        try:
            path = str(self._folder)
            with (
                lmdb.open(path, map_size=size, lock=False, sync=SYNC) as environment,
                environment.begin(write=True) as transaction,
            ):
                for key, value in pairs:
                    transaction.put(key, value)
        except lmdb.Error as error:
            raise _os_error(error, self._folder, _room(pairs)) from None


def _count(folder: Path) -> Tuple[int, Optional[bytes]]:
    """Entries that are there, and what `__len__` says."""
    if not (folder / "data.mdb").exists():
        return 0, None
    with (
        lmdb.open(str(folder), create=False, readonly=True, lock=False) as environment,
        environment.begin() as transaction,
    ):
        return environment.stat()["entries"], transaction.get(LEN)


def _room(pairs: List[Tuple[bytes, bytes]]) -> int:
    """Bytes that the values take, in whole pages."""
    return sum(-(-(len(value) + 64) // PAGE) * PAGE for _, value in pairs)


def _folder(target: Target) -> Path:
    return target.folder / f"{target.split}.lmdb"


def _data(target: Target) -> Path:
    return _folder(target) / "data.mdb"


def _keys(target: Target) -> Path:
    return target.folder / f".{target.split}.keys"


def _os_error(error: lmdb.Error, folder: Path, wanted: int) -> OSError:
    """LMDB's exceptions have the system's message, but not its number.

    Args:
        error: what LMDB said.
        folder: of the database.
        wanted: bytes that were to be written.
    """
    info = os.statvfs(folder)
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES, errno.EROFS):
        if os.strerror(number) in str(error):
            # It calls it an I/O error when half a page was still written.
            if number == errno.EIO and info.f_bavail * info.f_frsize < wanted:
                number = errno.ENOSPC
            return OSError(number, os.strerror(number), str(folder))
    return OSError(errno.EIO, f"LMDB: {error}", str(folder))
