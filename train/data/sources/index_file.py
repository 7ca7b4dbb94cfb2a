"""The bytes of an index file: written beside and renamed, mapped and checked when read.

Layout: magic, version, length and CRC of the header, CRC of the arrays; the header (JSON); the
arrays, each aligned to 64 bytes.
"""

import ctypes
import hashlib
import json
import mmap
import os
import secrets
import stat
import struct
import tempfile
import weakref
import zlib
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from train.errors import DataError
from train.files import never_wait

VERSION = 1
_MAGIC = b"wf-index"
_START = struct.Struct("<8sIIII")
_ALIGN = 64
_DTYPES = frozenset(("|u1", "<u4", "<i4", "<u8", "<i8", "<f4", "<f8"))
_MAX_HEADER = 1 << 24


class Header(NamedTuple):
    """What the JSON of an index file says; `arrays` has (dtype, shape, position) by name."""

    id: str
    kind: str
    fingerprint: Tuple[int, int]
    options: Dict[str, Any]
    meta: Dict[str, Any]
    arrays: Dict[str, Tuple[str, Tuple[int, ...], int]]
    size: int


def places(container: str) -> List[str]:
    """Where the index may lie, best first: beside, in the user's cache, in the temporary folder."""
    name = hashlib.sha256(os.fsencode(container)).hexdigest()[:16] + "-"
    name += os.path.basename(container)[-100:] + ".index"
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    scratch = os.path.join(tempfile.gettempdir(), f"wellfed-{os.geteuid()}")
    found = [container + ".index", os.path.join(os.path.abspath(cache), "wellfed", name)]
    # Anybody may make a folder of that name in the temporary folder, and put a wrong index there.
    return found + ([os.path.join(scratch, name)] if _is_private(scratch) else [])


def _is_private(folder: str) -> bool:
    try:
        info = os.lstat(folder)
    except FileNotFoundError:
        return True  # it will be made, for this user alone
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o022


def pack(
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


def write_somewhere(places: List[str], blocks: List[bytes]) -> Tuple[str, List[str]]:
    """Write to the first place that takes it."""
    reasons = []
    for place in places:
        folder = os.path.dirname(place)
        try:
            if place != places[0]:
                os.makedirs(folder, mode=0o700, exist_ok=True)
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


def read(path: str, check: bool) -> Optional[Tuple[Header, Dict[str, np.ndarray]]]:
    """Map an index file; None where there is none that can be used.

    Args:
        path: the file.
        check: compare the arrays with their CRC too, which reads all of them (70 MB for 1.3
            million records).
    """
    try:
        with open(path, "rb", opener=never_wait) as file:
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
    except (OSError, ValueError, TypeError, KeyError, AttributeError, struct.error):
        return None
    except (OverflowError, RecursionError):  # numbers and depths that only damage has
        return None


def _header(values: Dict[str, Any]) -> Header:
    arrays = {}
    for name, (dtype, shape, position) in values["arrays"].items():
        if dtype not in _DTYPES:
            raise ValueError(dtype)
        arrays[str(name)] = (dtype, tuple(int(n) for n in shape), int(position))
    size, mtime = values["fingerprint"]
    return Header(
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
