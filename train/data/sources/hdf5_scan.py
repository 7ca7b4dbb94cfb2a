"""Reads through an HDF5 file once: what it holds, and where each record lies in the file.

Run in a child by probe.py, so it imports nothing of this package. Records that the library stores
as they are get a place (offset, size), and need no library later: contiguous arrays, uncompressed
chunks, and variable-length records, whose bytes lie in the file's global heap (HDF5 File Format
Specification 3.0, III.E). What is compressed stays with the library.
"""

import math
import os
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

LAYOUTS = (
    "expected 'images' as encoded files (uint8 of variable length) or as pixels (uint8, N x height "
    "x width x 3), and 'labels' (N whole numbers)"
)
MOST_BYTES = 1 << 30
"""A record, or the chunk that it is compressed in; 358 megapixels of raw colour."""

_EVERY = 1000
_HEAP_HEADER, _OBJECT_HEADER = 16, 16


class Damaged(Exception):
    """The file can't be read; the message says what the library said."""


class Refused(Exception):
    """The file is sound, but of a layout that can't be used; the message says which."""


def scan(path: str, report: Callable[[int], None]) -> Tuple[Dict[str, np.ndarray], Dict[str, Any]]:
    """Index a file.

    Args:
        path: of the file.
        report: called with the number of records found so far.

    Returns:
        Arrays (labels; keys and keys_ends; offsets and sizes where records have places), and what
        else the source must know.
    """
    import h5py

    try:
        with h5py.File(path, "r", locking=False) as file, open(path, "rb", buffering=0) as raw:
            return _scan(h5py, file, raw.fileno(), report)
    except (Damaged, Refused, ImportError):
        raise
    except Exception as error:  # h5py passes on whatever the C library made of the damage
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Damaged(f"HDF5 says: {text}") from None


