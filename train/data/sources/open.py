"""From a path to sources, whatever the container; classes have the same numbers in all of them."""

import os
import stat
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from train.data.sources import Source
from train.data.sources.classes import (
    Classes,
    class_notes,
    labelled,
    missing_note,
    numbers,
    read_classes,
    refuse_empty,
    refuse_new,
)
from train.data.sources.folder_sets import open_folder
from train.data.sources.index import Progress
from train.data.sources.layout import Place, locate
from train.data.sources.shards import MOST_CLASSES
from train.data.sources.skipped import Skipped, describe_skipped
from train.errors import DataError
from train.own_code import check_half, is_named


class Sets(NamedTuple):
    """The sets that lie at a path.

    Attributes:
        train: the training set, or all there is.
        val: the validation set; None: there is none.
        classes: names; the position is the class number.
        notes: what the user should know, one line each.
        skipped: what the scan left out; keys relative to `root`.
        kind: "folder", "tar", "lmdb", "hdf5", "tfrecord" or "own".
        root: absolute path; of one's own module:function.
    """

    train: Source
    val: Optional[Source]
    classes: Tuple[str, ...]
    notes: List[str]
    skipped: List[Skipped]
    kind: str
    root: str


def open_sets(
    path: str,
    allow_empty: bool = False,
    progress: Optional[Progress] = None,
    trust: bool = False,
) -> Sets:
    """Open what lies at a path, of any kind.

    Args:
        path: a folder of images, the folder of a pack, a container, a folder of shards; or
            module:function, which returns a source of a user's own.
        allow_empty: go on when a class has no image.
        progress: called with the number of images found so far.
        trust: unpickle what a container holds as pickles.

    Raises:
        DataError: see `train.data.sources.splits.open_splits`.
        ConfigError: there is no such function, or what it returns is no source.
    """
    if is_named(path):
        return _own_sets(path, allow_empty)
    check_half("data.path", path, "a source")
    place = locate(_existing(path))
    if place.kind == "folder":
        return Sets(*open_folder(place, allow_empty, progress), place.kind, place.root)
    given = read_classes(place.classes)
    train = _open_files(place, place.train, given, progress, trust)
    if len(train.source) == 0:
        why = [*train.notes, *describe_skipped(train.skipped)]
        raise DataError(f"{place.root!r} has no images{''.join(f'; {line}' for line in why)}")
    classes = given or numbers(train.source)
    notes = place.notes + train.notes + class_notes(place.root, classes)
    notes += refuse_empty(train.source, train.skipped, classes, place.root, allow_empty)
    val, skipped = None, list(train.skipped)
    if place.val is not None:
        found = _open_files(place, place.val, given, progress, trust)
        if len(found.source) == 0:
            raise DataError(
                f"the validation set of {place.root!r} has no images; pack it again, or remove it "
                "and a share of the training set is set aside"
            )
        present = _present(found.source, classes, all_numbers=not given)
        refuse_new(place.root, present, classes)
        notes += found.notes + missing_note(present, classes)
        skipped += found.skipped
        val = labelled(found.source, len(classes))
    source = labelled(train.source, len(classes))
    return Sets(source, val, classes, notes, skipped, place.kind, place.root)


def _own_sets(name: str, allow_empty: bool) -> Sets:
    """What a function of the user's own returns."""
    from train.data.sources.own import open_own

    train, val, given = open_own(name)
    classes = given or numbers(train)
    notes = refuse_empty(train, [], classes, name, allow_empty)
    if val is not None:
        present = _present(val, classes, all_numbers=not given)
        refuse_new(name, present, classes)
        notes += missing_note(present, classes)
        val = labelled(val, len(classes))
    return Sets(labelled(train, len(classes)), val, classes, notes, [], "own", name)


def _existing(path: str) -> str:
    """The absolute path, which exists."""
    if "://" in path or path.startswith("pipe:"):
        raise DataError(
            f"data.path: {path!r} is an address, expected a folder or file on this machine; copy "
            "the shards here first (aws s3 cp, gsutil cp, rclone, wget); a script of yours can "
            "stream them instead: train/data/sources/stream.py"
        )
    root = os.path.abspath(os.path.expanduser(path))
    try:
        mode = os.stat(root).st_mode
    except PermissionError:
        raise DataError(
            f"data.path: {root!r} can't be reached: permission denied for user {os.geteuid()} on "
            "it or on a folder above it"
        ) from None
    except OSError:
        mode = 0
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataError(
            f"data.path: no such folder: {path!r}"
            + ("" if path != "data/sample" else "; make it with: python scripts/sample_data.py")
        )
    return root


class _Files(NamedTuple):
    source: Source
    notes: List[str]
    skipped: List[Skipped]


def _open_files(
    place: Place,
    paths: Sequence[str],
    classes: Optional[Tuple[str, ...]],
    progress: Optional[Progress],
    trust: bool,
) -> _Files:
    """Open one set of containers. Their modules are imported when they are needed."""
    num_classes = len(classes) if classes else None
    if place.kind == "tar":
        from train.data.sources.tar import open_tar

        tar = open_tar(paths, num_classes, progress, trust)
        return _Files(tar.source, tar.notes, tar.skipped)
    if place.kind == "tfrecord":
        from train.data.sources.tfrecord import open_tfrecord

        records = open_tfrecord(paths, num_classes, progress)
        return _Files(records.source, records.notes, records.skipped)
    if place.kind == "lmdb":
        from train.data.sources.lmdb_source import open_lmdb

        database = open_lmdb(paths[0], trust, progress)
        missing = [Skipped(key, "missing_record", "") for key in database.missing]
        return _Files(database.source, database.notes, missing)
    from train.data.sources.hdf5_source import open_hdf5

    file = open_hdf5(paths[0], progress)
    return _Files(file.source, file.notes, [])


def _present(source: Source, classes: Classes, all_numbers: bool) -> List[str]:
    """Names of the classes that a set has; where asked, also numbers that have no name."""
    found = np.unique(source.labels)
    found = found[(found >= 0) & (found < (MOST_CLASSES if all_numbers else len(classes)))]
    return [classes[n] if n < len(classes) else str(n) for n in found.tolist()]
