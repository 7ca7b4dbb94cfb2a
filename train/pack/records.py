"""From a record of the source to what is written: read, converted, checked. It runs in threads."""

import zlib
from typing import NamedTuple, Optional

from train.data.sources import Source
from train.data.sources.names import encode
from train.errors import BadSample
from train.pack.contents import Converted, convert
from train.pack.options import PackOptions


class Item(NamedTuple):
    """One record, read and converted.

    Attributes:
        number: its index in the source.
        key: its name.
        label: class number.
        made: the image; None: it could not be read.
        reason: why not.
        storage: it was the storage that failed, not the content.
        before: bytes of the image in the source.
    """

    number: int
    key: str
    label: int
    made: Optional[Converted]
    reason: str = ""
    storage: bool = False
    before: int = 0

    @property
    def num_bytes(self) -> int:
        """What it holds in memory."""
        return len(self.made.data) if self.made is not None else 0


def read(source: Source, index: int, options: PackOptions) -> Item:
    """Read and convert one record; never raises for its sake."""
    try:
        record = source[index]
    except BadSample as error:
        return Item(index, source.key(index), int(source.labels[index]), None, str(error))
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        label = int(source.labels[index])
        return Item(index, source.key(index), label, None, reason, storage=True)
    size = getattr(record.data, "nbytes", None)
    before = len(record.data) if size is None else int(size)
    made = convert(record.data, options)
    return Item(index, record.key, int(record.label), made, before=before)


def check_of(data: bytes, key: str, label: int) -> int:
    """What tells a changed image, name or label from the one that was written: a CRC-32."""
    crc = zlib.crc32(encode(key), zlib.crc32(data))
    return zlib.crc32(b"%d" % label, crc)
