"""TFRecord shards of tf.train.Example: SPLIT-00000.tfrecord ..., as ImageNet is usually stored.

Features: image/encoded (the file), image/class/label (int64, counted from 0), image/filename (the
key). No TensorFlow.

Source: tensorflow/core/lib/io/record_writer.h: length u64, its masked CRC-32C, data, its CRC.
"""

import struct

from train.data.sources.crc32c import masked
from train.data.sources.example import Features, example
from train.data.sources.names import encode
from train.data.sources.tfrecord import MOST_KEY
from train.errors import DataError
from train.pack.writers import Sample
from train.pack.writers.append import ShardWriter

_NAMES = Features()


class TfrecordWriter(ShardWriter):
    """See `Writer`."""

    pattern = "%s-%%05d.tfrecord"

    def add(self, sample: Sample) -> str:
        """Write one; returns its key.

        Raises:
            DataError: a key that a reader would not take.
        """
        name = encode(sample.key)
        if len(name) > MOST_KEY:
            raise DataError(
                f"the key {sample.key[:100]!r}... has {len(name)} bytes, and a TFRecord's may have "
                f"{MOST_KEY}; pack into another container"
            )
        data = example(
            {
                _NAMES.label: sample.label,
                _NAMES.image: sample.data,
                _NAMES.key: name,
            }
        )
        length = struct.pack("<Q", len(data))
        checks = struct.pack("<I", masked(length)), struct.pack("<I", masked(data))
        self._shards.write(b"".join((length, checks[0], data, checks[1])))
        return sample.key
