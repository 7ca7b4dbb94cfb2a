"""One writer a container: samples in, files out, in the layout that its community reads.

A writer can be killed at any moment. `flush` says where it stands, in a small dict; from that dict
a new writer goes on, and the files become the same, byte for byte.
"""

import importlib
from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional, Protocol, Tuple

from train.data.coefficients import MAGIC


class Sample(NamedTuple):
    """What a writer writes.

    Attributes:
        key: names the sample, as in the source.
        label: class number.
        data: the encoded image.
        ending: ".jpg", ".ppm" or ".coef" where the image was made by us; None: the source's bytes.
    """

    key: str
    label: int
    data: bytes
    ending: Optional[str]


class Target(NamedTuple):
    """Where a writer writes.

    Attributes:
        folder: of the whole pack.
        split: "train" or "val".
        classes: names; the position is the class number.
        shard_bytes: most bytes of one file, where there are several.
    """

    folder: Path
    split: str
    classes: Tuple[str, ...]
    shard_bytes: int


class Writer(Protocol):
    """What every container offers. Errors while writing are OSError."""

    commits_anywhere: bool
    """Whether the bytes are the same wherever `commit` is called."""

    def __init__(self, target: Target, state: Optional[Dict[str, Any]]):
        """Begin, or go on from what `flush` returned; what lies behind it is cut off."""

    def add(self, sample: Sample) -> str:
        """Write one; returns the key that a reader will find."""

    def flush(self) -> Dict[str, Any]:
        """Bring what was added to the disk, or at least into `commit`'s reach."""

    def commit(self) -> None:
        """Called when the dict of `flush` is safe on the disk."""

    def finish(self) -> None:
        """Complete the split; called again after a crash, it does no harm."""

    def close(self) -> None:
        """Let go of files; what was not committed is lost."""


_CLASSES = {
    "folder": ("train.pack.writers.folder", "FolderWriter"),
    "tar": ("train.pack.writers.tar", "TarWriter"),
    "lmdb": ("train.pack.writers.lmdb_writer", "LmdbWriter"),
    "hdf5": ("train.pack.writers.hdf5_writer", "Hdf5Writer"),
    "tfrecord": ("train.pack.writers.tfrecord", "TfrecordWriter"),
}


def writer_class(container: str) -> Any:
    """The class by the container's name; its library is imported now.

    It has a static `usable(target, state) -> bool`: whether the files still hold what `state` says.
    """
    module, name = _CLASSES[container]
    return getattr(importlib.import_module(module), name)


def sniff_ending(data: bytes) -> Optional[str]:
    """The usual ending of an image file by its first bytes; None: no image we know."""
    for start, ending in (
        (b"\xff\xd8\xff", ".jpg"),
        (MAGIC, ".coef"),
        (b"\x89PNG\r\n\x1a\n", ".png"),
        (b"P6", ".ppm"),
        (b"P5", ".pgm"),
        (b"P4", ".pbm"),
        (b"GIF8", ".gif"),
        (b"BM", ".bmp"),
        (b"II*\0", ".tif"),
        (b"MM\0*", ".tif"),
    ):
        if data.startswith(start):
            return ending
    return ".webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
