"""Reads through an LMDB file once: where each record lies, its label and its name."""

import pickle
import re
import struct
from array import array
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from train.data.sources import BAD_LABEL
from train.data.sources.handles import StoredFile
from train.data.sources.index import Built, Progress
from train.data.sources.lmdb_tree import Damaged, Value, walk
from train.data.sources.names import Names, decode
from train.data.sources.pickles import unpickle
from train.errors import BadSample, DataError

LABEL = struct.Struct("<I")
PICKLED = (
    "holds Python pickles, which can run any program when they are read; if you trust whoever made "
    "them, set data.trust=code (train pack: --trust)"
)
_EVERY = 1000
_LISTED = 1000


def build_index(path: str, trust: bool, progress: Optional[Progress]) -> Built:
    """Read through a database once.

    Args:
        path: the file.
        trust: unpickle what it holds.
        progress: called with the number of records found.

    Raises:
        DataError: it is damaged, of another layout, or holds pickles and is not trusted.
    """
    try:
        file = StoredFile(path)
        special: Dict[bytes, bytes] = {}
        found = _Found()
        for value in walk(file.descriptor):
            if value.key.startswith(b"__") and value.key.endswith(b"__"):
                if value.key in special:
                    raise Damaged(f"it has the key {value.key!r} twice")
                known = value.key in (b"__len__", b"__keys__")
                special[value.key] = file.read(value.offset, value.size) if known else b""
                continue
            found.add(value)
            if progress is not None and len(found.sizes) % _EVERY == 0:
                progress(len(found.sizes))
        if looks_pickled(special.get(b"__len__", b"")) or looks_pickled(
            special.get(b"__keys__", b"")
        ):
            if not trust:
                raise DataError(f"{path!r} {PICKLED}")
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
        raise DataError(f"{path!r} {PICKLED}")
    said = _said_length(path, special)
    absent = said - int(np.count_nonzero(numbers < said))
    # Among so many numbers the first missing ones are: `said` itself may be anything.
    first = np.setdiff1d(np.arange(min(said, len(numbers) + _LISTED)), numbers)[:_LISTED]
    names, notes = _names(special.get(b"__keys__"), numbers)
    meta = {
        "pickled": False,
        "said": said,
        "missing": [f"{number:08d}" for number in first],
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
        if size > LABEL.size:
            head = file.read(offset, LABEL.size)
            # A pickle begins with 0x80 and its version: read as a label that is over 512.
            if (
                head[:1] == b"\x80"
                and head[1] in (2, 3, 4, 5)
                and _ends_like_pickle(file, offset, size)
            ):
                pickles += 1
            else:
                (labels[row],) = LABEL.unpack(head)
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
    notes: List[str] = []
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


def looks_pickled(value: bytes) -> bool:
    """Whether a value begins and ends as a pickle of protocol 2 and later does."""
    return len(value) > 2 and value[0] == 0x80 and value[1] in (2, 3, 4, 5) and value[-1:] == b"."


def _ends_like_pickle(file: StoredFile, offset: int, size: int) -> bool:
    return file.read(offset + size - 1, 1) == b"."


def _pickled_arrays(
    file: StoredFile, found: _Found, special: Dict[bytes, bytes], progress: Optional[Progress]
) -> Built:
    """The index of a trusted database of pickles: values are (image, label), in either order."""
    order = list(range(len(found.keys)))
    if b"__keys__" in special:
        rows = {key: row for row, key in enumerate(found.keys)}
        named = pickle.loads(special[b"__keys__"])
        listed = [name.encode() if isinstance(name, str) else name for name in named]
        order = [rows[key] for key in listed if key in rows]
    labels = np.full(len(order), BAD_LABEL, dtype=np.int64)
    for place, row in enumerate(order):
        try:
            labels[place] = unpickled(file.read(found.offsets[row], found.sizes[row]))[1]
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


def unpickled(value: bytes) -> Tuple[Any, int]:
    """Image and label of a trusted pickle.

    Raises:
        BadSample: it holds something else.
    """
    image, label = unpickle(value)
    if image is None or label is None:
        raise BadSample("its pickle lacks an image (bytes) or a label (a whole number)")
    if isinstance(image, np.ndarray) and image.ndim == 1:
        image = image.tobytes()  # an encoded image in an array
    return image, label
