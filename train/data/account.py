"""What a loader's time goes to: its workers', and that of the process that asks it for batches."""

import weakref
from typing import Any, List, NamedTuple, Optional, Tuple

from train.data.watch import Place, Watch, Work


class Spent(NamedTuple):
    """Seconds since the loader was made, or between two moments.

    Attributes:
        read_s, make_s: of all workers together, see `Work`.
        wait_s: the caller waited for a batch; without workers it made them meanwhile.
        hand_s: the caller took batches over: tensors, page-locking.
    """

    read_s: float = 0.0
    make_s: float = 0.0
    wait_s: float = 0.0
    hand_s: float = 0.0

    def less(self, other: "Spent") -> "Spent":
        """What was spent since."""
        return Spent(*(mine - its for mine, its in zip(self, other)))


class Queue(NamedTuple):
    """How full the queue is.

    Attributes:
        ready: batches that are made and wait for the caller.
        asked: batches that were asked for, those among them.
        slots, free: of the ring, in batches; 0 where there is none.
    """

    ready: int
    asked: int
    slots: int
    free: int


class Account:
    """Sums up the times of one loader, over all streams of batches that it opens."""

    def __init__(self) -> None:
        self.wait_s = self.hand_s = 0.0
        self._watch: Optional[Watch] = None
        self._before = Work()
        self._stream: Any = lambda: None

    def follow(self, stream: Any) -> None:
        """A new stream was opened."""
        self._before, self._watch = self._work(), stream.watch
        self._stream = weakref.ref(stream)

    def spent(self) -> Spent:
        """All until now."""
        work = self._work()
        return Spent(work.read_s, work.make_s, self.wait_s, self.hand_s)

    def places(self) -> List[Place]:
        """Where each worker is now."""
        return [] if self._watch is None else self._watch.places()

    def queue(self) -> Queue:
        """How full the queue is now."""
        stream = self._stream()
        if stream is None:
            return Queue(0, 0, 0, 0)
        ring = stream.ring
        slots = (0, 0) if ring is None else (ring.slots, ring.free)
        return Queue(*stream.queue(), *slots)

    def stacks(self) -> List[Tuple[str, str]]:
        """Each worker and where its code stands."""
        stream = self._stream()
        return [] if stream is None else stream.stacks()

    def _work(self) -> Work:
        return self._before if self._watch is None else self._before.plus(self._watch.work())
