"""Where each worker is, and what its time goes to.

A worker notes the index of the sample that it begins, and sums up how long it reads and how long it
makes batches of what it read, in memory that outlives it: so that an error, a stop, a stall or a
death can be told with the sample's name, and an epoch with the stage that was short. That costs
half a microsecond a sample.
"""

import copy
import threading
import time
from typing import Any, Callable, List, NamedTuple, Optional

from train.data import absence
from train.data.absence import Gone
from train.data.ring import SharedBlock
from train.data.sources import file_of
from train.data.stacks import StackFile

_CELL = 64  # bytes, a cache line each: workers do not slow each other down

# What stands where in a cell, int64 each. _MARK is the moment since when the worker does what it
# does, by the clock that all processes of a machine share.
_SAMPLE, _READING, _MARK, _READ_NS, _MAKE_NS, _BATCHES, _ID, _AWAY = range(8)


class Work(NamedTuple):
    """What workers have done so far.

    Attributes:
        read_s: seconds in `source[index]`; with a user's own data set all that it does.
        make_s: seconds of decoding, resizing and so on, or of collating a user's samples.
        batches: made.
    """

    read_s: float = 0.0
    make_s: float = 0.0
    batches: int = 0

    def plus(self, other: "Work") -> "Work":
        """The sum of both."""
        batches = self.batches + other.batches
        return Work(self.read_s + other.read_s, self.make_s + other.make_s, batches)


class Place(NamedTuple):
    """Where a worker is.

    Attributes:
        worker: its number.
        thread: its thread's number in the system; of a process the process's; 0 before it begins.
        sample: index that it is at, or was at when it died; None between two batches.
        reading: it reads; else it decodes, resizes, collates.
        since_s: seconds since it began that.
        work: what it has done so far.
        away: it waits for data that are gone (absence.py).
    """

    worker: int
    thread: int
    sample: Optional[int]
    reading: bool
    since_s: float
    work: Work
    away: bool = False


class Watch:
    """One note for each worker.

    Args:
        workers: how many.
        shared: they are processes; else threads of this one.

    Attributes:
        workers: how many.
        stacks: takes the stacks of processes; None for threads, and where the system can't.
        teller: says that data are gone, for all workers once.
    """

    def __init__(self, workers: int, shared: bool):
        self.workers, self.teller = workers, absence.Teller()
        self.stacks: Optional[StackFile] = None
        self._block: Optional[SharedBlock] = None
        self._local = bytearray(workers * _CELL)
        if shared:
            try:
                self._block = SharedBlock(workers * _CELL)
                self.stacks = StackFile()
            except OSError:
                pass  # a death is told without the sample, a stall without the stack

    def cell(self, worker: int) -> memoryview:
        """The note of one worker: what stands in it only this module knows."""
        memory = self._local if self._block is None else self._block.memory
        first = worker * _CELL // 8
        return memoryview(memory).cast("q")[first : first + _CELL // 8]

    def begin(self, worker: int) -> None:
        """In a worker: it runs, and can be asked for its stack."""
        self.cell(worker)[_ID] = threading.get_native_id()

    def has_begun(self, worker: int) -> bool:
        """Whether a worker runs; True where that can't be known."""
        return self._block is None or self.cell(worker)[_ID] != 0

    def index(self, worker: int) -> Optional[int]:
        """The sample that a worker is at, or was at when it died."""
        note = self.cell(worker)[_SAMPLE]
        return note - 1 if note > 0 else None

    def places(self) -> List[Place]:
        """Where each worker is now."""
        now, found = time.monotonic_ns(), []
        for worker in range(self.workers):
            cell = self.cell(worker).tolist()
            sample = cell[_SAMPLE] - 1 if cell[_SAMPLE] > 0 else None
            since_s = max(0, now - cell[_MARK]) / 1e9 if cell[_MARK] else 0.0
            work = Work(cell[_READ_NS] / 1e9, cell[_MAKE_NS] / 1e9, cell[_BATCHES])
            reading, away = bool(cell[_READING]), bool(cell[_AWAY])
            found.append(Place(worker, cell[_ID], sample, reading, since_s, work, away))
        return found

    def work(self) -> Work:
        """What all of them have done so far."""
        total = Work()
        for place in self.places():
            total = total.plus(place.work)
        return total

    def close(self) -> None:
        """Give the memory up; what stood there last can still be read."""
        if self._block is not None:
            self._local = bytearray(self._block.memory[: len(self._local)])
            self._block.close()
            self._block = None
        if self.stacks is not None:
            self.stacks.close()
            self.stacks = None


class Stopped(BaseException):
    """The batch is no longer wanted: a thread leaves it between two samples."""


class Noted:
    """A source, or a data set of samples, that notes what is read from it.

    Args:
        whole: what is read from.
        cell: where to note.
        stop: when it is set, reading raises `Stopped`.
        while_away: called while the data are gone, and with None when they are back.
    """

    def __init__(
        self,
        whole: Any,
        cell: memoryview,
        stop: Optional[threading.Event],
        while_away: Optional[Callable[[Optional[Gone]], None]] = None,
    ):
        self._whole, self._cell, self._stop, self._while_away = whole, cell, stop, while_away

    def __len__(self) -> int:
        return len(self._whole)

    def __getitem__(self, index: int) -> Any:
        cell, now = self._cell, time.monotonic_ns()
        cell[_MAKE_NS] += now - cell[_MARK]  # the sample before was made since then
        cell[_SAMPLE], cell[_READING], cell[_MARK] = index + 1, 1, now
        try:
            self._leave_if_stopped()
            return absence.read(self._whole, index, self._away)
        finally:
            end = time.monotonic_ns()
            cell[_READ_NS] += end - now
            cell[_READING], cell[_MARK] = 0, end

    def _leave_if_stopped(self) -> None:
        if self._stop is not None and self._stop.is_set():
            raise Stopped

    def _away(self, gone: Optional[Gone]) -> None:
        self._cell[_AWAY] = gone is not None
        self._leave_if_stopped()
        if self._while_away is not None:
            self._while_away(gone)

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
        while_away: for the caller's own thread, see `Noted`.
    """

    def __init__(
        self,
        dataset: Any,
        ring: Any,
        cell: memoryview,
        stop: Optional[threading.Event] = None,
        while_away: Optional[Callable[[Optional[Gone]], None]] = None,
    ):
        # A copy of its own: another loader may use the same data set.
        self._dataset, self._cell = copy.copy(dataset), cell
        if hasattr(dataset, "ring"):
            self._dataset.ring = ring
        for name in ("source", "dataset"):
            if hasattr(dataset, name):
                noted = Noted(getattr(dataset, name), cell, stop, while_away)
                setattr(self._dataset, name, noted)
                break

    def __call__(self, request: Any) -> Any:
        """Make the batch that is asked for; an error is given the name of its sample."""
        cell = self._cell
        cell[_ID], cell[_MARK] = threading.get_native_id(), time.monotonic_ns()
        try:
            return self._dataset.__getitems__(request)
        except Exception as error:
            if cell[_SAMPLE] > 0:
                _add_name(error, f"at sample {sample_name(self._dataset, cell[_SAMPLE] - 1)}")
            raise
        finally:
            end = time.monotonic_ns()
            cell[_MAKE_NS] += end - cell[_MARK]
            cell[_SAMPLE], cell[_MARK] = 0, end
            cell[_BATCHES] += 1


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
