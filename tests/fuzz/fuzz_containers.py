"""Readers of containers: opened, then every record read; nothing lies outside of its file."""

import os

from train.data.sources import handles, hdf5_scan, probe
from train.data.sources.crc32c import crc32c, masked
from train.data.sources.example import Malformed, Span, locate
from train.data.sources.hdf5_source import NEEDS, Hdf5Source, open_hdf5
from train.data.sources.index import open_index
from train.data.sources.lmdb_source import open_lmdb
from train.data.sources.stream import Stream
from train.data.sources.tar import open_tar
from train.data.sources.tfrecord import USUAL, open_tfrecord
from train.errors import BadSample, DataError

MALFORMED = (Malformed,)
HDF5 = (hdf5_scan.Damaged, hdf5_scan.Refused)
_READ = 40


def tar(data, folder, draw):
    """Shards by position."""
    _records(open_tar([_file(data, folder, "a.tar")], None).source, len(data))


def tfrecord(data, folder, draw):
    """Records of Examples; ImageNet's labels count from 1."""
    first = draw.choice((0, 0, 1))
    path = _file(data, folder, "a.tfrecord")
    _records(open_tfrecord([path], None, first_label=first).source, len(data))


def lmdb(data, folder, draw):
    """The tree of an LMDB file."""
    _records(open_lmdb(_file(data, folder, "data.mdb")).source, len(data))


def hdf5(data, folder, draw):
    """The scan that the product runs in a child, then the records."""
    path = _file(data, folder, "a.h5")
    index = open_index(
        path, "hdf5", lambda tell: hdf5_scan.scan(path, lambda count: None), needs=NEEDS
    )
    # What the library decompresses may be larger than the file, and is bounded by memory.
    _records(Hdf5Source(index), len(data) if "offsets" in index else None)


def hdf5_contained(data, folder):
    """The same as the product does it: what kills the child is a DataError here."""
    probe.SILENCE_S = 20.0
    open_hdf5(_file(data, folder, "a.h5"))


def index(data, folder, draw):
    """An index file that says anything, beside a sound container."""
    import fuzz_seeds

    kind, container = fuzz_seeds.container_of(data)
    path = _file(container, folder, {"tar": "a.tar", "lmdb": "data.mdb"}.get(kind, "a.tfrecord"))
    (folder / (os.path.basename(path) + ".index")).write_bytes(data)
    os.utime(path, ns=(0, fuzz_seeds.INDEXED_NS))
    if kind == "tar":
        _records(open_tar([path], None).source, len(container))
    elif kind == "lmdb":
        _records(open_lmdb(path).source, len(container))
    else:
        _records(open_tfrecord([path], None).source, len(container))


def stream(data, folder, draw):
    """Shards from front to back."""
    for item in Stream(_file(data, folder, "a.tar"), buffer=draw.choice((0, 3))).read():
        if hasattr(item, "data"):
            assert len(item.data) <= len(data)
            assert item.label >= 0


def example(data, folder, draw):
    """One tf.train.Example."""
    found = locate(lambda at, size: data[at : at + size], Span(0, len(data)), tuple(USUAL))
    for value in found.values():
        if isinstance(value, Span):
            assert 0 <= value.start <= value.end <= len(data)
        else:
            assert -(1 << 63) <= value < 1 << 63


def checksum(data, folder, draw):
    """The kernel and the slow way agree."""
    size = draw.randrange(600)
    assert crc32c(data[:size]) == _slowly(data[:size])
    assert 0 <= masked(data) < 1 << 32


def _slowly(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _file(data, folder, name):
    path = folder / name
    path.write_bytes(data)
    return str(path)


def _records(source, most):
    """Read the records that there are, or some of many; each is whole or says why not."""
    handles.close_all()
    count, labels = len(source), source.labels
    assert len(labels) == count
    some = range(count) if count <= _READ else [*range(_READ // 2), *range(count - 20, count)]
    for row in some:
        assert isinstance(source.key(row), str)
        try:
            record = source[row]
        except (BadSample, DataError, OSError):
            continue
        assert record.label == labels[row]
        assert most is None or len(record.data) <= most
    handles.close_all()
