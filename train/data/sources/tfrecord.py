"""TFRecord files of tf.train.Example, read without TensorFlow.

A record is its length (uint64), that number's checksum, the message, the message's checksum. The
lengths are checked when the file is indexed, the messages when they are read.
"""

import os
import struct
from array import array
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from train.data.sources.crc32c import crc32c, masked
from train.data.sources.example import Features, Malformed, Span, example, locate
from train.data.sources.handles import Stamp, read_at
from train.data.sources.index import Built, Index, Progress, open_index
from train.data.sources.index_check import Needs
from train.data.sources.names import Names, decode
from train.data.sources.scanner import Scanner
from train.data.sources.shards import (
    Opened,
    ShardSource,
    collect,
    pack_skipped,
    refuse_labels,
)
from train.data.sources.skipped import MAX_FILE_BYTES, Skipped
from train.errors import BadSample, DataError

USUAL = Features()
_LENGTH = struct.Struct("<QI")
_CHECK = struct.Struct("<I")
MOST_KEY = 4096
_COLUMNS = ("offsets", "lengths", "image_starts", "image_lengths", "labels")
_NEEDS = Needs(columns=_COLUMNS, names=("keys", "skipped"), meta={"notes": (list, str)})


class TFRecordSource(ShardSource):
    """Image records of TFRecord files."""

    def _read(self, index: Index, row: int) -> Any:
        offset, length = int(index["offsets"][row]), int(index["lengths"][row])
        data = read_at(
            index.container, offset, length + _CHECK.size, stamp=Stamp(*index.fingerprint)
        )
        view = memoryview(data)
        (expected,) = _CHECK.unpack_from(data, length)
        if masked(view[:length]) != expected:
            raise BadSample(
                f"checksum error: the record at byte {offset - _LENGTH.size:,} of "
                f"{index.container!r} is damaged"
            )
        start = int(index["image_starts"][row])
        return view[start : start + int(index["image_lengths"][row])]


def open_tfrecord(
    paths: Sequence[str],
    num_classes: Optional[int] = None,
    progress: Optional[Progress] = None,
    features: Features = USUAL,
    first_label: int = 0,
) -> Opened:
    """Open TFRecord files as one source, in the order of their names.

    Args:
        paths: of the files.
        num_classes: how many classes there are; None: not known.
        progress: called with the number of images found so far, when a file has no index yet.
        features: how the features are called.
        first_label: what the file calls class 0; ImageNet's own scripts count from 1.

    Raises:
        DataError: a file that is no TFRecord file, or can't be read.
    """
    options = {"features": list(features), "first_label": first_label}

    def opener(path: str, told: Optional[Progress]) -> Index:
        return open_index(
            path,
            "tfrecord",
            lambda call: _build(path, features, first_label, call),
            progress=told,
            options=options,
            needs=_NEEDS,
        )

    indexes, skipped, notes = collect(sorted(paths, key=os.fsencode), opener, progress)
    crc32c(bytes(64))  # loads the compiled kernel here, so that forked workers share it
    source = TFRecordSource(indexes)
    return Opened(refuse_labels(source, num_classes, skipped), skipped, notes)


def encode_record(image: bytes, label: int, key: bytes, features: Features = USUAL) -> bytes:
    """One image as a whole record, with both checksums, ready to be appended to a file."""
    message = example({features.image: image, features.label: label, features.key: key})
    length = struct.pack("<Q", len(message))
    return b"".join((length, _CHECK.pack(masked(length)), message, _CHECK.pack(masked(message))))


class _Rows:
    """The columns of the index, as they grow."""

    def __init__(self) -> None:
        self.keys: List[str] = []
        self.columns = {name: array("q") for name in _COLUMNS}

    def add(self, key: str, *values: int) -> None:
        """Add a row: the key, then a value for each column."""
        self.keys.append(key)
        for column, value in zip(self.columns.values(), values):
            column.append(value)

    def arrays(self) -> Dict[str, np.ndarray]:
        """All of them, int64 (N,), and the keys."""
        columns = {name: np.asarray(c, dtype=np.int64) for name, c in self.columns.items()}
        return {**columns, **Names.of(self.keys).arrays("keys")}


def _build(path: str, features: Features, first_label: int, progress: Optional[Progress]) -> Built:
    """Scan one file."""
    rows, skipped, notes = _Rows(), [], []
    with Scanner(path) as scan:
        if scan.size == 0:
            notes.append("the file is empty (0 bytes)")
        for number, span in enumerate(_records(scan, notes)):
            key, problem, values = _describe(scan, span, number, features)
            if problem is not None:
                detail = f"record {number}, byte {span.start - _LENGTH.size:,}: {problem[1]}"
                skipped.append(Skipped(key, problem[0], detail))
                continue
            start, end, label = values
            size = span.end - span.start
            label = max(label - first_label, -(1 << 63))  # no class either way, but a number
            rows.add(key, span.start, size, start - span.start, end - start, label)
            if progress is not None and len(rows.keys) % 1000 == 0:
                progress(len(rows.keys))
    return {**rows.arrays(), **pack_skipped(skipped)}, {"notes": notes}


def _records(scan: Scanner, notes: List[str]) -> Any:
    """Yield the place of each message; what is wrong with the file goes to `notes`."""
    position, number = 0, 0
    while position < scan.size:
        head = scan.read(position, _LENGTH.size)
        left = scan.size - position - len(head) - _CHECK.size
        where = f"at byte {position:,} of {scan.size:,} (record {number})"
        if len(head) < _LENGTH.size:
            notes.append(f"the file is cut off {where}")
            return
        length, check = _LENGTH.unpack(head)
        if masked(head[:8]) != check:
            if position == 0:
                raise DataError(scan.not_of_kind("TFRecord file"))
            notes.append(f"the checksum of a length fails {where}; what follows is left out")
            return
        if length > left:
            notes.append(
                f"a record of {length:,} bytes {where}, and only {max(left, 0):,} are left: the "
                "file is cut off; what follows is left out"
            )
            return
        start = position + _LENGTH.size
        yield Span(start, start + length)
        position, number = start + length + _CHECK.size, number + 1


def _describe(
    scan: Scanner, span: Span, number: int, features: Features
) -> Tuple[str, Optional[Tuple[str, str]], Tuple[int, int, int]]:
    """Key, problem (reason, detail) or None, and (first byte of the image, end, label)."""
    key = f"{os.path.basename(scan.path)}:{number:08}"
    none = (0, 0, 0)
    if span.end - span.start > MAX_FILE_BYTES:
        return key, ("too_large", f"{(span.end - span.start) >> 20} MiB"), none
    try:
        found = locate(scan.read, span, tuple(features))
    except Malformed as error:
        return key, ("damaged", f"no tf.train.Example: {error}"), none
    image, label, name = (found.get(feature) for feature in features)
    if isinstance(name, Span) and 0 < name.end - name.start <= MOST_KEY:
        key = decode(scan.read(name.start, name.end - name.start))
    if not isinstance(image, Span):
        return key, ("no_image", f"no bytes under {features.image!r}"), none
    if not isinstance(label, int):
        return key, ("no_label", f"no whole number under {features.label!r}"), none
    return key, None, (image.start, image.end, label)
