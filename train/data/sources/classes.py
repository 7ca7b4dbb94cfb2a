"""Names and numbers of the classes: which there are, which are empty, what only one set has."""

import json
import os
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from train.data.sources import BAD_LABEL, Record, Source, file_of
from train.data.sources.names import Names
from train.data.sources.shards import MOST_CLASSES
from train.data.sources.skipped import Skipped, describe_skipped
from train.errors import BadSample, DataError
from train.files import never_wait

Classes = Tuple[str, ...]

_SPLIT_NAMES = frozenset(("train", "training", "val", "valid", "validation", "test", "testing"))


class Labelled:
    """A source of which some class numbers can't be: their records are bad samples, by key.

    Args:
        source: the whole.
        num_classes: how many there are.
    """

    def __init__(self, source: Source, num_classes: int):
        self.source, self.num_classes = source, num_classes

    @property
    def labels(self) -> np.ndarray:
        """Class numbers, int64 (N,); BAD_LABEL where they can't be."""
        return np.where(_possible(self.source.labels, self.num_classes), self.source.labels, -1)

    @property
    def names(self) -> Optional[Names]:
        """The keys, where the source has them in one block."""
        return getattr(self.source, "names", None)

    def __len__(self) -> int:
        return len(self.source)

    def key(self, index: int) -> str:
        """Name one record without reading it."""
        return self.source.key(index)

    def file(self, index: int) -> str:
        """The file that a record lies in."""
        return file_of(self.source, index)

    def __getitem__(self, index: int) -> Record:
        record = self.source[index]
        if not 0 <= record.label < self.num_classes:
            raise BadSample(f"its class is {record.label}, expected 0 to {self.num_classes - 1}")
        return record


def labelled(source: Source, num_classes: int) -> Source:
    """The source itself, or one that refuses the records whose class number can't be."""
    labels = source.labels
    fits = _possible(labels, num_classes) | (labels == BAD_LABEL)  # those say themselves why
    return source if fits.all() else Labelled(source, num_classes)


def _possible(labels: np.ndarray, num_classes: int) -> np.ndarray:
    return (labels >= 0) & (labels < num_classes)


def read_classes(path: str) -> Optional[Classes]:
    """The names of a classes.json; None where there is no such file.

    Raises:
        DataError: it is no JSON list of different names.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", opener=never_wait) as file:
            names: Any = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read {path!r}: {error}; expected a JSON list of names") from None
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise DataError(f'{path!r} must hold a JSON list of names, for example ["cat", "dog"]')
    if len(set(names)) < len(names):
        raise DataError(f"{path!r} has a name twice; the position of a name is its class number")
    return tuple(names)


def numbers(source: Source) -> Classes:
    """Class names of a container without any: its numbers as text."""
    labels = source.labels
    labels = labels[_possible(labels, MOST_CLASSES)]
    return tuple(map(str, range(int(labels.max()) + 1 if len(labels) else 0)))


def class_notes(root: str, classes: Sequence[str]) -> List[str]:
    """What is odd about the names."""
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
            inner = os.path.join(root, classes[0])
            hint = f"; it looks like an unpacking mistake, try data.path={inner}"
        notes.append(
            f"warning: there is only one class, {classes[0]!r}, "
            f"so there is nothing to tell apart{hint}"
        )
    return notes


def refuse_empty(
    source: Source,
    skipped: Sequence[Skipped],
    classes: Classes,
    root: str,
    allow: bool,
    word: str = "classes",
) -> List[str]:
    """A class without an image is an error; where it is allowed, a note.

    Args:
        source: the images.
        skipped: what was left out of it.
        classes: all names.
        root: where it lies.
        allow: go on when some are empty.
        word: what classes are here, in the plural.

    Raises:
        DataError: some, or all, are empty.
    """
    labels = source.labels
    labels = labels[_possible(labels, len(classes))]
    counts = np.bincount(labels, minlength=len(classes))
    empty = [name for name, count in zip(classes, counts) if count == 0]
    if len(empty) == len(classes):
        left_out = "".join(f"; {line}" for line in describe_skipped(skipped))
        raise DataError(f"none of the {len(classes)} {word} of {root!r} has an image{left_out}")
    if not empty:
        return []
    text = (
        f"{len(empty)} of {len(classes)} classes of {root!r} have 0 images: "
        f"{', '.join(map(repr, empty[:10]))}"
    )
    if not allow:
        remove = "remove the folders, " if word != "classes" else ""
        raise DataError(
            f"{text}; add images, {remove}or go on with "
            "--data.allow_empty_classes true (class numbers stay)"
        )
    return [f"warning: {text}"]


def refuse_new(root: str, found: Sequence[str], classes: Classes) -> None:
    """Validation may have no class that training has not.

    Raises:
        DataError: it has.
    """
    unknown = sorted(set(found) - set(classes))
    if unknown:
        raise DataError(
            f"{root!r} has {len(unknown)} class(es) that train has not: "
            f"{', '.join(map(repr, unknown[:10]))}; "
            "a model can't learn them: add them to train or remove them from val"
        )


def missing_note(found: Sequence[str], classes: Classes) -> List[str]:
    """Classes that validation lacks."""
    missing = [name for name in classes if name not in set(found)]
    if not missing:
        return []
    return [
        f"note: val has no images of {len(missing)} class(es): "
        f"{', '.join(map(repr, missing[:10]))}; "
        "class numbers are those of train"
    ]
