"""HDF5: SPLIT.h5 with `images` (bytes of each file), `labels` (int64) and `keys`.

An HDF5 file that is killed while it grows can't be mended. So samples go into one plain file first,
which can be cut back and continued, and the HDF5 file is made from it in one go at the end.
"""

import errno
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple

import h5py
import numpy as np

from train.data.sources.names import encode
from train.pack.writers import Sample, Target
from train.pack.writers.append import AppendFile

_HEAD = struct.Struct("<qIQ")  # label, bytes of the key, bytes of the image
_ROWS = 256
_COPY_BYTES = 64 << 20


class Hdf5Writer:
    """See `Writer`."""

    commits_anywhere = True

    def __init__(self, target: Target, state: Optional[Dict[str, Any]]):
        self._path = _path(target)
        self._count = int(state["count"]) if state else 0
        self._spool: Optional[AppendFile] = None
        if state is None or _spool(target).exists():
            self._spool = AppendFile(_spool(target), state["size"] if state else 0)

    @staticmethod
    def usable(target: Target, state: Dict[str, Any]) -> bool:
        """Whether the plain file holds what `state` says, or the HDF5 file is there already."""
        try:
            return _spool(target).stat().st_size >= int(state["size"])
        except FileNotFoundError:
            return _path(target).exists()
        except (KeyError, TypeError, ValueError, OverflowError):
            return False

    def add(self, sample: Sample) -> str:
        """Write one; returns its key."""
        assert self._spool is not None
        key = encode(sample.key)
        self._spool.write(_HEAD.pack(sample.label, len(key), len(sample.data)) + key)
        self._spool.write(sample.data)
        self._count += 1
        return sample.key

    def flush(self) -> Dict[str, Any]:
        """Bring all to the disk."""
        size = self._spool.sync() if self._spool is not None else 0
        return {"count": self._count, "size": size}

    def commit(self) -> None:
        """Nothing is left to do."""

    def finish(self) -> None:
        """Make the HDF5 file; the plain one goes when it is there."""
        if self._spool is None:
            return
        size = self._spool.sync()
        self._spool.close()
        _check_room(self._path.parent, size)
        beside = self._path.with_name(f".{self._path.name}.part")
        with open(self._spool.path, "rb") as spool:
            try:
                _build(beside, spool, self._count)
            except (OSError, RuntimeError) as error:
                beside.unlink(missing_ok=True)
                raise _os_error(error, self._path) from None
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, self._path)
        self._spool.path.unlink()

    def close(self) -> None:
        """Let go of the file."""
        if self._spool is not None:
            self._spool.close()


def _build(path: Path, spool: BinaryIO, count: int) -> None:
    encoded = h5py.vlen_dtype(np.uint8)
    text = h5py.string_dtype("utf-8")
    with h5py.File(path, "w", libver="earliest", track_order=False) as file:
        options: Dict[str, Any] = {"shape": (count,), "track_times": False}
        images = file.create_dataset("images", dtype=encoded, **options)
        labels = file.create_dataset("labels", dtype=np.int64, **options)
        keys = file.create_dataset("keys", dtype=text, **options)
        row = 0
        for samples in _batches(spool):
            place = slice(row, row + len(samples))
            block = np.empty(len(samples), dtype=encoded)
            names = np.empty(len(samples), dtype=object)
            for number, (_, key, data) in enumerate(samples):
                block[number] = np.frombuffer(data, dtype=np.uint8)
                names[number] = key
            _write_rows(images, row, block)
            labels[place] = [label for label, _, _ in samples]
            keys[place] = names
            row += len(samples)


def _write_rows(dataset: Any, row: int, block: np.ndarray) -> None:
    """As `dataset[row:...] = block`, which takes arrays of one length for rows of a table."""
    memory = h5py.h5s.create_simple(block.shape)
    file = dataset.id.get_space()
    file.select_hyperslab((row,), block.shape)
    dataset.id.write(memory, file, block, mtype=h5py.h5t.py_create(dataset.dtype))


def _batches(spool: BinaryIO) -> Iterator[List[Tuple[int, bytes, bytes]]]:
    batch: List[Tuple[int, bytes, bytes]] = []
    held = 0
    while True:
        head = spool.read(_HEAD.size)
        if head:
            label, key_size, size = _HEAD.unpack(head)
            batch.append((label, spool.read(key_size), spool.read(size)))
            held += size
        if batch and (not head or len(batch) == _ROWS or held > _COPY_BYTES):
            yield batch
            batch, held = [], 0
        if not head:
            return


def _check_room(folder: Path, size: int) -> None:
    """The library may hang or abort on a full disk, so it is not let run into one."""
    info = os.statvfs(folder)
    if info.f_bavail * info.f_frsize < size + size // 50:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _os_error(error: Exception, path: Path) -> OSError:
    """HDF5's exceptions have the system's number in their text alone."""
    text = str(error)
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        if f"errno = {number}" in text or os.strerror(number) in text:
            return OSError(number, os.strerror(number), str(path))
    return OSError(getattr(error, "errno", None) or errno.EIO, text, str(path))


def _path(target: Target) -> Path:
    return target.folder / f"{target.split}.h5"


def _spool(target: Target) -> Path:
    return target.folder / f".{target.split}.spool"
