"""Open files of the containers: one per path and process, opened at first use.

Two kinds. A `StoredFile` is a descriptor that any number of threads read by position. A library's
object (an HDF5 file) is used by one thread at a time, under its lock.

Nothing of it crosses a fork: what the parent has open is closed before, and a child opens its own.
A file that was dropped from the table stays open until the last thread that reads it is done.
"""

import errno
import os
import threading
from collections import OrderedDict
from typing import Any, Callable, Dict, NamedTuple, Optional

from train.errors import DataError

MOST_FILES = 256
"""Descriptors a process keeps; many systems allow 1,024, and a data set may have more shards."""


class Stamp(NamedTuple):
    """What tells that a file is still the one that was indexed.

    Attributes:
        size: bytes.
        mtime_ns: time of its last change.
    """

    size: int
    mtime_ns: int


class StoredFile:
    """A file that threads read by position, without a shared one.

    Args:
        path: of the file.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: str):
        self.descriptor = -1  # for __del__, should opening fail
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        info = os.fstat(self.descriptor)
        self.stamp = Stamp(info.st_size, info.st_mtime_ns)
        if hasattr(os, "posix_fadvise"):
            # Records are read whole and in random order: what lies behind them is not wanted.
            os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def read(self, offset: int, length: int) -> bytes:
        """Read exactly `length` bytes.

        Raises:
            OSError: the storage fails, or the file ends before.
        """
        if not 0 <= offset <= offset + length <= self.stamp.size:  # before memory is taken for it
            raise _ends(self.stamp.size, offset, length)
        data = os.pread(self.descriptor, length, offset)
        while len(data) < length:
            more = os.pread(self.descriptor, length - len(data), offset + len(data))
            if not more:
                raise _ends(offset + len(data), offset, length)
            data += more
        return data

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


def _ends(size: int, offset: int, length: int) -> OSError:
    return OSError(
        errno.EIO, f"the file ends at byte {size:,}, expected {length:,} bytes from {offset:,}"
    )


class _LibraryFile:
    """An object of a library over a file; `with` gives it to one thread at a time."""

    def __init__(self, opener: Callable[[], Any]):
        self.lock = threading.Lock()
        self._opener = opener
        self._file: Any = None

    def __enter__(self) -> Any:
        self.lock.acquire()
        try:
            if self._file is None:
                self._file = self._opener()
            return self._file
        except BaseException:
            self.lock.release()
            raise

    def __exit__(self, *_: Any) -> None:
        self.lock.release()

    def close(self) -> None:
        """Close it; whoever holds the lock may. The next `with` opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


_lock = threading.Lock()
_stored: "OrderedDict[str, StoredFile]" = OrderedDict()
_libraries: Dict[str, _LibraryFile] = {}


def stored_file(path: str, stamp: Optional[Stamp] = None) -> StoredFile:
    """The file of this process for a path.

    Args:
        path: absolute.
        stamp: what the file was when it was indexed; None: not compared.

    Raises:
        DataError: the file is no longer the one that was indexed.
        OSError: it can't be opened.
    """
    file = _stored.get(path)
    if file is None or (stamp is not None and file.stamp != stamp):
        with _lock:
            file = _stored.get(path)
            if file is None or (stamp is not None and file.stamp != stamp):
                # Opened anew also where what is open may be the one that is out of date.
                file = _stored[path] = StoredFile(path)
                if len(_stored) > MOST_FILES:
                    _stored.popitem(last=False)
    if stamp is not None and file.stamp != stamp:
        raise DataError(
            f"{path!r} has changed since it was indexed: {file.stamp.size:,} bytes, "
            f"expected {stamp.size:,}; start again when nothing writes to it any more"
        )
    return file


def read_at(path: str, offset: int, length: int, stamp: Optional[Stamp] = None) -> bytes:
    """Read exactly `length` bytes of a file, through this process's descriptor.

    Raises:
        DataError: the file is no longer the one that was indexed.
        OSError: the storage fails, or the file ends before.
    """
    return stored_file(path, stamp).read(offset, length)


def library_file(path: str, opener: Callable[[], Any]) -> Any:
    """A library's object for a path, to be used in a `with`: by one thread at a time.

    Args:
        path: absolute.
        opener: opens it; called at first use in this process.
    """
    with _lock:
        file = _libraries.get(path)
        if file is None:
            file = _libraries[path] = _LibraryFile(opener)
        return file


def forget(path: str) -> None:
    """Open a path anew at its next use: what is open leads to a disk that no longer answers."""
    with _lock:
        _stored.pop(path, None)
        library = _libraries.pop(path, None)
    if library is not None:
        with library.lock:
            library.close()


def close_all() -> None:
    """Close what this process has open; a thread that reads is waited for. Use opens it again."""
    with _lock:
        _stored.clear()
        libraries = list(_libraries.values())
        _libraries.clear()
    for library in libraries:
        with library.lock:
            library.close()


def count_open() -> int:
    """How many files this process has open here."""
    return len(_stored) + sum(library._file is not None for library in _libraries.values())


_held: Dict[str, _LibraryFile] = {}


def _before_fork() -> None:
    """Close all, and let no thread open anything until the fork is done."""
    _lock.acquire()
    _held.update(_libraries)
    for library in _held.values():
        library.lock.acquire()
        library.close()
    _stored.clear()


def _after_fork_in_parent() -> None:
    for library in _held.values():
        library.lock.release()
    _held.clear()
    _lock.release()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()  # the threads that may have waited for the old one are not here
    _held.clear()
    _stored.clear()
    _libraries.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
