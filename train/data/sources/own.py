"""Sources of a user's own, made by a function that `data.path` names as `module:function`."""

import contextlib
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

from train.data.sources import Record, Source
from train.errors import BadSample, ConfigError
from train.own_code import call, kind, place, told

_CONTRACT = ("__len__", "__getitem__", "key", "labels")


class Own(NamedTuple):
    """What the function returned.

    Attributes:
        train: the training set, or all there is.
        val: the validation set; None: there is none.
        classes: the attribute `classes` of the training set; None: their numbers are their names.
    """

    train: Source
    val: Optional[Source]
    classes: Optional[Tuple[str, ...]]


def open_own(name: str) -> Own:
    """Call `module:function`; it returns one source, or a pair: to train on, to validate on.

    Raises:
        ConfigError: there is no such function, it raised something, or what it returns does not
            keep the contract of a source (`train.data.sources`).
    """
    made = call("data.path", name, "a source")
    pair = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    train = _checked(name, pair[0])
    val = None if pair[1] is None else _checked(name, pair[1])
    classes = getattr(pair[0], "classes", None)
    return Own(train, val, tuple(map(str, classes)) if classes is not None else None)


class Checked:
    """A source of a user's own whose records are looked at: a mistake names the record.

    Args:
        name: module:function, for messages.
        source: what it returned.
    """

    def __init__(self, name: str, source: Any):
        self.name, self.source = name, source

    @property
    def labels(self) -> np.ndarray:
        """Class numbers, int64 (N,)."""
        return self.source.labels

    def __len__(self) -> int:
        return len(self.source)

    def __getattr__(self, attribute: str) -> Any:
        # What else a source may have: `root`, `file`, `names`. Not while it is unpickled.
        if attribute.startswith("__") or attribute == "source":
            raise AttributeError(attribute)
        return getattr(self.source, attribute)

    def key(self, index: int) -> str:
        """Name one record without reading it."""
        return self.source.key(index)

    def __getitem__(self, index: int) -> Record:
        said = f"data.path {self.name}: record {index}"
        try:
            record = self.source[index]
        except (BadSample, OSError):
            raise
        except (Exception, SystemExit) as error:
            raise ConfigError(f"{said} raised {told(error)}{place(error)}") from error
        if not isinstance(record, Record):
            raise ConfigError(f"{said} is {kind(record)}; expected a Record")
        if not isinstance(record.data, (bytes, bytearray, memoryview, np.ndarray)):
            raise ConfigError(f"{said} has {kind(record.data)} as data; expected bytes or an array")
        label = int(self.source.labels[index])
        if record.label != label:
            raise ConfigError(f"{said} has the label {record.label!r}, and `labels` says {label}")
        if label < 0:
            raise BadSample(f"its class is {label}, expected 0 or more")
        return record


def _checked(name: str, source: Any) -> Source:
    _check(name, source)
    return Checked(name, source)


def _check(name: str, source: Any) -> None:
    """Keep the mistakes that would only show in the middle of a run."""
    said = f"data.path {name}: what it returns is {kind(source)}"
    missing = [word for word in _CONTRACT if not hasattr(source, word)]
    if missing:
        raise ConfigError(
            f"{said} without {', '.join(missing)}; expected a source: len(s), s[i] -> Record, "
            's.key(i) and s.labels (docs/architecture.md, "How to add a source")'
        )
    try:
        count, labels = len(source), source.labels
    except Exception as error:
        raise ConfigError(
            f"{said}, of which len() or labels raised {told(error)}{place(error)}"
        ) from error
    if not isinstance(labels, np.ndarray) or labels.shape != (count,):
        shape = f" of shape {labels.shape}" if isinstance(labels, np.ndarray) else ""
        raise ConfigError(
            f"{said} whose labels are {kind(labels)}{shape}; expected a NumPy array of int64 of "
            f"shape ({count},)"
        )
    if labels.dtype != np.int64:
        raise ConfigError(f"{said} whose labels are {labels.dtype}; expected int64")
    if count == 0:
        raise ConfigError(f"{said} of 0 records")
    with contextlib.suppress(BadSample, OSError):  # one bad record is no reason to stop
        Checked(name, source)[0]
