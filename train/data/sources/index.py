"""The index file beside a container: where each record lies, its label and its key.

A container is read through once; from then on its index is opened by mmap, in milliseconds, and
workers share its pages. It is never trusted: a file that is torn, damaged, of another container or
older than its container is built again.

Layout: magic, version, length and CRC of the header, CRC of the arrays; the header (JSON); the
arrays, each aligned to 64 bytes.
"""

import ctypes
import hashlib
import json
import mmap
import os
import secrets
import struct
import tempfile
import weakref
import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from train.data.sources.names import Names
from train.errors import DataError

Progress = Callable[[int], None]
"""Called with the number of records found so far."""

Built = Tuple[Dict[str, np.ndarray], Dict[str, Any]]
"""What a builder returns: arrays by name, and a small dict that JSON can hold."""

VERSION = 1
_MAGIC = b"wf-index"
_START = struct.Struct("<8sIIII")
_ALIGN = 64
_DTYPES = frozenset(("|u1", "<u4", "<i4", "<u8", "<i8", "<f4", "<f8"))
_MAX_HEADER = 1 << 24


class _Header(NamedTuple):
    """What the JSON of an index file says; `arrays` has (dtype, shape, position) by name."""

    id: str
    kind: str
    fingerprint: Tuple[int, int]
    options: Dict[str, Any]
    meta: Dict[str, Any]
    arrays: Dict[str, Tuple[str, Tuple[int, ...], int]]
    size: int


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
            found = _read(self.path, check=False)
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
) -> Index:
    """Open a container's index; build and write it where there is none that fits.

    Args:
        container: the file (for LMDB its data.mdb); the index is `<container>.index`.
        kind: "tar", "tfrecord" ...; an index of another kind does not fit.
        build: called with `progress`, returns arrays and a small dict (JSON).
        progress: called with the number of records found so far.
        options: whatever else the content depends on; an index made with others does not fit.

    Raises:
        DataError: no such container, it changes while it is read, or the index can't be kept
            anywhere.
    """
    container = os.path.abspath(container)
    fingerprint = fingerprint_of(container)
    options = json.loads(json.dumps(options or {}))  # tuples become lists, as in the file
    places = _places(container)
    stale = ""
    for path in places:
        found = _read(path, check=True)
        if found is None:
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
    blocks = _pack(identity, kind, fingerprint, options, meta, arrays)
    path, notes = _write_somewhere(places, blocks)
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


def _places(container: str) -> List[str]:
    """Where the index may lie, best first: beside, in the user's cache, in the temporary folder."""
    name = hashlib.sha256(os.fsencode(container)).hexdigest()[:16] + "-"
    name += os.path.basename(container)[-100:] + ".index"
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    scratch = os.path.join(tempfile.gettempdir(), f"wellfed-{os.geteuid()}")
    return [
        container + ".index",
        os.path.join(os.path.abspath(cache), "wellfed", name),
        os.path.join(scratch, name),
    ]


def _pack(
    identity: str,
    kind: str,
    fingerprint: Tuple[int, int],
    options: Dict[str, Any],
    meta: Dict[str, Any],
    arrays: Dict[str, np.ndarray],
) -> List[bytes]:
    """The whole file, in pieces."""
    entries: Dict[str, Any] = {}
    blocks: List[bytes] = []
    position = 0
    for name, array in arrays.items():
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        if array.dtype.str not in _DTYPES:
            raise TypeError(f"an index can't hold {array.dtype} ({name})")
        entries[name] = [array.dtype.str, list(array.shape), position]
        padding = bytes(-array.nbytes % _ALIGN)
        blocks += [array.tobytes(), padding]
        position += array.nbytes + len(padding)
    header = json.dumps(
        {
            "id": identity,
            "kind": kind,
            "fingerprint": fingerprint,
            "options": options,
            "meta": meta,
            "arrays": entries,
            "size": position,
        }
    ).encode()
    header += b" " * (-(_START.size + len(header)) % _ALIGN)
    crc = 0
    for block in blocks:
        crc = zlib.crc32(block, crc)
    start = _START.pack(_MAGIC, VERSION, len(header), zlib.crc32(header), crc)
    return [start, header, *blocks]


