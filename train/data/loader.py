"""Stop 6 of the line: workers over stop 5 -> host batches, in order.

One stream of batches runs through all epochs: while the last batches of an epoch are used, workers
already make the first ones of the next, so there is no pause between epochs and no worker is ever
restarted.
"""

import atexit
import multiprocessing.util  # noqa: F401  see _shut_down_all
import time
import weakref
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, Union

from train.data import handover
from train.data.account import Account
from train.data.batch import Batch, Failure
from train.data.plan import held
from train.data.processes import ProcessStream
from train.data.ring import Ring
from train.data.sampler import BatchRequest, Sampler
from train.data.threads import LocalStream, ThreadStream
from train.errors import DataError

Stream = Union[ProcessStream, ThreadStream, LocalStream]

_open_streams: "weakref.WeakSet[Any]" = weakref.WeakSet()


class Loader:
    """Batches of a data set, one epoch per `for`.

    `for batch in loader` goes from the loader's position to the end of that epoch; the next `for`
    is the next epoch. Leaving a `for` early stops its workers; the position stays at the last batch
    that was handed out.

    A batch is never written again while anything holds it: a tensor of it, a view, an array.

    Args:
        dataset: makes batches: `Batches`, or `Samples` of a user's own.
        sampler: decides the order.
        workers: how many; 0 makes batches in the caller's thread.
        prefetch: batches each worker keeps ready; ignored without workers.
        pin_memory: page-lock the batches, for asynchronous copies to a CUDA device.
        start_method: of processes: fork, forkserver or spawn.
        epochs: where the order ends; None: never.
        workers_kind: process or thread.

    Attributes:
        account: what its time and its workers' time goes to.
        while_waiting: called about once a second while no batch comes; may raise to leave.
    """

    def __init__(
        self,
        dataset: Any,
        sampler: Sampler,
        workers: int = 0,
        prefetch: Optional[int] = None,
        pin_memory: bool = False,
        start_method: str = "fork",
        epochs: Optional[int] = None,
        workers_kind: str = "process",
    ):
        self.dataset, self.sampler = dataset, sampler
        self.workers, self.prefetch, self.pin_memory = workers, prefetch, pin_memory
        self.start_method, self.epochs, self.workers_kind = start_method, epochs, workers_kind
        self.epoch, self.samples_seen = 0, 0
        self.account = Account()
        self.while_waiting: Callable[[], None] = lambda: None
        self._idle: Optional[Tuple[Tuple[int, int], Stream]] = None
        self._ring: Optional[Ring] = None

    def __len__(self) -> int:
        """Batches that the next `for` gives, on this rank."""
        epoch, samples_seen = self._position()
        if self.epochs is not None and epoch >= self.epochs:
            return 0
        return len(self.sampler.batch_sizes(samples_seen))

    def state_dict(self) -> Dict[str, int]:
        """Where the loader stands: `{seed, epoch, samples_seen}`."""
        return self.sampler.state(self.epoch, self.samples_seen)

    def load_state_dict(self, state: Dict[str, int]) -> None:
        """Go on from a state, in O(1), with any number of workers."""
        if state["seed"] != self.sampler.seed:
            raise DataError(
                f"the loader's state has seed {state['seed']}, this run has {self.sampler.seed}"
            )
        self.epoch, self.samples_seen = state["epoch"], state["samples_seen"]

    def start(self) -> None:
        """Start the workers now: before threads and CUDA exist that a fork would not survive."""
        position = self._position()
        if self._idle is None or self._idle[0] != position:
            self._end_idle()
            self._idle = (position, self._open(position))

    def close(self) -> None:
        """Stop the workers that wait between two epochs, and give the ring up.

        Batches that are still in use stay valid.
        """
        self._end_idle()
        ring, self._ring = self._ring, None
        if ring is not None:
            ring.remove_user()

    def _end_idle(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None:
            _shut_down(idle[1])

    def __del__(self) -> None:
        if getattr(self, "_ring", None) is not None or getattr(self, "_idle", None) is not None:
            self.close()

    def __iter__(self) -> Iterator[Batch]:
        self.epoch, self.samples_seen = epoch, samples_seen = self._position()
        left = len(self.sampler.batch_sizes(samples_seen))
        if left == 0 or (self.epochs is not None and epoch >= self.epochs):
            return
        idle, self._idle = self._idle, None
        if idle is not None and idle[0] == (epoch, samples_seen):
            stream = idle[1]
        else:
            if idle is not None:
                _shut_down(idle[1])
            stream = self._open((epoch, samples_seen))
        try:
            while left > 0:
                batch = self._next(stream)
                left -= 1
                self.epoch, self.samples_seen = epoch, batch.samples_seen
                if left == 0:
                    # Before the last batch is handed out: a consumer that counts its batches never
                    # asks for one more, and the workers are to live on.
                    self.epoch, self.samples_seen = self._position()
                    self._end_idle()  # of another `for` that ran beside this one
                    self._idle = (self._position(), stream)
                yield batch
                del batch  # its slot is free as soon as the consumer is done with it
        finally:
            if left > 0:
                _shut_down(stream)

    def _position(self) -> Tuple[int, int]:
        """Where the next `for` begins: at the next epoch when nothing of this one is left."""
        if not self.sampler.batch_sizes(self.samples_seen):
            return self.epoch + 1, 0
        return self.epoch, self.samples_seen

    def _open(self, position: Tuple[int, int]) -> Stream:
        if hasattr(self.dataset, "warm"):
            self.dataset.warm()  # compile once, here, and not in each worker
        stream: Stream
        ring = self._ring_for()
        requests = _requests(self.sampler, position, self.epochs, ring)
        if self.workers == 0:
            stream = LocalStream(self.dataset, requests, ring)
        elif self.workers_kind == "thread":
            stream = ThreadStream(self.dataset, requests, ring, self.workers, self.prefetch or 1)
        else:
            stream = ProcessStream(
                self.dataset,
                requests,
                ring,
                self.workers,
                self.prefetch or 1,
                self.start_method,
                through_shm=not hasattr(self.dataset, "ring"),
            )
        if ring is not None:
            ring.add_user()
        self.account.follow(stream)
        _open_streams.add(stream)
        return stream

    def _ring_for(self) -> Optional[Ring]:
        """The loader's ring; None for data sets that give tensors of their own."""
        if self._ring is None and hasattr(self.dataset, "ring"):
            size = self.dataset.recipe.image_size
            slots = self.workers * (self.prefetch or 1) + held(self.pin_memory)
            try:
                self._ring = Ring(slots, (self.sampler.batch_size, size, size, 3))
                self._ring.add_user()
            except OSError as error:
                handover.say_once(
                    f"note: no memory to share with workers ({error.strerror or error}), so each "
                    "batch is copied from them"
                )
        return self._ring

    def _next(self, stream: Stream) -> Batch:
        asked = time.perf_counter()
        stream.while_waiting = self.while_waiting
        request, result = stream.next()
        came = time.perf_counter()
        self.account.wait_s += came - asked
        ring = stream.ring
        if ring is not None and not isinstance(result, Failure) and result.slot >= 0:
            batch = handover.in_ring(result, ring, self.pin_memory)
        else:
            if ring is not None:
                ring.release(request.slot)
            if isinstance(result, Failure):
                raise DataError(result.message)
            batch = handover.beside_ring(result, self.pin_memory)
        self.account.hand_s += time.perf_counter() - came
        return batch


def _requests(
    sampler: Sampler, position: Tuple[int, int], epochs: Optional[int], ring: Optional[Ring]
) -> Iterator[BatchRequest]:
    """The endless order from a position, each request with the slot for its batch.

    A function of its own: a method would hold the loader, and a forgotten loader would stay.
    """
    for request in sampler.requests(*position, epochs):
        if ring is not None:
            request = request._replace(slot=ring.acquire(len(request.indices)))
        yield request


def _shut_down(stream: Stream) -> None:
    """End the workers of a stream, and give back what they would have written to."""
    if stream not in _open_streams:
        return
    _open_streams.discard(stream)
    stream.close()
    ring, stream.ring = stream.ring, None
    if ring is not None:
        for request in stream.unused():
            ring.release(request.slot)
        ring.remove_user()


@atexit.register
def _shut_down_all() -> None:
    """End the workers of a program that ends in the middle of an epoch.

    Worker processes ignore SIGTERM (worker.py), which is what multiprocessing's own exit sends
    before it waits for them; threads must not run while the interpreter goes. Exit functions run
    last in, first out, so multiprocessing.util, which registers its own, is imported above.
    """
    for stream in list(_open_streams):
        _shut_down(stream)
