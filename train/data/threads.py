"""Batches from threads of this process, or from the caller itself, in order."""

import queue
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Iterator, List, Optional, Tuple

from train.data import worker
from train.data.ring import Ring
from train.data.sampler import BatchRequest
from train.data.watch import Maker, Stopped, Watch, sample_name

JOIN_S = 10.0
"""How long an end waits for threads: one sample takes less, unless its disk no longer answers."""


class LocalStream:
    """Batches made by the caller, when it asks for them.

    Args:
        dataset: makes batches.
        requests: what is wanted, in order.
        ring: where batches are written; None: into memory of their own.

    Attributes:
        ring: as given.
    """

    def __init__(self, dataset: Any, requests: Iterator[BatchRequest], ring: Optional[Ring]):
        self._make = Maker(dataset, ring, Watch(1, shared=False).cell(0))
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
        self._stop, self._watch = threading.Event(), Watch(workers, shared=False)
        self._tasks: Deque[_Task] = deque()
        self._workers = [
            threading.Thread(
                target=_work,
                args=(self._inbox, Maker(dataset, ring, self._watch.cell(number), self._stop)),
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
        if not task.done.wait(worker.STALL_S):
            found = [self._watch.index(number) for number in range(len(self._workers))]
            names = [sample_name(self._dataset, index) for index in found if index is not None]
            raise worker.stall(", ".join(names))
        if task.error is not None:
            raise task.error
        self._tasks.popleft()
        self._ask()
        return task.request, task.result

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
