"""WebDataset shards: SPLIT-000000.tar ..., members `<stem>.jpg` and `<stem>.cls`.

A stem is the whole key, quoted so that it has no dots: WebDataset cuts a name at its first dot, and
nothing can climb out of the folder that it is unpacked in. No time, no user: the same images give
the same bytes.
"""

import os
import tarfile

from train.data.sources.skipped import IMAGE_EXTENSIONS
from train.data.sources.tar_keys import quote_key
from train.pack.writers import Sample, sniff_ending
from train.pack.writers.append import ShardWriter

BLOCK = 512
RECORD = 20 * BLOCK
"""tar files are multiples of this, as tape drives wanted it and every tool still writes it."""


def member(name: str, data: bytes) -> bytes:
    """Header, content and padding of one file in a tar."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o644
    header = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return b"".join((header, data, bytes(-len(data) % BLOCK)))


class TarWriter(ShardWriter):
    """See `Writer`."""

    pattern = "%s-%%06d.tar"

    def add(self, sample: Sample) -> str:
        """Write one; returns its key."""
        stem = quote_key(sample.key)
        ending = sample.ending or sniff_ending(sample.data)
        if ending is None:  # damaged: as its file was called
            ending = os.path.splitext(sample.key)[1].lower()
            ending = ending if ending in IMAGE_EXTENSIONS else ".jpg"
        label = b"%d" % sample.label
        self._shards.write(member(stem + ending, sample.data) + member(stem + ".cls", label))
        return sample.key

    @staticmethod
    def end(size: int) -> bytes:
        """Two empty blocks, and more up to a whole record."""
        return bytes(2 * BLOCK + -(size + 2 * BLOCK) % RECORD)
