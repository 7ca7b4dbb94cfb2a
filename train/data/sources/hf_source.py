"""A Hugging Face data set as a source: the encoded bytes of its image column, never its pixels.

Nothing is downloaded: the data set was loaded by whoever passes it. Its package `datasets` is no
dependency of ours, and is imported here only when somebody passes such a data set.
"""

from typing import Any, List, Sequence, Tuple

import numpy as np

from train.data.sources import BAD_LABEL, Record
from train.errors import BadSample, ConfigError, DataError
from train.files import never_wait

LABELS = ("label", "labels", "target", "class")
"""Columns of whole numbers that are taken for the class, where none is declared as such."""


class HuggingFaceSource:
    """One image column and one label column of a `datasets.Dataset`.

    The rows lie in memory-mapped Arrow files, which workers share.

    Args:
        dataset: map-style.
        image: name of the column with the images, as bytes or as paths.
        label: name of the column with the class numbers.

    Raises:
        ConfigError: no such column, or of another kind.
    """

    def __init__(self, dataset: Any, image: str, label: str):
        features = dataset.features
        for name in (image, label):
            if name not in features:
                raise ConfigError(
                    f"the data set has no column {name!r}; its columns: {', '.join(features)}"
                )
        rows = dataset.with_format(None).select_columns([image, label])
        kind = features[image]
        if type(kind).__name__ == "Image":
            if kind.decode:
                rows = rows.cast_column(image, type(kind)(decode=False))
        elif getattr(kind, "dtype", "") not in ("binary", "large_binary", "string"):
            raise ConfigError(
                f"column {image!r} holds {kind}, expected images (datasets.Image), bytes or paths"
            )
        self.rows, self.image, self.label = rows, image, label
        self.labels = _labels(rows, label)
        self.split = str(dataset.split) if dataset.split is not None else "row"

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Record:
        key, stored = self.key(index), self.rows[index][self.image]
        if isinstance(stored, dict):
            stored = stored["bytes"] if stored["bytes"] is not None else stored["path"]
        if stored is None:
            raise BadSample("there is no image in this row")
        if isinstance(stored, str):
            with open(stored, "rb", buffering=0, opener=never_wait) as file:
                stored = file.readall()
        if self.labels[index] == BAD_LABEL:
            raise BadSample("there is no class in this row")
        return Record(stored, int(self.labels[index]), key)

    def key(self, index: int) -> str:
        """Name one record without reading it."""
        if not 0 <= index < len(self.labels):
            raise IndexError(index)
        return f"{self.split}#{index}"


def adopt_hugging_face(dataset: Any) -> Tuple[HuggingFaceSource, Tuple[str, ...], str]:
    """Find the two columns of a data set: (source, names of the classes, how).

    Raises:
        ConfigError: it is no single map-style data set, has a transform, or more than one column
            could be meant.
    """
    kind = type(dataset).__name__
    if kind.endswith("DatasetDict"):
        raise ConfigError(
            f"build_loader got a {kind} of {', '.join(map(repr, dataset))}; pass one of them, for "
            f"example dataset[{next(iter(dataset), 'train')!r}]"
        )
    if kind == "IterableDataset":
        raise ConfigError(
            "build_loader got a streamed data set, which has no index, so it can't be shuffled "
            "exactly or resumed; load it without streaming=True"
        )
    if dataset.format["type"] == "custom":
        raise ConfigError(
            "the data set has a transform of its own (set_transform, with_transform); pass "
            "dataset.with_format(None) and our line makes the images, or wrap it in a data set "
            "whose items are (image, label)"
        )
    features = dataset.features
    images = [name for name, column in features.items() if type(column).__name__ == "Image"]
    declared = [name for name, column in features.items() if hasattr(column, "names")]
    likely = [name for name in LABELS if getattr(features.get(name), "dtype", "")[:3] == "int"]
    image = _only(images, "images (datasets.Image)", features)
    label = _only(declared or likely[:1], "classes (datasets.ClassLabel)", features)
    names = tuple(map(str, getattr(features[label], "names", ())))
    how = f"the encoded images of its column {image!r}, classes of {label!r}"
    return HuggingFaceSource(dataset, image, label), names, how


def _only(found: Sequence[str], what: str, features: Any) -> str:
    if len(found) == 1:
        return found[0]
    several = f"{len(found)} columns of {what}: {', '.join(found)}" if found else ""
    hint = ""
    if not found and what.startswith("classes"):
        hint = "; for names in a text column: dataset.class_encode_column(NAME)"
    raise ConfigError(
        f"the data set has {several or f'no column of {what}; its columns: ' + ', '.join(features)}"
        f"{hint}; say which: from train.data.sources.hf_source import HuggingFaceSource; "
        "HuggingFaceSource(dataset, image=NAME, label=NAME)"
    )


def _labels(rows: Any, label: str) -> np.ndarray:
    """The whole column, int64 (N,); BAD_LABEL where there is none."""
    column = rows.select_columns([label]).with_format("arrow")[:].column(label)
    found: List[Any] = column.to_pylist() if column.null_count else column.to_numpy()
    if column.null_count:
        found = [BAD_LABEL if value is None else value for value in found]
    labels = np.asarray(found)
    if labels.dtype.kind not in "iu" and len(labels):
        raise ConfigError(
            f"column {label!r} holds {rows.features[label]}, expected class numbers; "
            f"dataset.class_encode_column({label!r}) makes them of names"
        )
    if labels.ndim != 1:
        raise DataError(f"column {label!r} holds {labels.shape[1:]} numbers a row, expected one")
    return labels.astype(np.int64)
