"""Writes containers the way their communities do, apart from the product's own writers.

A sample is (key, label, data).
"""

import io
import struct
import tarfile

import h5py
import lmdb
import numpy as np


def write_tar(path, samples):
    """WebDataset: stem.jpg and stem.cls; the stem is the key without dots."""
    with tarfile.open(path, "w") as file:
        for key, label, data in samples:
            stem = key.replace("%", "%25").replace(".", "%2E")
            add_member(file, f"{stem}.jpg", data)
            add_member(file, f"{stem}.cls", b"%d" % label)


def add_member(file, name, data, **attributes):
    """One member of an open tar file."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    file.addfile(info, io.BytesIO(data))


def lmdb_values(samples):
    """The entries of our layout, without names."""
    values = {
        b"%08d" % n: struct.pack("<I", label) + data for n, (_, label, data) in enumerate(samples)
    }
    return {**values, b"__len__": b"%d" % len(samples)}


def write_lmdb(folder, samples, names=True):
    """Our layout, with names or without."""
    entries = lmdb_values(samples)
    if names:
        lines = [
            key.encode("utf-8", "surrogateescape").replace(b"%", b"%25").replace(b"\n", b"%0A")
            for key, _, _ in samples
        ]
        entries[b"__keys__"] = b"\n".join(lines)
    put_lmdb(folder, entries)


def put_lmdb(folder, entries):
    """Any entries."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        lmdb.open(str(folder), map_size=1 << 28, lock=False) as environment,
        environment.begin(write=True) as transaction,
    ):
        for key, value in entries.items():
            transaction.put(key, value)


def write_hdf5(path, samples, names=True, **options):
    """Encoded images of variable length."""
    with h5py.File(path, "w") as file:
        kind = h5py.vlen_dtype(np.uint8)
        images = file.create_dataset("images", (len(samples),), dtype=kind, **options)
        for row, (_, _, data) in enumerate(samples):
            images[row] = np.frombuffer(data, dtype=np.uint8)
        file["labels"] = np.array([label for _, label, _ in samples], dtype=np.int64)
        if names:
            keys = [key.encode("utf-8", "surrogateescape") for key, _, _ in samples]
            file.create_dataset("keys", data=keys, dtype=h5py.string_dtype())


def write_pixels(path, pixels, labels, **options):
    """Pixels, uint8 (N, h, w, 3)."""
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=pixels, **options)
        file["labels"] = np.asarray(labels, dtype=np.int64)


def write_tfrecord(path, samples):
    """tf.train.Example, as ImageNet's converters write it."""
    with open(path, "wb") as file:
        for key, label, data in samples:
            file.write(record(example(key, label, data)))


def example(key, label, data):
    """One tf.train.Example; without a label where that is None."""
    raw = key.encode("utf-8", "surrogateescape")
    features = [("image/encoded", _field(1, _field(1, data)))]
    if label is not None:
        features.append(("image/class/label", _field(3, _field(1, _varint(label)))))
    features.append(("image/filename", _field(1, _field(1, raw))))
    entries = b"".join(
        _field(1, _field(1, name.encode()) + _field(2, value)) for name, value in features
    )
    return _field(1, entries)


def record(payload, length=None):
    """One record with its two checksums; `length` is what it says."""
    head = struct.pack("<Q", len(payload) if length is None else length)
    return head + _masked(head) + payload + _masked(payload)


def _field(number, content):
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def _masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
