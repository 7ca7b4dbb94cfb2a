"""An image folder as a data set: which folder is which, which class has which number."""

import os
from typing import List, Optional, Sequence, Tuple

from train.data.sources import Source
from train.data.sources.classes import (
    Classes,
    class_notes,
    missing_note,
    read_classes,
    refuse_empty,
    refuse_new,
)
from train.data.sources.folder import list_classes, scan_folder
from train.data.sources.index import Progress
from train.data.sources.layout import VAL_NAMES, Place
from train.data.sources.skipped import Skipped
from train.errors import DataError


def open_folder(
    place: Place, allow_empty: bool, progress: Optional[Progress]
) -> Tuple[Source, Optional[Source], Classes, List[str], List[Skipped]]:
    """Scan `train` and `val`, or the one folder there is.

    Returns:
        The training set, the validation set or None, the names of the classes, notes, and what was
        left out.
    """
    root, train_root = place.root, place.train[0]
    found, skipped = list_classes(train_root)
    if not found:
        raise DataError(
            f"{train_root!r} has no class folders: expected {train_root}/<class>/<image>.jpg, "
            "one folder per class"
        )
    classes, notes = _folder_classes(place, found)
    notes = class_notes(train_root, classes) + notes + _unused(root, train_root) + place.notes
    scan = scan_folder(train_root, classes, progress)
    skipped = [_below(item, train_root, root) for item in skipped + scan.skipped]
    notes += refuse_empty(
        scan.source, scan.skipped, classes, train_root, allow_empty, "class folders"
    )
    if place.val is None:
        return scan.source, None, classes, notes, skipped
    val_root = place.val[0]
    found, beside = list_classes(val_root)
    refuse_new(val_root, found, classes)
    notes += missing_note(found, classes)
    val = scan_folder(val_root, classes, progress)
    if len(val.source) == 0:
        raise DataError(
            f"{val_root!r} has no images; fill it, or remove it and a share of train is set aside"
        )
    skipped += [_below(item, val_root, root) for item in beside + val.skipped]
    return scan.source, val.source, classes, notes, skipped


def _folder_classes(place: Place, found: Sequence[str]) -> Tuple[Classes, List[str]]:
    """Class folders in text order; in the order of classes.json, where a pack has one."""
    try:
        given = read_classes(place.classes)
    except DataError as error:
        return tuple(found), [f"note: not used: {error}"]
    if given is None:
        return tuple(found), []
    lacking = [name for name in found if name not in given]
    if lacking:
        return tuple(found), [f"note: not used: {place.classes!r}, it lacks {lacking[0]!r}"]
    return given, []


def _unused(root: str, train_root: str) -> List[str]:
    if train_root == root:
        return []
    names = sorted(
        name
        for name in os.listdir(root)
        if name not in ("train", *VAL_NAMES) and os.path.isdir(os.path.join(root, name))
    )
    if not names:
        return []
    return [f"note: not used: {', '.join(map(repr, names[:5]))}, beside train and val"]


def _below(item: Skipped, folder: str, root: str) -> Skipped:
    """The same item, its key relative to the data folder."""
    return item._replace(
        key=os.path.join(os.path.relpath(folder, root), item.key) if folder != root else item.key
    )
