"""Records that are damaged in all kinds of ways, most of them with a checksum that is right."""

import struct

import numpy as np
import plain_packer
from rendered import jpeg

from train.data.coefficients import create
from train.data.coefficients.record import HEADER, PLANE, parse

FIELDS = [(at, dtype.itemsize) for dtype, at in HEADER.fields.values() if dtype.itemsize <= 8]
PLANE_FIELDS = [(at, dtype.itemsize) for dtype, at in PLANE.fields.values() if dtype.itemsize <= 8]
SPECIAL = (0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 63)


def originals():
    """Small records of every kind, uint8."""
    kinds = [("420", 61, 43), ("444", 33, 70), ("grey", 90, 20), ("422", 9, 7), ("420", 1, 1)]
    return [
        plain_packer.pack(jpeg(width, height, sampling, number), number + 1)
        for number, (sampling, width, height) in enumerate(kinds)
    ]


def mutated(original, generator, sealed=True):
    """A copy with one to four places changed; half of them in header and indices."""
    record = original.copy()
    planes = parse(original).planes
    for _ in range(generator.integers(1, 5)):
        plane = int(generator.integers(len(planes)))
        kind = generator.integers(6)
        if kind == 0:
            _number(record, *FIELDS[generator.integers(len(FIELDS))], generator)
        elif kind == 1:
            at, size = PLANE_FIELDS[generator.integers(len(PLANE_FIELDS))]
            _number(record, HEADER.itemsize + plane * PLANE.itemsize + at, size, generator)
        elif kind == 2:
            starts = create.sections(original, planes[plane]).starts
            _number(
                record,
                planes[plane].starts + 4 * int(generator.integers(len(starts))),
                4,
                generator,
            )
        elif kind == 3:
            masks = create.sections(original, planes[plane]).masks
            _number(
                record, planes[plane].masks + 8 * int(generator.integers(len(masks))), 8, generator
            )
        else:
            at = int(generator.integers(len(record)))
            record[at] ^= 1 << int(generator.integers(8))
    if sealed:
        create.seal(record)
    return record


def _number(record, at, size, generator):
    """Another number: near, special or any."""
    old = int.from_bytes(record[at : at + size].tobytes(), "little")
    kind = generator.integers(3)
    if kind == 0:
        new = old + int(generator.integers(-9, 10))
    elif kind == 1:
        new = SPECIAL[generator.integers(len(SPECIAL))] + int(generator.integers(-1, 2))
    else:
        new = int(generator.integers(0, 1 << 63)) * 2 + int(generator.integers(2))
    new &= (1 << (8 * size)) - 1
    record[at : at + size] = np.frombuffer(struct.pack("<Q", new)[:size], np.uint8)
