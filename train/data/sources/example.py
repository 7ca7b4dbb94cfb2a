"""The part of protobuf that an image record needs: tf.train.Example, read and written.

Source: the Protocol Buffers encoding guide; tensorflow/core/example/{example,feature}.proto.

```
Example  { 1: Features }      Features { 1: entry, repeated }      entry { 1: name, 2: Feature }
Feature  { 1: BytesList | 2: FloatList | 3: Int64List }            ...List { 1: value, repeated }
```
"""

from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from train.data.sources.names import encode

Read = Callable[[int, int], bytes]

_MOST_FIELDS = 10_000
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


class Malformed(ValueError):
    """These bytes are no protobuf message."""


class Features(NamedTuple):
    """How the features of an image record are called.

    Attributes:
        image: the encoded image, bytes.
        label: the class number, int64.
        key: the record's name, bytes; it may be missing.
    """

    image: str = "image/encoded"
    label: str = "image/class/label"
    key: str = "image/filename"


class Span(NamedTuple):
    """A value's place: the first byte, and one past the last."""

    start: int
    end: int


def locate(read: Read, span: Span, names: Tuple[str, ...]) -> Dict[str, Union[Span, int]]:
    """Find features in an Example without reading the large ones.

    Args:
        read: gives up to n bytes from a place.
        span: where the message lies.
        names: of the features that are wanted.

    Returns:
        For each that is there and not empty its first value: an int64 as it is, bytes as their
        place.

    Raises:
        Malformed: no Example.
    """
    found: Dict[str, Union[Span, int]] = {}
    budget = [_MOST_FIELDS]
    wanted = {encode(name): name for name in names}
    for features in _children(read, span, 1, budget):
        for entry in _children(read, features, 1, budget):
            name: Optional[str] = None
            feature: Optional[Span] = None
            for number, value in _fields(read, entry, budget):
                if number == 1 and isinstance(value, Span):
                    size = value.end - value.start
                    name = wanted.get(read(value.start, size)) if size <= 256 else None
                elif number == 2 and isinstance(value, Span):
                    feature = value
            if name is not None and feature is not None:
                first = _first(read, feature, budget)
                if first is not None:
                    found[name] = first  # of two entries of one name, protobuf takes the last
    return found


def example(features: Dict[str, Union[bytes, int]]) -> bytes:
    """Encode an Example whose features have one value each, bytes or an int64."""
    entries: List[bytes] = []
    for name, value in features.items():
        if isinstance(value, int):
            packed = _varint(value & (1 << 64) - 1)
            feature = _field(3, _field(1, packed))
        else:
            feature = _field(1, _field(1, value))
        entries.append(_field(1, _field(1, encode(name)) + _field(2, feature)))
    return _field(1, b"".join(entries))


def _first(read: Read, feature: Span, budget: List[int]) -> Union[Span, int, None]:
    """The first value of a bytes or int64 list."""
    for kind, values in _fields(read, feature, budget):
        if kind not in (1, 3) or not isinstance(values, Span):
            continue
        for number, value in _fields(read, values, budget):
            if number != 1:
                continue
            if kind == 3 and isinstance(value, Span):  # packed: the numbers without tags
                if value.start == value.end:
                    continue
                value, _ = _take_varint(read(value.start, min(10, value.end - value.start)), 0)
            if kind == 1 and isinstance(value, Span):
                return value
            if kind == 3 and isinstance(value, int):
                return value - (1 << 64) if value >= 1 << 63 else value
    return None


def _children(read: Read, span: Span, number: int, budget: List[int]) -> Iterator[Span]:
    """The messages that stand under one number."""
    for found, value in _fields(read, span, budget):
        if found == number and isinstance(value, Span):
            yield value


def _fields(read: Read, span: Span, budget: List[int]) -> Iterator[Tuple[int, Union[Span, int]]]:
    """(number, value) of each field: whole numbers as they are, bytes by their place."""
    position, end = span
    while position < end:
        budget[0] -= 1
        if budget[0] < 0:
            raise Malformed(f"more than {_MOST_FIELDS} fields")
        chunk = read(position, min(20, end - position))
        tag, used = _take_varint(chunk, 0)
        wire = tag & 7
        if wire == _VARINT:
            value, used = _take_varint(chunk, used)
            yield tag >> 3, value
            position += used
            continue
        if wire == _BYTES:
            size, used = _take_varint(chunk, used)
        elif wire in (_EIGHT, _FOUR):
            size = 8 if wire == _EIGHT else 4
        else:
            raise Malformed(f"a field of unknown type {wire}")
        start = position + used
        position = start + size
        if position > end:
            raise Malformed("a field is longer than its message")
        if wire == _BYTES:
            yield tag >> 3, Span(start, position)


def _take_varint(data: bytes, position: int) -> Tuple[int, int]:
    """Read a number of 7 bits a byte; gives it and the position after it."""
    value = 0
    for count, byte in enumerate(data[position : position + 10]):
        value |= (byte & 127) << (7 * count)
        if byte < 128:
            return value & (1 << 64) - 1, position + count + 1
    raise Malformed("a number has no end")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value
