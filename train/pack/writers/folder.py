"""Image folders: SPLIT/<class>/<name>, each sample one file.

A name must be one that the scan of a folder finds again: it lies below its class, is not hidden,
and ends as an image does. Names that do not are changed as little as possible; all others stay,
even where `x.png` has become a JPEG: the names decide the order and what is set aside for
validation, and what a file is, its content says (to us, to Pillow, to OpenCV).
"""

import ctypes
import os
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Tuple

from train.data.sources.names import encode
from train.data.sources.skipped import IMAGE_EXTENSIONS, SYSTEM_FOLDERS
from train.errors import DataError
from train.pack.writers import Sample, Target, sniff_ending

_LONGEST = 255
_LONGEST_PATH = 2000
"""Linux takes 4096, of which the target's own folders need some."""


def file_key(sample: Sample, class_name: str) -> str:
    """The path below the split's folder.

    Raises:
        DataError: a name that no file can have.
    """
    path, whole = path_below(sample.key, class_name)
    return path if whole else path + (sample.ending or sniff_ending(sample.data) or ".jpg")


def path_below(key: str, class_name: str) -> Tuple[str, bool]:
    """What is known of a path before the image is seen: the path, and whether it has its ending.

    Raises:
        DataError: a name that no file can have.
    """
    inside = key.startswith(class_name + "/") and len(key) > len(class_name) + 1
    rest = key[len(class_name) + 1 :] if inside else key
    parts = [_part(part) for part in rest.split("/") if part] or ["unnamed"]
    whole = os.path.splitext(parts[-1])[1].lower() in IMAGE_EXTENSIONS
    path = "/".join([class_name, *parts])
    longest = max(len(encode(part)) for part in parts[:-1] + [parts[-1] + ".jfif" * (not whole)])
    if longest > _LONGEST or len(encode(path)) > _LONGEST_PATH:
        raise DataError(
            f"the key {_short(key)} is too long for a file's name ({_LONGEST} bytes, "
            f"{_LONGEST_PATH} with its folders); pack into another container"
        )
    return path, whole


def check_classes(classes: Sequence[str]) -> None:
    """Refuse names that can't be those of class folders.

    Raises:
        DataError: naming the class.
    """
    for name in classes:
        hidden = name.startswith(".") or name.lower() in SYSTEM_FOLDERS
        if not name or hidden or "/" in name or "\0" in name or not _is_short(name):
            raise DataError(
                f"the class name {_short(name)} can't be that of a class folder; "
                "pack into another container, or change classes.json of the source"
            )


class FolderWriter:
    """See `Writer`."""

    commits_anywhere = True

    def __init__(self, target: Target, state: Optional[Dict[str, Any]]):
        self._root = target.folder / target.split
        self._classes = target.classes
        check_classes(target.classes)
        for name in target.classes:  # an empty class keeps its number
            (self._root / name).mkdir(parents=True, exist_ok=True)
        self._made = set(target.classes)

    @staticmethod
    def usable(target: Target, state: Dict[str, Any]) -> bool:
        """Files that lie behind `state` are written again, the same."""
        return (target.folder / target.split).is_dir()

    def add(self, sample: Sample) -> str:
        """Write one; returns the key that a scan will give it."""
        key = file_key(sample, self._classes[sample.label])
        folder = os.path.dirname(key)
        if folder not in self._made:
            (self._root / folder).mkdir(parents=True, exist_ok=True)
            self._made.add(folder)
        with open(self._root / key, "wb") as file:
            file.write(sample.data)
        return key

    def flush(self) -> Dict[str, Any]:
        """Bring all files to the disk at once: one by one would take ages."""
        _sync_file_system(self._root)
        return {}

    def commit(self) -> None:
        """Nothing is left to do."""

    def finish(self) -> None:
        """Bring all to the disk."""
        _sync_file_system(self._root)

    def close(self) -> None:
        """Nothing is open."""


def _part(part: str) -> str:
    """One part of a path, so that it is neither hidden nor leads elsewhere."""
    part = part.replace("\0", "%00")
    if part.startswith("."):
        return "%2E" + part[1:]
    return "%" + part if part.lower() in SYSTEM_FOLDERS else part


def _is_short(name: str) -> bool:
    """Whether a file system takes it."""
    try:
        return len(os.fsencode(name)) <= _LONGEST
    except UnicodeEncodeError:  # half a character, as JSON can hold it
        return False


def _short(name: str) -> str:
    return repr(name) if len(name) <= 100 else f"{name[:100]!r}..."


def _sync_file_system(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:  # not Linux
            os.sync()
        elif syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)
