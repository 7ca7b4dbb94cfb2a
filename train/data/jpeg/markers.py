"""The segments of a JPEG: read and checked, and written.

Source: ITU-T T.81 (JPEG), annex B; JFIF 1.02; Adobe technical note 5116 (APP14).
"""

import struct
from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from train.errors import BadSample

SOI, EOI, SOS, DQT, DHT, DRI, DNL = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xDC
SOF_BASELINE, SOF_EXTENDED, SOF_PROGRESSIVE = 0xC0, 0xC1, 0xC2
APP0, APP1, APP2, APP14, APP15, COM = 0xE0, 0xE1, 0xE2, 0xEE, 0xEF, 0xFE

_OTHER_KINDS = {
    0xC3: "lossless JPEG",
    **dict.fromkeys((0xC5, 0xC6, 0xC7, 0xDE, 0xDF), "hierarchical JPEG"),
    **dict.fromkeys((0xC9, 0xCA, 0xCB, 0xCC, 0xCD, 0xCE, 0xCF), "JPEG with arithmetic coding"),
}


class Unsupported(ValueError):
    """A JPEG of a kind that is not transcoded, or oddly put together; its bytes stay as they are.

    It may well be a sound picture. The message names the kind, for people.
    """


class Component(NamedTuple):
    """One colour of a frame: identifier, sampling factors (1 to 4), number of its DQT table."""

    identifier: int
    h: int
    v: int
    table: int


class Frame(NamedTuple):
    """What SOF says."""

    progressive: bool
    width: int
    height: int
    components: Tuple[Component, ...]


class Scan(NamedTuple):
    """What SOS says.

    Attributes:
        components: indices into the frame's.
        dc, ac: number of the Huffman table of each.
        first, last: coefficients in zigzag order, 0 to 63.
        high, low: bits known before, bits still missing afterwards (progressive).
    """

    components: Tuple[int, ...]
    dc: Tuple[int, ...]
    ac: Tuple[int, ...]
    first: int
    last: int
    high: int
    low: int


def next_segment(data: bytes, position: int) -> Tuple[int, int, int]:
    """The segment that begins at `position`.

    Returns:
        Its marker, and where its payload begins and ends; both alike for EOI, which has none.

    Raises:
        BadSample: the file ends before the segment does.
        Unsupported: other bytes stand where the segment should begin.
    """
    start = position
    while position + 1 < len(data) and data[position] == 0xFF and data[position + 1] == 0xFF:
        position += 1  # fill bytes are allowed before a marker
    if position + 2 > len(data):
        raise BadSample(f"damaged JPEG of {len(data)} bytes: it ends without an end marker")
    if data[position] != 0xFF or data[position + 1] == 0:
        raise Unsupported(f"JPEG with bytes between its segments, at byte {start}")
    marker, payload = data[position + 1], position + 2
    if marker == EOI:
        return marker, payload, payload
    if marker == SOI or 0xD0 <= marker <= 0xD7 or marker < 0xC0:
        raise BadSample(
            f"damaged JPEG of {len(data)} bytes: marker 0x{marker:02x} out of place at {position}"
        )
    length = int.from_bytes(data[payload : payload + 2], "big")
    if length < 2 or payload + length > len(data):
        raise BadSample(
            f"damaged JPEG of {len(data)} bytes: segment 0x{marker:02x} at {position} "
            f"claims {length} bytes"
        )
    return marker, payload + 2, payload + length


def read_frame(marker: int, payload: bytes) -> Frame:
    """SOF.

    Raises:
        Unsupported: not 8 bits, not 1 or 3 components, not Huffman-coded, no height yet.
        BadSample: contradicts itself.
    """
    if marker in _OTHER_KINDS:
        raise Unsupported(_OTHER_KINDS[marker])
    if len(payload) < 6 or len(payload) != 6 + 3 * payload[5]:
        raise BadSample(f"damaged JPEG: frame header of {len(payload)} bytes")
    bits, height, width, count = struct.unpack(">BHHB", payload[:6])
    if bits != 8:
        raise Unsupported(f"JPEG with {bits} bits a sample")
    if count not in (1, 3):
        raise Unsupported(f"JPEG with {count} components" + (" (CMYK)" if count == 4 else ""))
    if width == 0:
        raise BadSample("damaged JPEG: width 0")
    if height == 0:
        raise Unsupported("JPEG that tells its height after its pixels (DNL)")
    parts = [
        Component(payload[at], payload[at + 1] >> 4, payload[at + 1] & 15, payload[at + 2])
        for at in range(6, len(payload), 3)
    ]
    if any(not (1 <= p.h <= 4 and 1 <= p.v <= 4 and p.table <= 3) for p in parts):
        raise BadSample("damaged JPEG: sampling factor or quantisation table out of range")
    if len({part.identifier for part in parts}) < count:
        raise Unsupported("JPEG with two components of one name")
    return Frame(marker == SOF_PROGRESSIVE, width, height, tuple(parts))


