"""The segments between the metadata and the coded bits: DQT, SOF, DHT, DRI, SOS."""

import struct
from typing import List, NamedTuple, Sequence

import numpy as np

from train.data.jpeg import markers
from train.data.jpeg.coefficients import Coefficients
from train.data.jpeg.entropy import Coded
from train.data.jpeg.markers import segment


class Tables(NamedTuple):
    """The segments as they stand in the file, and where SOF, DHT, DRI and what follows begin."""

    data: bytes
    sof: int
    dht: int
    dri: int
    scan: int


def write(picture: Coefficients, coded: Coded, restart: int) -> Tables:
    """The segments for a scan of all components.

    Args:
        picture: size, sampling and quantisers.
        coded: Huffman tables.
        restart: MCUs of a restart interval.
    """
    numbers: List[int] = []
    quantisers: List[np.ndarray] = []
    for plane in picture.planes:
        same = [np.array_equal(plane.quantiser, known) for known in quantisers]
        if not any(same):
            quantisers.append(plane.quantiser)
        numbers.append((same + [True]).index(True))
    wide = any(table.max() > 255 for table in quantisers)
    parts = [
        segment(markers.DQT, _dqt(quantisers)),
        _sof(picture, numbers, wide),
        segment(markers.DHT, _dht(coded)),
        segment(markers.DRI, struct.pack(">H", restart)),
        _sos(picture),
    ]
    ends = np.cumsum([len(part) for part in parts]).tolist()
    return Tables(b"".join(parts), ends[0], ends[1], ends[2], ends[4])


def _dqt(quantisers: Sequence[np.ndarray]) -> bytes:
    content = b""
    for number, table in enumerate(quantisers):
        wide = int(table.max() > 255)
        content += bytes([wide << 4 | number]) + table.astype(">u2" if wide else np.uint8).tobytes()
    return content


def _names(picture: Coefficients) -> bytes:
    """Identifiers from which decoders guess the right colours where no other segment tells them."""
    return b"RGB" if picture.rgb else b"\1\2\3"


def _sof(picture: Coefficients, quantisers: Sequence[int], wide: bool) -> bytes:
    content = struct.pack(">BHHB", 8, picture.height, picture.width, len(picture.planes))
    for name, plane, number in zip(_names(picture), picture.planes, quantisers):
        content += bytes([name, plane.h << 4 | plane.v, number])
    return segment(markers.SOF_EXTENDED if wide else markers.SOF_BASELINE, content)


def _dht(coded: Coded) -> bytes:
    """DC 0, AC 0, DC 1, AC 1 in one segment, the order that `made_up.read_codes` expects."""
    return b"".join(
        bytes([(table & 1) << 4 | table >> 1]) + counts.tobytes() + symbols.tobytes()
        for table, (counts, symbols) in enumerate(coded.tables)
    )


def _sos(picture: Coefficients) -> bytes:
    """The first component has tables 0, the others tables 1."""
    content = bytes([len(picture.planes)])
    for number, name in zip(range(len(picture.planes)), _names(picture)):
        content += bytes([name, 0x11 if number else 0x00])
    return segment(markers.SOS, content + b"\0\x3f\0")
