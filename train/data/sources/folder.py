"""Image folders: ROOT/<class>/**/<image>.

The scan lists every file once and says what it left out.
"""

import os
import stat
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from train.data.sources import Record
from train.data.sources.names import Names, decode
from train.data.sources.skipped import (
    IMAGE_EXTENSIONS,
    MAX_FILE_BYTES,
    SYSTEM_FOLDERS,
    Skipped,
)
from train.errors import DataError
from train.files import never_wait


class Scan(NamedTuple):
    """What a scan found.

    Attributes:
        source: the images.
        classes: their names; the position is the class number.
        skipped: what was left out, in reading order.
    """

    source: "FolderSource"
    classes: Tuple[str, ...]
    skipped: List[Skipped]


class FolderSource:
    """Files of an image folder.

    Their names are one block of bytes, shared by forked workers.

    Args:
        root: the folder that the keys are relative to.
        keys: paths relative to root, os.fsencode'd.
        labels: class numbers, one per key.
    """

    def __init__(self, root: str, keys: Sequence[bytes], labels: Sequence[int]):
        self.root = os.fsencode(os.path.abspath(root))
        self.names = Names.of(keys)
        self.labels = np.asarray(labels, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def key(self, index: int) -> str:
        """The path relative to the data folder, undecodable bytes as surrogates."""
        return self.names[index]

    def __getitem__(self, index: int) -> Record:
        key = self.names.raw(index)
        with open(os.path.join(self.root, key), "rb", buffering=0, opener=never_wait) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise OSError(
                    f"file of {size >> 20} MiB, more than the {MAX_FILE_BYTES >> 20} MiB "
                    "an image may have"
                )
            return Record(file.readall(), int(self.labels[index]), decode(key))


def list_classes(root: str) -> Tuple[List[str], List[Skipped]]:
    """Class folders in text order ('10' before '2'), and what else lies beside them.

    Raises:
        DataError: the folder is missing or can't be read.
    """
    classes, skipped = [], []
    for entry in _entries(root):
        if entry.name.startswith("."):
            skipped.append(
                Skipped(entry.name, "hidden_file", "hidden files and folders are no classes")
            )
        elif entry.name.lower() in SYSTEM_FOLDERS:
            skipped.append(Skipped(entry.name, "hidden_file", "a system's folder, no class"))
        elif entry.is_symlink() and not _resolves(entry.path):
            detail = f"points to {os.readlink(entry.path)!r}"
            skipped.append(Skipped(entry.name, "broken_symlink", detail))
        elif entry.is_dir():
            classes.append(entry.name)
        elif os.path.splitext(entry.name)[1].lower() in IMAGE_EXTENSIONS:
            skipped.append(
                Skipped(entry.name, "no_class", "lies beside the class folders, so it has no class")
            )
    return classes, skipped


def scan_folder(
    root: str, classes: Sequence[str], progress: Optional[Callable[[int], None]] = None
) -> Scan:
    """List the images below the given class folders.

    Linked folders are followed; a folder that was listed already (a loop, a link to another class)
    is not listed again. Nothing is opened but folders.

    Args:
        root: the folder with the class folders.
        classes: their names; the position is the class number.
        progress: called with the number of images found so far.

    Raises:
        DataError: a folder or file that may not be read, naming it.
    """
    keys: List[bytes] = []
    labels: List[int] = []
    skipped: List[Skipped] = []
    seen: Set[Tuple[int, int]] = {_identity(root)}
    folders: Dict[str, Tuple[int, int]] = {
        name: _identity(os.path.join(root, name))
        for name in classes
        if os.path.isdir(os.path.join(root, name))
    }
    seen.update(folders.values())
    listed: Dict[Tuple[int, int], str] = {}
    for label, name in enumerate(classes):
        if name not in folders:
            continue
        first = listed.setdefault(folders[name], name)
        if first != name:  # the same images under two labels would be nonsense
            skipped.append(Skipped(name, "listed_already", f"the same folder as class {first!r}"))
            continue
        for key, skip in _walk(root, name, seen):
            if skip is not None:
                skipped.append(skip)
            else:
                keys.append(os.fsencode(key))
                labels.append(label)
                if progress is not None and len(keys) % 1000 == 0:
                    progress(len(keys))
    return Scan(FolderSource(root, keys, labels), tuple(classes), skipped)


def _walk(
    root: str, name: str, seen: Set[Tuple[int, int]]
) -> Iterator[Tuple[str, Optional[Skipped]]]:
    """Yield (key, None) for an image and (key, Skipped) for what is left out, in text order."""
    stack = [name]
    while stack:
        folder = stack.pop()
        below = []
        for entry in _entries(os.path.join(root, folder)):
            key = f"{folder}/{entry.name}"
            ending = os.path.splitext(entry.name)[1].lower()
            if entry.name.startswith(".") or entry.name.lower() in SYSTEM_FOLDERS:
                yield key, Skipped(key, "hidden_file", "")
            elif entry.is_symlink() and not _resolves(entry.path):
                yield key, Skipped(key, "broken_symlink", f"points to {_target(entry.path)}")
            elif entry.is_dir():
                if ending in IMAGE_EXTENSIONS:
                    yield key, Skipped(key, "not_a_file", "a folder with the name of an image")
                identity = _identity(entry.path)
                if identity in seen:
                    yield (
                        key,
                        Skipped(
                            key, "listed_already", "a link to a folder that is listed elsewhere"
                        ),
                    )
                else:
                    seen.add(identity)
                    below.append(key)
            elif ending not in IMAGE_EXTENSIONS:
                yield key, Skipped(key, "unknown_extension", "")
            elif not entry.is_file():  # a pipe or socket would hang its reader
                yield key, Skipped(key, "not_a_file", stat.filemode(entry.stat().st_mode))
            elif not os.access(entry.path, os.R_OK):
                raise DataError(
                    f"cannot read {entry.path!r}: permission denied for user {os.geteuid()}; "
                    "give yourself the right to read it (chmod, chown) or take it out of the folder"
                )
            else:
                yield key, None
        stack.extend(reversed(below))


def _entries(folder: str) -> List["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except FileNotFoundError:
        raise DataError(f"no such folder: {folder!r}; check data.path") from None
    except NotADirectoryError:
        raise DataError(
            f"{folder!r} is a file, expected a folder with one folder per class"
        ) from None
    except PermissionError:
        raise DataError(
            f"cannot list {folder!r}: permission denied for user {os.geteuid()}"
        ) from None
    except OSError as error:
        raise DataError(
            f"cannot list {folder!r}: {error.strerror}; is its disk still mounted?"
        ) from None


def _target(path: str) -> str:
    """Where a link points to."""
    try:
        return repr(os.readlink(path))
    except OSError as error:  # not for us to see, or gone meanwhile
        return error.strerror or str(error)


def _resolves(path: str) -> bool:
    """Whether a link leads somewhere; a link to itself raises instead of saying no."""
    try:
        os.stat(path)
        return True
    except OSError:
        return False


def _identity(path: str) -> Tuple[int, int]:
    info = os.stat(path)
    return info.st_dev, info.st_ino