def read_scan(payload: bytes, frame: Frame) -> Scan:
    """SOS.

    Raises:
        Unsupported: a sequential scan that names less than all coefficients.
        BadSample: contradicts itself or the frame.
    """
    count = payload[0] if payload else 0
    if not 1 <= count <= len(frame.components) or len(payload) != 4 + 2 * count:
        raise BadSample(f"damaged JPEG: scan header of {len(payload)} bytes")
    known = [part.identifier for part in frame.components]
    chosen = [payload[1 + 2 * number] for number in range(count)]
    if len(set(chosen)) < count or not set(chosen) <= set(known):
        raise BadSample(f"damaged JPEG: scan of components {chosen}, the frame has {known}")
    tables = [payload[2 + 2 * number] for number in range(count)]
    first, last, precision = payload[-3:]
    high, low = precision >> 4, precision & 15
    if frame.progressive:
        sound = first <= last <= 63 and (last == 0 if first == 0 else count == 1)
        sound = sound and low <= 13 and high in (0, low + 1)
    elif (first, last, high, low) == (0, 63, 0, 0):
        sound = True
    else:
        raise Unsupported("sequential JPEG with an odd scan header")
    if not sound or any(table >> 4 > 3 or table & 15 > 3 for table in tables):
        raise BadSample(
            f"damaged JPEG: scan of coefficients {first} to {last}, bits {high} to {low}"
        )
    return Scan(
        tuple(known.index(identifier) for identifier in chosen),
        tuple(table >> 4 for table in tables),
        tuple(table & 15 for table in tables),
        first,
        last,
        high,
        low,
    )


def read_quantisers(payload: bytes, into: Dict[int, np.ndarray]) -> None:
    """DQT: number -> uint16 (64,), zigzag order.

    Raises:
        BadSample: cut short, or a number out of range.
    """
    at = 0
    while at < len(payload):
        wide, number = payload[at] >> 4, payload[at] & 15
        size = 128 if wide else 64
        if wide > 1 or number > 3 or at + 1 + size > len(payload):
            raise BadSample("damaged JPEG: quantisation table out of range")
        kind = ">u2" if wide else np.uint8
        into[number] = np.frombuffer(payload, kind, 64, at + 1).astype(np.uint16)
        at += 1 + size


def read_huffman(payload: bytes) -> List[Tuple[int, int, bytes, bytes]]:
    """DHT: tables as (class: 0 for DC and 1 for AC, number, codes of 1 to 16 bits, symbols).

    Raises:
        BadSample: cut short, a number out of range, or more codes than bits allow.
    """
    found, at = [], 0
    while at < len(payload):
        kind, number = payload[at] >> 4, payload[at] & 15
        counts = payload[at + 1 : at + 17]
        symbols = payload[at + 17 : at + 17 + sum(counts)]
        room = sum(count << (16 - bits) for bits, count in enumerate(counts, 1))
        if (
            kind > 1
            or number > 3
            or len(counts) < 16
            or len(symbols) < sum(counts)
            or len(symbols) > 256
            or room > 65536
        ):
            raise BadSample("damaged JPEG: Huffman table out of range")
        found.append((kind, number, counts, symbols))
        at += 17 + len(symbols)
    return found


def is_rgb(metadata: Sequence[Tuple[int, bytes]], identifiers: Sequence[int]) -> bool:
    """Whether three components are red, green and blue, by the rule of libjpeg."""
    if any(marker == APP0 and payload[:5] == b"JFIF\0" for marker, payload in metadata):
        return False
    for marker, payload in reversed(metadata):
        if marker == APP14 and payload[:5] == b"Adobe" and len(payload) >= 12:
            return payload[11] == 0
    return tuple(identifiers) == tuple(b"RGB")


def segment(marker: int, payload: bytes) -> bytes:
    """A segment as it stands in a file."""
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload
