"""From a path to what is trained and validated on.

Which folder is which, which class has which number.
"""

import hashlib
import os
import stat
from typing import Callable, List, NamedTuple, Optional, Tuple

import numpy as np

from train.data.sources import Source, Subset
from train.data.sources.folder import Scan, Skipped, describe_skipped, list_classes, scan_folder
from train.errors import DataError

VAL_NAMES = ("val", "valid", "validation")
_SPLIT_NAMES = frozenset(("train", "training", "val", "valid", "validation", "test", "testing"))


class Splits(NamedTuple):
    """The data of a run.

    Attributes:
        train, val: the two sources.
        classes: names; the position is the class number, the same in both.
        notes: what the user should know, one line each.
        skipped: what the scan left out, keys relative to `root`.
        root: absolute path of the data folder.
    """

    train: Source
    val: Source
    classes: Tuple[str, ...]
    notes: List[str]
    skipped: List[Skipped]
    root: str


def open_splits(
    path: str,
    val_share: float,
    seed: int,
    allow_empty: bool = False,
    progress: Optional[Callable[[int], None]] = None,
) -> Splits:
    """Open an image folder: `path/train` and `path/val`, else a share of `path` set aside.

    Args:
        path: the data folder.
        val_share: share of each class set aside where there is no val folder, in (0, 1).
        seed: decides, with each file's name, which ones those are.
        allow_empty: go on when a class has no image.
        progress: called with the number of images found so far.

    Raises:
        DataError: missing or unreadable folder, no classes, an empty class, a class that only val
            has.
    """
    root = os.path.abspath(os.path.expanduser(path))
    try:
        is_folder = stat.S_ISDIR(os.stat(root).st_mode)
    except PermissionError:
        raise DataError(
            f"data.path: {root!r} can't be reached: permission denied for user {os.geteuid()} on "
            "it or on a folder above it"
        ) from None
    except OSError:
        is_folder = False
    if not is_folder:
        raise DataError(
            f"data.path: no such folder: {path!r}"
            + ("" if path != "data/sample" else "; make it with: python scripts/sample_data.py")
        )
    has_train = os.path.isdir(os.path.join(root, "train"))
    train_root = os.path.join(root, "train") if has_train else root
    val_root = next(
        (
            os.path.join(root, name)
            for name in VAL_NAMES
            if has_train and os.path.isdir(os.path.join(root, name))
        ),
        None,
    )
    classes, skipped = list_classes(train_root)
    unused = sorted(
        name
        for name in (os.listdir(root) if has_train else [])
        if name not in ("train", *VAL_NAMES) and os.path.isdir(os.path.join(root, name))
    )
    if not classes:
        raise DataError(
            f"{train_root!r} has no class folders: expected {train_root}/<class>/<image>.jpg, "
            "one folder per class"
        )
    notes = _class_notes(train_root, classes)
    if unused:
        notes.append(f"note: not used: {', '.join(map(repr, unused[:5]))}, beside train and val")
    scan = scan_folder(train_root, classes, progress)
    skipped = [_below(item, train_root, root) for item in skipped + scan.skipped]
    _refuse_empty(scan, train_root, allow_empty, notes)
    if val_root is None:
        train, val = split(scan.source, val_share, seed)
        if len(val) == 0:
            notes.append(
                "warning: every class has a single image, so validation uses the training images"
            )
            return Splits(scan.source, scan.source, scan.classes, notes, skipped, root)
        where = "no val folder" if has_train else "no train and val folders"
        notes.append(
            f"{where}: {len(val)} of {len(scan.source)} images set aside for validation "
            "(data.val_share)"
        )
        return Splits(train, val, scan.classes, notes, skipped, root)
    beside = _check_val_classes(val_root, classes, notes)
    val_scan = scan_folder(val_root, classes, progress)
    if len(val_scan.source) == 0:
        raise DataError(
            f"{val_root!r} has no images; fill it, or remove it and a share of train is set aside"
        )
    skipped += [_below(item, val_root, root) for item in beside + val_scan.skipped]
    return Splits(scan.source, val_scan.source, scan.classes, notes, skipped, root)


def split(source: Source, val_share: float, seed: int) -> Tuple[Subset, Subset]:
    """Set a share of each class aside, at least one image of each class that has two or more.

    The second part is empty where every class has a single image.

    Each file's place depends on its name and the seed, not on the other files.
    """
    ranks = np.array(
        [
            int.from_bytes(
                hashlib.blake2b(
                    source.key(index).encode("utf-8", "surrogateescape"),
                    digest_size=8,
                    key=seed.to_bytes(8, "little"),
                ).digest(),
                "little",
            )
            for index in range(len(source))
        ],
        dtype=np.uint64,
    )
    in_val = np.zeros(len(source), dtype=bool)
    for label in np.unique(source.labels):
        members = np.flatnonzero(source.labels == label)
        count = min(len(members) - 1, max(1, round(val_share * len(members))))
        in_val[members[np.argsort(ranks[members], kind="stable")[:count]]] = True
    return Subset(source, np.flatnonzero(~in_val)), Subset(source, np.flatnonzero(in_val))


def _class_notes(train_root: str, classes: List[str]) -> List[str]:
    notes = []
    splits = [name for name in classes if name.lower() in _SPLIT_NAMES]
    if splits and len(classes) > 1:
        notes.append(
            f"warning: the classes {', '.join(map(repr, splits))} have the names of splits; a "
            "split is found only as 'train' and 'val' (or 'valid', 'validation'), in small letters"
        )
    if len(classes) == 1:
        hint = ""
        if classes[0].lower() in ("train", "val", "images", "data"):
            inner = os.path.join(train_root, classes[0])
            hint = f"; it looks like an unpacking mistake, try data.path={inner}"
        notes.append(
            f"warning: there is only one class, {classes[0]!r}, "
            f"so there is nothing to tell apart{hint}"
        )
    return notes


def _refuse_empty(scan: Scan, root: str, allow_empty: bool, notes: List[str]) -> None:
    classes = scan.classes
    counts = np.bincount(scan.source.labels, minlength=len(classes))
    left_out = "".join(f"; {line}" for line in describe_skipped(scan.skipped))
    empty = [name for name, count in zip(classes, counts) if count == 0]
    if len(empty) == len(classes):
        raise DataError(
            f"none of the {len(classes)} class folders of {root!r} has an image{left_out}"
        )
    if not empty:
        return
    text = (
        f"{len(empty)} of {len(classes)} classes of {root!r} have 0 images: "
        f"{', '.join(map(repr, empty[:10]))}"
    )
    if not allow_empty:
        raise DataError(
            f"{text}; add images, remove the folders, or go on with "
            "--data.allow_empty_classes true (class numbers stay)"
        )
    notes.append(f"warning: {text}")


def _check_val_classes(val_root: str, classes: List[str], notes: List[str]) -> List[Skipped]:
    """Val's folders must be among the classes of train; gives what lies beside them."""
    found, skipped = list_classes(val_root)
    unknown = sorted(set(found) - set(classes))
    if unknown:
        raise DataError(
            f"{val_root!r} has {len(unknown)} class(es) that train has not: "
            f"{', '.join(map(repr, unknown[:10]))}; "
            "a model can't learn them: add them to train or remove them from val"
        )
    missing = [name for name in classes if name not in found]
    if missing:
        notes.append(
            f"note: val has no images of {len(missing)} class(es): "
            f"{', '.join(map(repr, missing[:10]))}; "
            "class numbers are those of train"
        )
    return skipped


def _below(item: Skipped, folder: str, root: str) -> Skipped:
    """The same item, its key relative to the data folder."""
    return item._replace(
        key=os.path.join(os.path.relpath(folder, root), item.key) if folder != root else item.key
    )
