"""What lies at a path: a folder of images, a pack, a single container, shards.

Nothing is opened here: names decide, and the first bytes where a single file's name says nothing.
"""

import os
import re
from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from train.data.sources.skipped import IMAGE_EXTENSIONS, SYSTEM_FOLDERS
from train.errors import DataError

VAL_NAMES = ("val", "valid", "validation")
KINDS = {
    "tar": "WebDataset tar shards (.tar)",
    "lmdb": "LMDB (a folder with data.mdb)",
    "hdf5": "HDF5 (.h5)",
    "tfrecord": "TFRecord shards (.tfrecord)",
}
_KNOWN = f"a folder DIR/<class>/<image>, {', '.join(KINDS.values())}"
_ENDINGS = {
    ".tar": "tar",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".hdf": "hdf5",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
    ".tfrec": "tfrecord",
    ".mdb": "lmdb",
    ".lmdb": "lmdb",
}
_SHARD_OF = re.compile(r"-\d+-of-\d+$")
_SHARDED = ("tar", "tfrecord")
_LOOKED_AT = 200


class Place(NamedTuple):
    """What a path is.

    Attributes:
        kind: "folder", or a key of KINDS.
        root: absolute; names in messages are relative to it.
        train: the folder with the classes, or the files of the training set.
        val: the same of the validation set; None: there is none.
        classes: where the file with the names of the classes would be.
        notes: what the user should know, one line each.
    """

    kind: str
    root: str
    train: List[str]
    val: Optional[List[str]]
    classes: str
    notes: List[str]


class _Item(NamedTuple):
    """A container file in a folder."""

    kind: str
    path: str


def locate(root: str) -> Place:
    """Find out what a path is.

    Args:
        root: absolute; it exists.

    Raises:
        DataError: nothing that we read, or several kinds at once.
    """
    if not os.path.isdir(root) or _is_lmdb(root):
        kind = "lmdb" if os.path.isdir(root) else _kind_of_file(root)
        beside = os.path.join(os.path.dirname(root), "classes.json")
        return Place(kind, root, [root], None, beside, [])
    items = _items(root)
    train = os.path.join(root, "train")
    below = _items(train) if os.path.isdir(train) and not _is_lmdb(train) else []
    if below and not _has_images(train):
        val = next((os.path.join(root, n) for n in VAL_NAMES if _is_folder(root, n)), None)
        groups = {"train": below, "val": _items(val) if val else []}
        return _place(root, groups, [])
    groups = _groups(items)
    if os.path.isdir(train) and not _is_lmdb(train):
        if groups["train"]:
            raise DataError(
                f"{root!r} has a folder 'train' and {_count(groups['train'])} for training; "
                "keep one of the two, or give the one you mean in a folder of its own"
            )
        return _folder(root, items)
    if groups["train"]:
        return _place(root, groups, _unused(items, groups))
    if not items or _has_images(root):
        return _folder(root, items)
    if groups["val"]:
        raise DataError(
            f"{root!r} has {_count(groups['val'])} for validation, and none for training; expected "
            "train* beside val*"
        )
    return _place(root, {"train": items, "val": []}, [])


def _folder(root: str, items: Sequence[_Item]) -> Place:
    """A folder of images, as it always was; containers in it are named."""
    has_train = os.path.isdir(os.path.join(root, "train"))
    val = next((os.path.join(root, n) for n in VAL_NAMES if has_train and _is_folder(root, n)), "")
    train = os.path.join(root, "train") if has_train else root
    notes = []
    if items:
        notes.append(f"note: not used: {_names(items)}, beside the images")
    beside = os.path.join(root, "classes.json")
    return Place("folder", root, [train], [val] if val else None, beside, notes)


def _place(root: str, groups: Dict[str, List[_Item]], notes: List[str]) -> Place:
    used = groups["train"] + groups["val"]
    kinds = Counter(item.kind for item in used)
    if len(kinds) > 1:
        found = ", ".join(f"{count} x {KINDS[kind]}" for kind, count in kinds.items())
        raise DataError(
            f"{root!r} has containers of several kinds: {found}; keep one kind, or give the file "
            "you mean as data.path"
        )
    (kind,) = kinds
    for split, items in groups.items():
        if kind not in _SHARDED and len(items) > 1:
            raise DataError(
                f"{root!r} has {_count(items)} for {split}: {_names(items)}; expected one; "
                "give the one you mean as data.path"
            )
    _refuse_several_sets(root, groups["train"])
    paths = {split: [item.path for item in items] for split, items in groups.items()}
    beside = os.path.join(root, "classes.json")
    return Place(kind, root, paths["train"], paths["val"] or None, beside, notes)


