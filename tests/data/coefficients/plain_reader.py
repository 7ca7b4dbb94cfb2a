"""A reader of coefficient records in plain Python, after docs/coefficients.md: an oracle."""

import zlib

import numpy as np

from train.data.coefficients.record import HEADER, PLANE


def read(data):
    """A record -> its header, and of each plane: fields, blocks int16 (rows, columns, 8, 8).

    Blocks as JPEG has them: row by row, [vertical frequency, horizontal frequency].
    """
    header = np.frombuffer(data, HEADER, 1)[0]
    assert header["size"] == len(data)
    place = HEADER.fields["checksum"][1]
    assert header["checksum"] == zlib.crc32(data[:place] + data[place + 4 :])
    assert not any(data[-128:])
    table = np.frombuffer(data, PLANE, header["planes"], HEADER.itemsize)
    return header, [(fields, _blocks(data, fields)) for fields in table]


def _blocks(data, fields):
    strips, rows = int(fields["strips"]), int(fields["blocks"])
    count = strips * rows
    groups = strips * -(-rows // 8)
    for name in ("starts", "masks", "means", "values"):
        assert fields[name] % 8 == 0
    starts = np.frombuffer(data, "<u4", groups + 1, fields["starts"])
    masks = np.frombuffer(data, "<u8", count, fields["masks"]).tolist()
    means = np.frombuffer(data, "<i2", count, fields["means"])
    values = data[int(fields["values"]) :][: int(fields["values_size"])]
    out = np.zeros((strips, rows, 64), np.int16)
    at, group = 0, 0
    for strip in range(strips):
        for row in range(rows):
            if row % 8 == 0:
                assert starts[group] == at
                group += 1
            mask, block = masks[strip * rows + row], out[strip, row]
            block[0] = means[strip * rows + row]
            size = 1 + (mask & 1)
            for number in range(1, 64):
                if mask >> number & 1:
                    value = int.from_bytes(values[at : at + size], "little", signed=True)
                    assert value != 0
                    block[number] = value
                    at += size
            assert mask & 1 == int(not -128 <= block[1:].min() <= block[1:].max() <= 127)
    assert starts[group] == at == len(values)
    return out.reshape(strips, rows, 8, 8).transpose(1, 0, 3, 2)