def _write_somewhere(places: List[str], blocks: List[bytes]) -> Tuple[str, List[str]]:
    """Write to the first place that takes it."""
    reasons = []
    for place in places:
        folder = os.path.dirname(place)
        try:
            if place != places[0]:
                os.makedirs(folder, mode=0o700, exist_ok=True)
                info = os.lstat(folder)
                if place == places[-1] and (info.st_uid != os.geteuid() or info.st_mode & 0o022):
                    raise OSError(0, "belongs to another user")  # a trap in a shared folder
            _write(place, blocks)
        except OSError as error:
            reasons.append(f"{folder!r}: {error.strerror}")
            continue
        if reasons:
            return place, [f"note: the index can't be kept in {reasons[0]}; kept in {folder!r}"]
        return place, []
    raise DataError(
        f"the index can't be written anywhere ({'; '.join(reasons)}); "
        "make one of these folders writable, or set XDG_CACHE_HOME"
    )


def _write(path: str, blocks: List[bytes]) -> None:
    """Write beside, fsync, rename: whoever reads finds the old file or the whole new one."""
    beside = f"{path}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        with open(beside, "xb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        try:
            os.unlink(beside)
        except OSError:
            pass
        raise


def _read(path: str, check: bool) -> Optional[Tuple[_Header, Dict[str, np.ndarray]]]:
    """Map an index file; None where there is none that can be used.

    Args:
        path: the file.
        check: compare the arrays with their CRC too, which reads all of them (70 MB for 1.3
            million records).
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            magic, version, length, crc, arrays_crc = _START.unpack(file.read(_START.size))
            if magic != _MAGIC or version != VERSION or length > min(_MAX_HEADER, size):
                return None
            raw = file.read(length)
            if len(raw) != length or zlib.crc32(raw) != crc:
                return None
            header = _header(json.loads(raw))
            start = _START.size + length
            if size != start + header.size:
                return None
            block = _map(file.fileno(), size)[start:]
        if check and zlib.crc32(block.data) != arrays_crc:
            return None
        arrays = {}
        for name, (dtype, shape, position) in header.arrays.items():
            count = int(np.prod(shape, dtype=np.int64))
            array = block[position : position + count * np.dtype(dtype).itemsize].view(dtype)
            arrays[name] = array.reshape(shape)
        return header, arrays
    except (OSError, ValueError, TypeError, KeyError, struct.error):
        return None


def _header(values: Dict[str, Any]) -> _Header:
    arrays = {}
    for name, (dtype, shape, position) in values["arrays"].items():
        if dtype not in _DTYPES:
            raise ValueError(dtype)
        arrays[str(name)] = (dtype, tuple(int(n) for n in shape), int(position))
    size, mtime = values["fingerprint"]
    return _Header(
        str(values["id"]),
        str(values["kind"]),
        (int(size), int(mtime)),
        dict(values["options"]),
        dict(values["meta"]),
        arrays,
        int(values["size"]),
    )


def _map(descriptor: int, size: int) -> np.ndarray:
    """Map a file, uint8 (size,), read-only.

    Python's own mmap keeps a descriptor open for each mapping, and a thousand shards would use up
    all that a process may have; the C library's call keeps none.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    ]
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    class Mapping(ctypes.c_uint8 * size):  # type: ignore[misc]
        """A class of its own, so that the end of its life can be watched."""

    mapping = Mapping.from_address(address)
    unmap = weakref.finalize(mapping, libc.munmap, address, size)
    unmap.atexit = False  # type: ignore[misc]  # a thread may still read while Python ends
    array = np.frombuffer(mapping, dtype=np.uint8)
    array.flags.writeable = False
    return array