def _scan(
    h5py: Any, file: Any, descriptor: int, report: Callable[[int], None]
) -> Tuple[Dict[str, np.ndarray], Dict[str, Any]]:
    found = ", ".join(f"{name!r}" for name in list(file)[:10]) or "nothing"
    for name in ("images", "labels"):
        if not isinstance(file.get(name), h5py.Dataset):
            raise Refused(f"it has no data set {name!r}; {LAYOUTS}; found {found}")
    images, labels = file["images"], file["labels"]
    layout = _layout(h5py, images)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise Refused(f"'labels' is {labels.dtype} {labels.shape}, expected N whole numbers")
    count, size = len(images), os.fstat(descriptor).st_size
    if count > size:
        raise Damaged(f"it says that it has {count:,} records, in {size:,} bytes")
    piece = _piece_bytes(images)
    if piece > MOST_BYTES:
        raise Refused(f"one image takes {piece:,} bytes to read, more than {MOST_BYTES:,}")
    if len(labels) != count:
        raise Refused(f"it has {count} images and {len(labels)} labels, expected as many")
    arrays = {"labels": labels[...].astype(np.int64), **_keys(h5py, file, count)}
    places = _places(file, images, layout, descriptor, report)
    if places is not None and _agree(images, places, descriptor):
        arrays["offsets"], arrays["sizes"] = places
    else:
        for index in sorted({0, count // 2, count - 1}) if count else ():
            _probe_record(images, index)
    chunks = images.chunks or ()
    shape = [] if layout == "encoded" else list(images.shape[1:])
    meta = {
        "layout": layout,
        "shape": shape,
        "chunk": int(chunks[0]) if chunks else 0,
        "compressed": images.compression or ("filtered" if _filtered(images) else ""),
    }
    return arrays, meta


def _piece_bytes(images: Any) -> int:
    """What the library takes into memory to read one record."""
    row = math.prod(images.shape[1:]) * images.dtype.itemsize
    chunk = math.prod(images.chunks) * images.dtype.itemsize if images.chunks else 0
    return max(row, chunk)


def _layout(h5py: Any, images: Any) -> str:
    """What `images` holds: "encoded", or pixels as "hwc" or "chw"."""
    base = h5py.check_vlen_dtype(images.dtype)
    text = base is None or isinstance(base, type)  # str or bytes: a string type
    if not text and base == np.uint8 and images.ndim == 1:
        return "encoded"
    if images.dtype == np.uint8 and images.ndim == 4:
        if images.shape[3] == 3:
            return "hwc"
        if images.shape[1] == 3:
            return "chw"
    kind = f"{base} of variable length" if base is not None else f"{images.dtype}"
    raise Refused(f"'images' is {kind} {images.shape}; {LAYOUTS}")


def _keys(h5py: Any, file: Any, count: int) -> Dict[str, np.ndarray]:
    keys = file.get("keys")
    if keys is None:
        return {}
    if h5py.check_string_dtype(keys.dtype) is None or keys.shape != (count,):
        raise Refused(f"'keys' is {keys.dtype} {keys.shape}, expected {count} strings")
    names = []
    for start in range(0, count, 10_000):
        names += [bytes(name) for name in keys[start : start + 10_000]]
    blob = np.frombuffer(b"".join(names), dtype=np.uint8)
    return {"keys": blob, "keys_ends": np.cumsum([len(name) for name in names], dtype=np.int64)}


def _filtered(dataset: Any) -> bool:
    return dataset.id.get_create_plist().get_nfilters() > 0


def _places(
    file: Any, images: Any, layout: str, descriptor: int, report: Callable[[int], None]
) -> Optional[Tuple[np.ndarray, np.ndarray]]:
    """Offset and size of each record; None where only the library can read them."""
    plist = file.id.get_create_plist()
    if _filtered(images) or plist.get_userblock() or plist.get_sizes() != (8, 8):
        return None
    width = 16 if layout == "encoded" else int(np.prod(images.shape[1:], dtype=np.int64))
    starts = _row_starts(images, width)
    if starts is None:
        return None
    if layout != "encoded":
        return starts, np.full(len(starts), width, dtype=np.int64)
    return _heap_places(starts, descriptor, report)


def _row_starts(dataset: Any, width: int) -> Optional[np.ndarray]:
    """Where each row of a data set begins; None where a row is not stored in one piece."""
    rows = np.arange(len(dataset), dtype=np.int64)
    if dataset.chunks is None:
        offset = dataset.id.get_offset()
        return None if offset is None or dataset.is_virtual else offset + rows * width
    depth = dataset.chunks[0]
    if dataset.chunks[1:] != dataset.shape[1:]:
        return None
    chunks = np.full(-(-len(rows) // depth), -1, dtype=np.int64)

    def note(info: Any) -> None:
        chunks[info.chunk_offset[0] // depth] = info.byte_offset

    if hasattr(dataset.id, "chunk_iter"):
        dataset.id.chunk_iter(note)
    else:  # an older library: by coordinate, since by number each look-up reads from the start
        for number in range(len(chunks)):
            where = (number * depth, *[0] * (dataset.ndim - 1))
            note(dataset.id.get_chunk_info_by_coord(where))
    if (chunks < 0).any():
        return None  # never written: the library gives the fill value
    return chunks[rows // depth] + rows % depth * width


def _heap_places(
    starts: np.ndarray, descriptor: int, report: Callable[[int], None]
) -> Optional[Tuple[np.ndarray, np.ndarray]]:
    """Follow the references of variable-length records into the global heap."""
    offsets = np.zeros(len(starts), dtype=np.int64)
    sizes = np.zeros(len(starts), dtype=np.int64)
    heaps: Dict[int, Dict[int, Tuple[int, int]]] = {}
    for row, start in enumerate(starts.tolist()):
        reference = os.pread(descriptor, 16, start)
        if len(reference) < 16:
            raise Damaged(f"record {row} lies beyond its end")
        length = int.from_bytes(reference[:4], "little")
        heap = int.from_bytes(reference[4:12], "little")
        number = int.from_bytes(reference[12:], "little")
        if length:
            if heap not in heaps:
                if len(heaps) > 64:  # records of one heap follow each other
                    heaps.clear()
                heaps[heap] = _heap(descriptor, heap)
            place = heaps[heap].get(number)
            if place is None or place[1] < length:
                raise Damaged(f"record {row} is not where the file says")
            offsets[row], sizes[row] = place[0], length
        if row % _EVERY == 0:
            report(row)
    return offsets, sizes


def _heap(descriptor: int, address: int) -> Dict[int, Tuple[int, int]]:
    """Offset and size of each object of one collection of the global heap."""
    header = os.pread(descriptor, _HEAP_HEADER, address) if address < 1 << 62 else b""
    if header[:5] != b"GCOL\1":
        raise Damaged(f"there is no heap at byte {address:,}")
    end = address + int.from_bytes(header[8:16], "little")
    places, position = {}, address + _HEAP_HEADER
    while position + _OBJECT_HEADER <= end:
        header = os.pread(descriptor, _OBJECT_HEADER, position)
        number, size = int.from_bytes(header[:2], "little"), int.from_bytes(header[8:], "little")
        if number == 0:  # what is left free
            break
        places[number] = (position + _OBJECT_HEADER, size)
        position += _OBJECT_HEADER + (size + 7) // 8 * 8
    return places


def _agree(images: Any, places: Tuple[np.ndarray, np.ndarray], descriptor: int) -> bool:
    """Whether the library reads the same as we do, for a few records over the whole file."""
    count, size = len(images), os.fstat(descriptor).st_size
    if count and int((places[0] + places[1]).max()) > size:
        raise Damaged(f"records lie beyond its end; the file has {size:,} bytes")
    for index in sorted({0, 1, count // 3, count // 2, count - 2, count - 1}):
        if 0 <= index < count:
            ours = os.pread(descriptor, int(places[1][index]), int(places[0][index]))
            if np.asarray(images[index], dtype=np.uint8).tobytes() != ours:
                return False
    return True


def _probe_record(images: Any, index: int) -> None:
    """Read one record: whether this kills the process is what we want to know."""
    try:
        images[index]
    except OSError:
        pass  # a damaged value is a bad sample, named when it is met