def _refuse_several_sets(root: str, items: Sequence[_Item]) -> None:
    """Shards of other data in the same folder would be trained on without a word."""
    stems = {_stem(item.path)[0] for item in items}
    if len(stems) > 1:
        names = ", ".join(repr(stem) for stem in sorted(stems)[:5])
        raise DataError(
            f"{root!r} has shards of {len(stems)} sets: {names}; a set's files differ in their "
            "number alone; put each set into a folder of its own, or name them train-*, val-*"
        )


def _groups(items: Sequence[_Item]) -> Dict[str, List[_Item]]:
    """Items by the split that their names tell."""
    groups: Dict[str, List[_Item]] = {"train": [], "val": []}
    for item in items:
        words = _stem(item.path)[1]
        if "train" in words or "training" in words:
            groups["train"].append(item)
        elif any(name in words for name in VAL_NAMES):
            groups["val"].append(item)
    return groups


def _stem(path: str) -> Tuple[str, List[str]]:
    """A shard's name without its number and ending, and the words it is made of."""
    name = _SHARD_OF.sub("", os.path.basename(path))
    name = os.path.splitext(name)[0] if os.path.splitext(name)[1].lower() in _ENDINGS else name
    name = _SHARD_OF.sub("", name)
    name = re.sub(r"[-_.]?\d+$", "", name)
    return name, re.split(r"[-_. ]+", name.lower())


def _items(folder: str) -> List[_Item]:
    """Containers that lie in a folder, by name."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                kind = _kind_of_name(entry.name)
                if entry.is_dir():
                    kind = "lmdb" if _is_lmdb(entry.path) else None
                elif kind is not None and not entry.is_file():
                    raise DataError(
                        f"{entry.path!r} is no file, but a pipe, a device, or a link that leads "
                        "nowhere; remove it, or mend the link"
                    )
                if kind is not None:
                    found.append(_Item(kind, entry.path))
    except OSError as error:
        raise DataError(f"cannot list {folder!r}: {error.strerror}") from None
    return sorted(found, key=lambda item: os.fsencode(item.path))


def _kind_of_name(name: str) -> Optional[str]:
    kind = _ENDINGS.get(os.path.splitext(name)[1].lower())
    return kind or ("tfrecord" if _SHARD_OF.search(name) else None)


def _kind_of_file(path: str) -> str:
    kind = _kind_of_name(path)
    if kind is not None:
        return kind
    try:
        with open(path, "rb") as file:
            start = file.read(512)
    except OSError as error:
        raise DataError(f"cannot read {path!r}: {error.strerror}") from None
    if start[:8] == b"\x89HDF\r\n\x1a\n":
        return "hdf5"
    if start[16:20] == b"\xde\xc0\xef\xbe":
        return "lmdb"
    if start[257:262] == b"ustar":
        return "tar"
    raise DataError(f"data.path: {path!r} is a file of an unknown kind; expected {_KNOWN}")


def _is_lmdb(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "data.mdb"))


def _is_folder(root: str, name: str) -> bool:
    return os.path.isdir(os.path.join(root, name))


def _has_images(folder: str) -> bool:
    """Whether one of the first class folders has an image."""
    looked = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            hidden = entry.name.startswith(".") or entry.name.lower() in SYSTEM_FOLDERS
            if hidden or not entry.is_dir() or looked > _LOOKED_AT:
                continue
            looked += 1
            try:
                names = os.listdir(entry.path)
            except OSError:
                continue  # told when it is scanned
            if any(os.path.splitext(name)[1].lower() in IMAGE_EXTENSIONS for name in names):
                return True
    return False


def _unused(items: Sequence[_Item], groups: Dict[str, List[_Item]]) -> List[str]:
    used = groups["train"] + groups["val"]
    rest = [item for item in items if item not in used]
    return [f"note: not used: {_names(rest)}, beside train and val"] if rest else []


def _count(items: Sequence[_Item]) -> str:
    return f"{len(items)} x {KINDS[items[0].kind]}"


def _names(items: Sequence[_Item]) -> str:
    names = ", ".join(repr(os.path.basename(item.path)) for item in items[:5])
    return names + (" ..." if len(items) > 5 else "")
