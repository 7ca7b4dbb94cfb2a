"""LMDB: key `%08d`, value = label (uint32, little-endian) + the encoded image.

`__len__` (ASCII) says how many there should be; `__keys__`, where it exists, has their names, one a
line. Databases that hold Python pickles instead are read only when they are trusted.
"""

import os
import pickle
import re
import struct
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from train.data.sources import BAD_LABEL, Record
from train.data.sources.handles import Stamp, StoredFile, stored_file
from train.data.sources.index import Built, Index, Progress, open_index
from train.data.sources.lmdb_tree import Damaged, Value, walk
from train.data.sources.names import Names, decode
from train.errors import BadSample, DataError

_LABEL = struct.Struct("<I")
_EVERY = 1000
_SHOWN = 5
_LISTED = 1000
_PICKLE = "holds Python pickles; reading them could run code that came with the data"
_TRUST = "set data.trust=true if you trust whoever made it, or pack the data again"


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

    def __getitem__(self, index: int) -> Record:
        key = self.names[index]
        arrays = self.index.arrays
        offset, size = int(arrays["offsets"][index]), int(arrays["sizes"][index])
        label = int(arrays["labels"][index])
        file = stored_file(self.index.container, self._stamp)
        if self.index.meta["pickled"]:
            if not self.trust:  # an index that lies beside the data may say anything
                raise BadSample(f"the value {_PICKLE}; {_TRUST}")
            return Record(_unpickled(file.read(offset, size))[0], label, key)
        if label == BAD_LABEL:
            raise BadSample(_why_unusable(file.read(offset, size)))
        return Record(file.read(offset + _LABEL.size, size - _LABEL.size), label, key)


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
        return _build(file, trust, progress)

    index = open_index(file, "lmdb", build, progress, {"trust": trust})
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


def _build(path: str, trust: bool, progress: Optional[Progress]) -> Built:
    try:
        file = StoredFile(path)
        special: Dict[bytes, bytes] = {}
        found = _Found()
        for value in walk(file.descriptor):
            if value.key.startswith(b"__") and value.key.endswith(b"__"):
                special[value.key] = file.read(value.offset, value.size)
                continue
            found.add(value)
            if progress is not None and len(found.sizes) % _EVERY == 0:
                progress(len(found.sizes))
        if _looks_pickled(special.get(b"__len__", b"")) or _looks_pickled(
            special.get(b"__keys__", b"")
        ):
            if not trust:
                raise DataError(f"{path!r} {_PICKLE}; {_TRUST}")
            return _pickled_arrays(file, found, special, progress)
        return _arrays(path, file, found, special, trust, progress)
    except Damaged as error:
        raise DataError(
            f"{path!r} can't be used: {error}; copy it again from where it came, or pack it again"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path!r}: {error.strerror or error}") from None


class _Found:
    """Entries of a database in three arrays; a list of objects would take ten times the memory."""

    def __init__(self) -> None:
        self.keys: List[bytes] = []
        self.offsets, self.sizes = array("q"), array("q")

    def add(self, value: Value) -> None:
        self.keys.append(value.key)
        self.offsets.append(value.offset)
        self.sizes.append(value.size)


def _arrays(
    path: str,
    file: StoredFile,
    found: _Found,
    special: Dict[bytes, bytes],
    trust: bool,
    progress: Optional[Progress],
) -> Built:
    """The index of our own layout."""
    other = next((key for key in found.keys if not re.fullmatch(rb"[0-9]{1,18}", key)), None)
    if other is not None:
        raise DataError(
            f"{path!r} has the key {decode(other)!r}, expected the numbers '00000000', '00000001' "
            "... with a label (uint32) and an encoded image each; convert it with a script of yours"
        )
    numbers = np.array([int(key) for key in found.keys], dtype=np.int64)
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    offsets = np.array(found.offsets, dtype=np.int64)[order]
    sizes = np.array(found.sizes, dtype=np.int64)[order]
    labels, pickles = _labels(file, offsets, sizes, progress)
    if pickles and pickles == len(numbers):
        if trust:
            return _pickled_arrays(file, found, special, progress)
        raise DataError(f"{path!r} {_PICKLE}; {_TRUST}")
    said = _said_length(path, special)
    absent = said - int(np.count_nonzero(numbers < said))
    # Among so many numbers the first missing ones are: `said` itself may be anything.
    first = np.setdiff1d(np.arange(min(said, len(numbers) + _LISTED)), numbers)[:_LISTED]
    names, notes = _names(special.get(b"__keys__"), numbers)
    meta = {
        "pickled": False,
        "said": said,
        "missing": ["%08d" % number for number in first],
        "missing_count": absent,
        "notes": notes,
    }
    arrays = {"offsets": offsets, "sizes": sizes, "labels": labels}
    return {**arrays, **names.arrays("keys")}, meta


