"""Batches from threads of this process, or from the caller itself, in order."""

import queue
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Iterator, List, Optional, Tuple

from train.data import worker
from train.data.absence import Gone
from train.data.ring import Ring
from train.data.sampler import BatchRequest
from train.data.stacks import stack_of_thread
from train.data.stalls import Patience, names_of
from train.data.watch import Maker, Place, Stopped, Watch

JOIN_S = 10.0
"""How long an end waits for threads: one sample takes less, unless its disk no longer answers."""


def _nothing() -> None:
    """What is done while a stream waits, until somebody wants more."""


class LocalStream:
    """Batches made by the caller, when it asks for them.

    Args:
        dataset: makes batches.
        requests: what is wanted, in order.
        ring: where batches are written; None: into memory of their own.

    Attributes:
        ring: as given.
        watch: where the workers are.
        while_waiting: called again and again while data are gone; may raise to leave.
    """

    def __init__(self, dataset: Any, requests: Iterator[BatchRequest], ring: Optional[Ring]):
        self.watch = Watch(1, shared=False)
        self.while_waiting: Callable[[], None] = _nothing
        self._make = Maker(dataset, ring, self.watch.cell(0), None, self._away)
        self._requests, self.ring = requests, ring
        self._workers: List[Any] = []

    def next(self) -> Tuple[BatchRequest, Any]:
        """The next request and what came of it; StopIteration: that was all."""
        request = next(self._requests)
        try:
            return request, self._make(request)
        except BaseException:
            if self.ring is not None:
                self.ring.release(request.slot)
            raise

    def _away(self, gone: Optional[Gone]) -> None:
        self.watch.teller.note(gone)
        self.while_waiting()

    def queue(self) -> Tuple[int, int]:
        """Nothing is made ahead."""
        return 0, 0

    def stacks(self) -> List[Tuple[str, str]]:
        """The caller is the worker."""
        return []

    def unused(self) -> List[BatchRequest]:
        """Nothing is made ahead."""
        return []

    def close(self) -> None:
        """Nothing runs that could be ended."""


class _Task:
    """One batch under way."""

    def __init__(self, request: BatchRequest):
        self.request = request
        self.done = threading.Event()
        self.result: Any = None
        self.error: Optional[BaseException] = None


class ThreadStream:
    """Batches in the order of their requests, made by threads.

    They are daemons: one that hangs on a dead disk does not keep the program from its end.

    Args:
        dataset: makes batches; several threads use it at once.
        requests: what is wanted, in order.
        ring: where batches are written; None: into memory of their own.
        workers: how many.
        prefetch: requests under way for each of them.

    Attributes:
        ring: as given.
        watch: where the workers are.
        while_waiting: called about once a second while no batch comes; may raise to leave.
    """

    def __init__(
        self,
        dataset: Any,
        requests: Iterator[BatchRequest],
        ring: Optional[Ring],
        workers: int,
        prefetch: int,
    ):
        self._dataset, self._requests, self.ring = dataset, requests, ring
        self._inbox: queue.SimpleQueue[Optional[_Task]] = queue.SimpleQueue()
        self._stop, self.watch = threading.Event(), Watch(workers, shared=False)
        self.while_waiting: Callable[[], None] = _nothing
        self._tasks: Deque[_Task] = deque()
        self._workers = [
            threading.Thread(
                target=_work,
                args=(self._inbox, Maker(dataset, ring, self.watch.cell(number), self._stop)),
                name=f"loader worker {number}",
                daemon=True,
            )
            for number in range(workers)
        ]
        for _ in range(workers * prefetch):
            self._ask()
        for thread in self._workers:
            thread.start()

    def next(self) -> Tuple[BatchRequest, Any]:
        """The next request and what came of it.

        Raises:
            StopIteration: that was all.
            DataError: the batch does not come for a long time.
        """
        if not self._tasks:
            raise StopIteration
        task = self._tasks[0]
        if not task.done.is_set():
            self._wait_for(task)
        if task.error is not None:
            raise task.error
        self._tasks.popleft()
        self._ask()
        return task.request, task.result

    def _wait_for(self, task: _Task) -> None:
        patience = Patience(self._dataset, self.watch, _who, self._stack, worker.STALL_S)
        while not task.done.wait(patience.left_s()):
            if patience.is_over():
                raise worker.stall(names_of(self._dataset, self.watch))
            patience.look()
            self.while_waiting()
        patience.done()

    def queue(self) -> Tuple[int, int]:
        """Batches that are made, of how many that were asked for."""
        return sum(task.done.is_set() for task in self._tasks), len(self._tasks)

    def stacks(self) -> List[Tuple[str, str]]:
        """Each worker and where its code stands."""
        places = [place for place in self.watch.places() if place.thread]
        return [(f"worker {place.worker} ({_who(place)})", self._stack(place)) for place in places]

    def _stack(self, place: Place) -> str:
        return stack_of_thread(self._workers[place.worker])

    def _ask(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._tasks.append(_Task(request))
            self._inbox.put(self._tasks[-1])

    def unused(self) -> List[BatchRequest]:
        """After the end: requests whose slots were never handed out and never will be written."""
        hung = any(thread.is_alive() for thread in self._workers)
        return [task.request for task in self._tasks if task.done.is_set() or not hung]

    def close(self) -> None:
        """End the threads, each after the sample that it is at."""
        self._stop.set()
        for _ in self._workers:
            self._inbox.put(None)
        end = time.monotonic() + JOIN_S
        for thread in self._workers:
            thread.join(max(0.0, end - time.monotonic()))


def _who(place: Place) -> str:
    return f"thread {place.thread}"


def _work(inbox: "queue.SimpleQueue[Optional[_Task]]", make: Callable[[Any], Any]) -> None:
    while True:
        task = inbox.get()
        if task is None:
            return
        try:
            task.result = make(task.request)
        except Stopped:
            pass
        except BaseException as error:
            task.error = error
        task.done.set()
        del task  # or the batch would live until the next one comes
