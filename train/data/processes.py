"""Batches from worker processes, in order.

Each worker has a link of its own, so there is no lock that a killed worker could leave locked, and
nothing that needs /dev/shm. A request goes to the worker that has the fewest. A death is noticed at
once, however the workers were started.
"""

import multiprocessing
import os
import pickle
import time
from collections import deque
from multiprocessing import connection
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

from train.data import worker
from train.data.handover import say_once
from train.data.ring import Ring
from train.data.sampler import BatchRequest
from train.data.stacks import ASLEEP, NO_ANSWER, process_state
from train.data.stalls import Patience, names_of
from train.data.watch import Place, Watch, sample_name
from train.errors import ConfigError, DataError
from train.machine import memory_limit_bytes, oom_kills

BEGIN_S = 5.0
"""A forked worker that sleeps for so long before its first line hangs: see `_fork_again`."""


class ProcessStream:
    """Batches in the order of their requests, made by processes.

    Args:
        dataset: makes batches.
        requests: what is wanted, in order.
        ring: where batches are written; None: they travel through the links.
        workers: how many.
        prefetch: requests under way for each of them.
        start_method: fork, forkserver or spawn.
        through_shm: its tensors travel through /dev/shm (a user's own samples).

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
        start_method: str,
        through_shm: bool,
    ):
        self._dataset, self._requests, self._through_shm = dataset, requests, through_shm
        self.ring = ring
        self.while_waiting: Callable[[], None] = lambda: None
        self._owner, self.watch = os.getpid(), Watch(workers, shared=True)
        self._workers: List[Any] = []
        self._links: List[Any] = []
        self._pending: Deque[Tuple[int, BatchRequest]] = deque()
        self._queues: List[Deque[int]] = [deque() for _ in range(workers)]
        self._done: Dict[int, Any] = {}
        self._count, self._oom_kills = 0, oom_kills().value
        self._born, self._start_method = [0.0] * workers, start_method
        # To a new interpreter a large index goes afterwards: as an argument it would keep each
        # start waiting for the imports of the one before. Tensors of a user's can't go that way.
        late = start_method != "fork" and not through_shm
        try:
            for number in range(workers):
                given = None if late else dataset
                link, process = self._start(number, given)
                self._links.append(link)
                self._workers.append(process)
            for number in range(workers if late else 0):
                self._send(number, dataset)
            for _ in range(workers * prefetch):
                self._ask()
        except BaseException:
            self.close()
            raise

    def _start(self, number: int, dataset: Any) -> Tuple[Any, Any]:
        context: Any = multiprocessing.get_context(self._start_method)
        ours, theirs = context.Pipe()
        with theirs:
            process = context.Process(
                target=worker.work,
                args=(number, dataset, self.ring, self.watch, theirs),
                name=f"loader worker {number}",
                daemon=True,
            )
            try:
                process.start()
            except BaseException:
                ours.close()
                raise
        self._born[number] = time.monotonic()
        return ours, process

    def next(self) -> Tuple[BatchRequest, Any]:
        """The next request and what came of it.

        Raises:
            StopIteration: that was all.
            DataError: a worker died, or none has sent anything for a long time.
        """
        if not self._pending:
            raise StopIteration
        self._receive(0)
        number, request = self._pending[0]
        if number not in self._done:
            self._wait_for(number)
        result = self._done.pop(number)
        if isinstance(result, worker.Raised):
            raise result.again()
        self._pending.popleft()
        self._ask()  # before the batch is handed out: nobody waits while it is used
        return request, result

    def _wait_for(self, number: int) -> None:
        patience = Patience(self._dataset, self.watch, self._who, self._stack, worker.STALL_S)
        while number not in self._done:
            if self._receive(patience.left_s()):
                patience.heard()
            elif patience.is_over():
                raise worker.stall(names_of(self._dataset, self.watch))
            else:
                patience.look()
                self._fork_again()
                self.while_waiting()
        patience.done()

    def _fork_again(self) -> None:
        """Replace workers that hang in their fork; they have done nothing yet.

        A child has only the thread that forked it. A lock that another thread held at that moment
        is never given back there: Python before 3.12 takes the lock of its thread states first of
        all, which a library's thread (gloo's) takes without holding the GIL.
        """
        if self._start_method != "fork":
            return
        for number, process in enumerate(self._workers):
            late = time.monotonic() - self._born[number] > BEGIN_S
            if not late or self.watch.has_begun(number) or process_state(process.pid) != ASLEEP:
                continue
            process.kill()
            process.join()
            process.close()
            self._links[number].close()
            self._links[number], self._workers[number] = self._start(number, self._dataset)
            requests = dict(self._pending)
            for count in self._queues[number]:
                self._send(number, requests[count])
            say_once(
                "note: a loader worker hung while it was forked, on a lock that another thread "
                "held, and was forked again; data.workers_kind=forkserver avoids that"
            )

    def queue(self) -> Tuple[int, int]:
        """Batches that are made, of how many that were asked for."""
        handed = self._count - len(self._pending)
        return max(0, self.watch.work().batches - handed), len(self._pending)

    def stacks(self) -> List[Tuple[str, str]]:
        """Each worker and where its code stands."""
        places = [place for place in self.watch.places() if place.thread]
        return [(f"worker {at.worker} ({self._who(at)})", self._stack(at)) for at in places]

    def _stack(self, place: Place) -> str:
        return NO_ANSWER if self.watch.stacks is None else self.watch.stacks.ask(place.thread)

    def _who(self, place: Place) -> str:
        pid = place.thread or self._workers[place.worker].pid  # a note of its own comes later
        state = process_state(pid)
        return f"process {pid}" + (f", {state}" if state else "")

    def _ask(self) -> None:
        request = next(self._requests, None)
        if request is None:
            return
        self._pending.append((self._count, request))
        chosen = min(range(len(self._queues)), key=lambda number: len(self._queues[number]))
        self._queues[chosen].append(self._count)
        self._count += 1
        self._send(chosen, request)

    def _send(self, number: int, what: Any) -> None:
        try:
            self._links[number].send(what)
        except OSError as error:
            raise self._death(number) from error
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"the data set can't be sent to a worker process: {error}; use "
                "data.workers_kind=fork or data.workers_kind=thread, or see that it pickles"
            ) from error

    def _receive(self, timeout_s: float) -> bool:
        """Fetch what has come; False when nothing came for so long."""
        watched = [*self._links, *(process.sentinel for process in self._workers)]
        ready = connection.wait(watched, timeout_s)
        for number, link in enumerate(self._links):
            if link in ready:
                try:
                    self._done[self._queues[number][0]] = link.recv()
                except (EOFError, OSError) as error:
                    raise self._death(number) from error
                self._queues[number].popleft()
        for number, process in enumerate(self._workers):
            # What it had sent before comes first.
            if process.sentinel in ready and self._links[number] not in ready:
                raise self._death(number)
        return bool(ready)

    def _death(self, number: int) -> DataError:
        process, index = self._workers[number], self.watch.index(number)
        process.join(2)  # its link closes a moment before it is dead
        process.kill()
        process.join()
        where = "" if index is None else sample_name(self._dataset, index)
        killed = oom_kills().value > self._oom_kills
        limit = memory_limit_bytes() if killed else None
        return worker.death(process.pid, process.exitcode, where, self._through_shm, limit)

    def unused(self) -> List[BatchRequest]:
        """After the end: requests whose slots were never handed out."""
        return [request for _, request in self._pending]

    def close(self) -> None:
        """End the workers, at once: they own nothing that could be lost."""
        if self._owner != os.getpid():
            return  # a worker that was forked meanwhile
        workers, self._workers = self._workers, []
        for process in workers:
            process.kill()
        for process in workers:
            process.join()
            process.close()
        for link in self._links:
            link.close()
        self._links = []
        self.watch.close()
