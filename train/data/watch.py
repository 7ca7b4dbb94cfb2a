"""Where each worker is: so that an error, a stop or a death can be told with the sample's name.

A worker notes the index of the sample that it begins, in memory that outlives it. That costs a
tenth of a microsecond a sample.
"""

import copy
import threading
from typing import Any, Optional

from train.data.ring import SharedBlock
from train.data.sources import file_of

_CELL = 64  # bytes, a cache line each: workers do not slow each other down


class Watch:
    """One note for each worker.

    Args:
        workers: how many.
        shared: they are processes; else threads of this one.
    """

    def __init__(self, workers: int, shared: bool):
        self._block: Optional[SharedBlock] = None
        self._local = bytearray(workers * _CELL)
        if shared:
            try:
                self._block = SharedBlock(workers * _CELL)
            except OSError:
                pass  # a death is told without the sample

    def cell(self, worker: int) -> memoryview:
        """The note of one worker: index + 1, or 0 between two batches."""
        memory = self._local if self._block is None else self._block.memory
        first = worker * _CELL // 8
        return memoryview(memory).cast("q")[first : first + 1]

    def index(self, worker: int) -> Optional[int]:
        """The sample that a worker is at, or was at when it died."""
        note = self.cell(worker)[0]
        return note - 1 if note > 0 else None

    def close(self) -> None:
        """Give the memory up."""
        if self._block is not None:
            self._block.close()
            self._block = None


class Stopped(BaseException):
    """The batch is no longer wanted: a thread leaves it between two samples."""


class Noted:
    """A source, or a data set of samples, that notes what is read from it.

    Args:
        whole: what is read from.
        cell: where to note.
        stop: when it is set, reading raises `Stopped`.
    """

    def __init__(self, whole: Any, cell: memoryview, stop: Optional[threading.Event]):
        self._whole, self._cell, self._stop = whole, cell, stop

    def __len__(self) -> int:
        return len(self._whole)

    def __getitem__(self, index: int) -> Any:
        self._cell[0] = index + 1
        if self._stop is not None and self._stop.is_set():
            raise Stopped
        return self._whole[index]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


class SampleNote(Exception):
    """Stands as the cause of an error whose own message can't take the sample's name."""


class Maker:
    """Makes the batches of one worker.

    Args:
        dataset: makes batches; `source`, or `dataset`, is what it reads from.
        ring: where it may write them.
        cell: the worker's note.
        stop: for threads, see `Noted`.
    """

    def __init__(
        self,
        dataset: Any,
        ring: Any,
        cell: memoryview,
        stop: Optional[threading.Event] = None,
    ):
        # A copy of its own: another loader may use the same data set.
        self._dataset, self._cell = copy.copy(dataset), cell
        if hasattr(dataset, "ring"):
            self._dataset.ring = ring
        for name in ("source", "dataset"):
            if hasattr(dataset, name):
                setattr(self._dataset, name, Noted(getattr(dataset, name), cell, stop))
                break

    def __call__(self, request: Any) -> Any:
        """Make the batch that is asked for; an error is given the name of its sample."""
        try:
            return self._dataset.__getitems__(request)
        except Exception as error:
            if self._cell[0] > 0:
                _add_name(error, f"at sample {sample_name(self._dataset, self._cell[0] - 1)}")
            raise
        finally:
            self._cell[0] = 0


def sample_name(dataset: Any, index: int) -> str:
    """What people call a sample: key and container where there are such, else the number."""
    source = getattr(dataset, "source", None)
    if source is None:
        return str(index)
    try:
        file = file_of(source, index)
        return repr(source.key(index)) + (f" of {file!r}" if file else "")
    except Exception:  # what is told here is an error already
        return str(index)


def _add_name(error: Exception, where: str) -> None:
    if len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]} ({where})",)
    elif error.__cause__ is None:
        error.__cause__ = SampleNote(where)