def _labels(
    file: StoredFile, offsets: np.ndarray, sizes: np.ndarray, progress: Optional[Progress]
) -> Tuple[np.ndarray, int]:
    """The label of each value, and how many values look like pickles."""
    labels = np.full(len(offsets), BAD_LABEL, dtype=np.int64)
    pickles = 0
    for row, (offset, size) in enumerate(zip(offsets.tolist(), sizes.tolist())):
        if size > _LABEL.size:
            head = file.read(offset, _LABEL.size)
            # A pickle begins with 0x80 and its version: read as a label that is over 512.
            if head[:1] == b"\x80" and head[1] in (2, 3, 4, 5) and _ends_like_pickle(
                file, offset, size
            ):
                pickles += 1
            else:
                (labels[row],) = _LABEL.unpack(head)
        if progress is not None and row % _EVERY == 0:
            progress(row)
    return labels, pickles


def _said_length(path: str, special: Dict[bytes, bytes]) -> int:
    text = special.get(b"__len__", b"0").strip()
    if not re.fullmatch(rb"[0-9]{1,12}", text):
        raise DataError(f"{path!r} has {text[:20]!r} as its __len__, expected a number in ASCII")
    return int(text)


def _names(block: Optional[bytes], numbers: np.ndarray) -> Tuple[Names, List[str]]:
    """The name of each record: from `__keys__`, else its number."""
    notes = []
    if block:
        lines = block.split(b"\n")
        if len(lines) > len(numbers) and not lines[-1]:
            lines.pop()
        if not len(numbers) or len(lines) > numbers[-1]:
            # A line can't hold a line end: the writer quotes it, and the sign it quotes with.
            return Names.of([unquote(lines[number]) for number in numbers.tolist()]), notes
        notes.append(
            f"warning: __keys__ has {len(lines)} names for records up to {numbers[-1]}: not used"
        )
    return Names.of([b"%08d" % number for number in numbers.tolist()]), notes


def quote(name: bytes) -> bytes:
    """A name as a line of `__keys__`: without line ends."""
    return name.replace(b"%", b"%25").replace(b"\n", b"%0A")


def unquote(line: bytes) -> bytes:
    """The inverse of `quote`."""
    return line.replace(b"%0A", b"\n").replace(b"%25", b"%")


def _looks_pickled(value: bytes) -> bool:
    return len(value) > 2 and value[0] == 0x80 and value[1] in (2, 3, 4, 5) and value[-1:] == b"."


def _ends_like_pickle(file: StoredFile, offset: int, size: int) -> bool:
    return file.read(offset + size - 1, 1) == b"."


def _why_unusable(value: bytes) -> str:
    if _looks_pickled(value):
        return f"the value {_PICKLE}; {_TRUST}"
    return f"the value has {len(value)} bytes, expected a label of 4 bytes and an image"


def _pickled_arrays(
    file: StoredFile, found: _Found, special: Dict[bytes, bytes], progress: Optional[Progress]
) -> Built:
    """The index of a trusted database of pickles: values are (image, label), in either order."""
    order = list(range(len(found.keys)))
    if b"__keys__" in special:
        rows = {key: row for row, key in enumerate(found.keys)}
        listed = [k.encode() if isinstance(k, str) else k for k in _load(special[b"__keys__"])]
        order = [rows[key] for key in listed if key in rows]
    labels = np.full(len(order), BAD_LABEL, dtype=np.int64)
    for place, row in enumerate(order):
        try:
            labels[place] = _unpickled(file.read(found.offsets[row], found.sizes[row]))[1]
        except BadSample:
            pass  # said again when it is read
        if progress is not None and place % _EVERY == 0:
            progress(place)
    arrays = {
        "offsets": np.array(found.offsets, dtype=np.int64)[order],
        "sizes": np.array(found.sizes, dtype=np.int64)[order],
        "labels": labels,
        **Names.of([found.keys[row] for row in order]).arrays("keys"),
    }
    meta = {"pickled": True, "said": len(order), "missing": [], "missing_count": 0, "notes": []}
    return arrays, meta


def _load(value: bytes) -> Any:
    """Unpickle what the user has declared trusted."""
    try:
        return pickle.loads(value)
    except Exception as error:  # a pickle may raise anything
        raise BadSample(f"a pickle that can't be read: {type(error).__name__}: {error}") from None


def _unpickled(value: bytes) -> Tuple[Any, int]:
    """Image and label of a pickled (image, label) or (label, image)."""
    pair = _load(value)
    if isinstance(pair, dict):
        pair = tuple(pair.values())
    if isinstance(pair, (tuple, list)) and len(pair) == 2:
        for data, label in (pair, pair[::-1]):
            if isinstance(label, (int, np.integer)) and isinstance(data, (bytes, np.ndarray)):
                if isinstance(data, np.ndarray) and data.ndim == 1:
                    data = data.tobytes()  # an encoded image in an array
                return data, int(label)
    raise BadSample(f"a pickle of {type(pair).__name__}, expected an image (bytes) and its label")
