"""A packer of coefficient records in plain NumPy: the oracle of the real one and of the kernels."""

import numpy as np

from train.data.coefficients import create
from train.data.coefficients.record import GROUP, parse
from train.data.jpeg import coefficients

ZIGZAG = sorted(
    ((row, column) for row in range(8) for column in range(8)),
    key=lambda at: (sum(at), at[1] if sum(at) % 2 == 0 else at[0]),
)
"""(row, column) of each coefficient in a JPEG's order."""

TRANSPOSED = np.array([ZIGZAG.index((i % 8, i // 8)) for i in range(64)])
"""Where a JPEG has the coefficient i of a record: horizontal frequency i // 8, vertical i % 8."""


def pack(data, orientation=1):
    """A JPEG's bytes -> a record, uint8; `orientation` is what EXIF says of the picture."""
    picture = coefficients.decode(data)
    planes = [picture.plane(number)[:, :, TRANSPOSED] for number in range(len(picture.planes))]
    return from_planes(picture, planes, orientation)


def from_planes(picture, planes, orientation=1):
    """Planes: int16 (rows, columns, 64), coefficients in a record's order."""
    turned = orientation >= 5
    width, height = picture.width, picture.height
    if turned:
        width, height = height, width
    parts, contents = [], []
    for plane, blocks in zip(picture.planes, planes):
        quantiser, h, v = plane.quantiser[TRANSPOSED], plane.h, plane.v
        if turned:
            h, v = v, h
            quantiser = quantiser.reshape(8, 8).T.ravel()
            blocks = blocks.reshape(*blocks.shape[:2], 8, 8).transpose(1, 0, 3, 2)
            blocks = blocks.reshape(*blocks.shape[:2], 64)
        parts.append(create.Part(h, v, quantiser, 0))
        contents.append(blocks)
    stored = []
    for number, part in enumerate(parts):
        strips, rows = grid_of(width, height, part, parts)
        stored.append(plane_sections(contents[number][:rows, :strips]))
        parts[number] = part._replace(values_size=len(stored[-1][3]))
    # What is left after rows and columns were exchanged: 5 nothing, 6 and 7 ..., see the tests.
    left = {1: 1, 2: 2, 3: 3, 4: 4, 5: 1, 6: 2, 7: 3, 8: 4}[orientation]
    record = create.create(width, height, parts, picture.rgb, left)
    for plane, sections in zip(parse(record).planes, stored):
        for place, content in zip(create.sections(record, plane), sections):
            place[:] = content
    create.seal(record)
    return record


def grid_of(width, height, part, parts):
    """Strips and blocks, written out."""
    most_h, most_v = max(p.h for p in parts), max(p.v for p in parts)
    samples = int(np.ceil(width * part.h / most_h)), int(np.ceil(height * part.v / most_v))
    return int(np.ceil(samples[0] / 8)), int(np.ceil(samples[1] / 8))


def plane_sections(blocks):
    """int16 (rows, columns, 64) -> starts, masks, means, values (uint8)."""
    rows, strips = blocks.shape[:2]
    starts, masks, means, values, size = [], [], [], [], 0
    for strip in range(strips):
        for row in range(rows):
            if row % GROUP == 0:
                starts.append(size)
            block = blocks[row, strip]
            at = np.flatnonzero(block[1:]) + 1
            found = block[at]
            wide = bool(((found > 127) | (found < -128)).any())
            masks.append(sum(1 << int(i) for i in at) | int(wide))
            means.append(block[0])
            values.append(found.astype("<i2" if wide else "i1").tobytes())
            size += len(values[-1])
    starts.append(size)
    return (
        np.array(starts, np.uint32),
        np.array(masks, np.uint64),
        np.array(means, np.int16),
        np.frombuffer(b"".join(values), np.uint8),
    )
