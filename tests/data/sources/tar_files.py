"""Tar files for the tests."""

import io
import tarfile

import numpy as np
import pictures


def image(seed=0):
    """Bytes of a small JPEG."""
    return pictures.encode(pictures.scene(16, 12, seed), quality=80)


def write_tar(path, members, kind=tarfile.PAX_FORMAT):
    """Write (name, bytes) pairs, or ready TarInfo objects, to a tar file."""
    with tarfile.open(path, "w", format=kind) as archive:
        for name, data in members:
            if isinstance(name, tarfile.TarInfo):
                archive.addfile(name, io.BytesIO(data))
                continue
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return str(path)


def samples(count, seed=0, labels=3):
    """Members of `count` samples `000000.jpg`, `000000.cls` ..."""
    members = []
    for number in range(count):
        members.append((f"{number:06}.jpg", image(seed + number)))
        members.append((f"{number:06}.cls", b"%d" % (number % labels)))
    return members


def contents(source):
    """All records: {key: (label, bytes)}; each key once."""
    records = [source[index] for index in range(len(source))]
    found = {record.key: (record.label, bytes(record.data)) for record in records}
    assert len(found) == len(records)
    assert source.labels.tolist() == [record.label for record in records]
    assert [source.key(index) for index in range(len(source))] == list(found)
    assert source.labels.dtype == np.int64
    return found
