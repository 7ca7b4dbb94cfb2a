"""A data set of a user's own: looked at, cut to a part, its workers ended without harm."""

import contextlib
import mmap
import os
import time
from typing import Any, Dict, List, Sequence, Tuple, Union

import numpy as np
from torch.utils.data import default_collate

from train.data.sources import Record
from train.errors import DataError
from train.own_code import told

_CELLS = 1024
"""Processes that a gate tells apart."""

_LEAVE_S = 5.0
"""How long a gate waits until nobody is inside any more."""


class Gate:
    """Keeps workers from being killed in the middle of a sample.

    A worker that is killed while it holds a lock of the data set leaves it locked for ever, and
    the next loader's workers would wait for it. So the gate is closed first: who comes to it stays
    before it, and who is inside goes out.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._cells = mmap.mmap(-1, _CELLS)  # shared with what is forked; the first says "closed"

    def __enter__(self) -> None:
        if os.getpid() == self._owner:
            return  # threads are never killed
        while self._cells[0]:
            time.sleep(0.1)
        self._cells[self._cell()] = 1

    def __exit__(self, *error: Any) -> None:
        if os.getpid() != self._owner:
            self._cells[self._cell()] = 0

    @staticmethod
    def _cell() -> int:
        return 1 + os.getpid() % (_CELLS - 1)

    def close(self) -> None:
        """Let nobody in any more, and wait until nobody is inside."""
        self._cells[0] = 1
        end = time.monotonic() + _LEAVE_S
        while any(self._cells[1:_CELLS]) and time.monotonic() < end:
            time.sleep(0.005)


class Part:
    """Some samples of a data set.

    Args:
        dataset: the whole.
        indices: which, in this order.

    Attributes:
        gate: to be closed before workers are ended.
    """

    def __init__(self, dataset: Any, indices: Union[Sequence[int], np.ndarray]):
        self.dataset, self.indices = dataset, np.asarray(indices, dtype=np.int64)
        self.gate: Any = Gate()

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "gate": contextlib.nullcontext()}  # a new process shares no memory

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        with self.gate:
            return self.dataset[int(self.indices[index])]


def check_samples(samples: List[Any]) -> None:
    """Are these pairs (image, label) that make a batch?

    Raises:
        DataError: they are not.
    """
    first = samples[0]
    if not (isinstance(first, (tuple, list)) and len(first) == 2):
        what = f"{kind_of(first)}" + (
            f" of {len(first)}" if isinstance(first, (tuple, list)) else ""
        )
        if isinstance(first, Record):
            raise DataError(
                "dataset[i] gives a Record, so this is a source and no data set: give it as "
                "train doctor --data.path MODULE:NAME"
            )
        raise DataError(
            f"dataset[i] gives {what}; a pair (image, label) is needed: image a tensor, an array "
            "or a number, label an int"
        )
    try:
        images, labels = default_collate(samples)
    except Exception as error:
        shapes = sorted({str(tuple(getattr(sample[0], "shape", ()))) for sample in samples})
        seen = f"shapes {' and '.join(shapes[:3])}" if len(shapes) > 1 else kind_of(first[0])
        raise DataError(
            f"samples don't make a batch ({seen}): {told(error)}; return tensors or "
            "arrays of one shape and type"
        ) from error
    if not hasattr(images, "shape"):
        raise DataError(f"images must be tensors, arrays or numbers, got {kind_of(first[0])}")
    if getattr(labels, "dim", lambda: -1)() != 1:
        raise DataError(f"the label of a sample must be one int, got {kind_of(first[1])}")


def kind_of(value: Any) -> str:
    """Its type, as a word in a sentence."""
    name = type(value).__name__
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def pick(count: int, wanted: int) -> Tuple[int, ...]:
    """Indices spread over a data set, all of them where there are no more."""
    return tuple(sorted({int(i) for i in np.linspace(0, count - 1, num=min(count, wanted))}))
