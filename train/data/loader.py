"""Stop 6 of the line: workers over stop 5 -> host batches, in order. torch's DataLoader, tuned.

One stream of batches runs through all epochs: while the last batches of an epoch are used, workers
already decode the first ones of the next, so there is no pause between epochs and no worker is ever
restarted.
"""

import atexit
import multiprocessing.util  # noqa: F401  see _shut_down_all
import threading
import weakref
from typing import Any, Dict, Iterator, Optional, Tuple

import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils import signal_handling

from train.data.batch import Batch, Batches, Failure, identity
from train.data.sampler import BatchRequest, Sampler
from train.data.worker import STALL_S, explain_death, init_worker
from train.errors import DataError

_open_streams: "weakref.WeakSet[Any]" = weakref.WeakSet()


class _Requests:
    """The batch sampler that torch's DataLoader iterates: a position in the endless order."""

    def __init__(self, sampler: Sampler, epoch: int, samples_seen: int, epochs: Optional[int]):
        self.sampler, self.start, self.epochs = sampler, (epoch, samples_seen), epochs

    def __iter__(self) -> Iterator[BatchRequest]:
        return self.sampler.requests(self.start[0], self.start[1], self.epochs)


class Loader:
    """Batches of a data set, one epoch per `for`.

    `for batch in loader` goes from the loader's position to the end of that epoch; the next `for`
    is the next epoch. Leaving a `for` early stops its workers; the position stays at the last batch
    that was handed out.

    Args:
        dataset: makes batches.
        sampler: decides the order.
        workers: processes; 0 makes batches in this process.
        prefetch: batches each worker keeps ready; ignored without workers.
        pin_memory: page-lock the batches, for asynchronous copies to a CUDA device.
        start_method: fork, forkserver or spawn.
        epochs: where the order ends; None: never.
    """

    def __init__(
        self,
        dataset: Batches,
        sampler: Sampler,
        workers: int = 0,
        prefetch: Optional[int] = None,
        pin_memory: bool = False,
        start_method: str = "fork",
        epochs: Optional[int] = None,
    ):
        self.dataset, self.sampler = dataset, sampler
        self.workers, self.prefetch, self.pin_memory = workers, prefetch, pin_memory
        self.start_method, self.epochs = start_method, epochs
        self.epoch, self.samples_seen = 0, 0
        self._idle: Optional[Tuple[Tuple[int, int], Iterator[Any]]] = None

    def __len__(self) -> int:
        """Batches that the next `for` gives, on this rank."""
        epoch, samples_seen = self._position()
        if self.epochs is not None and epoch >= self.epochs:
            return 0
        return len(self.sampler.global_batch_sizes(samples_seen))

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
            self.close()
            self._idle = (position, self._open(position))

    def close(self) -> None:
        """Stop the workers that wait between two epochs."""
        idle, self._idle = self._idle, None
        if idle is not None:
            _shut_down(idle[1])

    def __del__(self) -> None:
        if getattr(self, "_idle", None) is not None:
            self.close()

    def __iter__(self) -> Iterator[Batch]:
        self.epoch, self.samples_seen = epoch, samples_seen = self._position()
        sizes = self.sampler.global_batch_sizes(samples_seen)
        if self.epochs is not None and epoch >= self.epochs:
            return
        idle, self._idle = self._idle, None
        if idle is not None and idle[0] == (epoch, samples_seen):
            stream = idle[1]
        else:
            if idle is not None:
                _shut_down(idle[1])
            stream = self._open((epoch, samples_seen))
        left = len(sizes)
        try:
            while left > 0:
                batch = self._next(stream)
                left -= 1
                self.epoch, self.samples_seen = epoch, batch.samples_seen
                if left == 0:
                    # Before the last batch is handed out: a consumer that counts its batches never
                    # asks for one more, and the workers are to live on.
                    self.epoch, self.samples_seen = self._position()
                    self._idle = (self._position(), stream)
                yield batch
        finally:
            if left > 0:
                _shut_down(stream)

    def _position(self) -> Tuple[int, int]:
        """Where the next `for` begins: at the next epoch when nothing of this one is left."""
        if not self.sampler.global_batch_sizes(self.samples_seen):
            return self.epoch + 1, 0
        return self.epoch, self.samples_seen

    def _open(self, position: Tuple[int, int]) -> Iterator[Any]:
        options: Dict[str, Any] = {}
        # torch refuses these without workers, and its defaults differ by version.
        if self.workers > 0:
            options = {
                "prefetch_factor": self.prefetch,
                "timeout": STALL_S,
                "worker_init_fn": init_worker,
                "multiprocessing_context": self.start_method,
            }
        requests = _Requests(self.sampler, *position, self.epochs)
        # torch's stubs want a batch to be a list. Its fetcher takes any object where the data set
        # has __getitems__, and collates whatever that returns.
        stream: Any = iter(
            DataLoader(
                self.dataset,
                batch_sampler=requests,  # type: ignore[arg-type]
                collate_fn=identity,  # type: ignore[arg-type]
                num_workers=self.workers,
                pin_memory=self.pin_memory,
                # Of its own: DataLoader draws a seed from it at every start, which must not move
                # the model's.
                generator=torch.Generator(),
                **options,
            )
        )
        # In this process torch only asks this event whether it is set, through a lock that workers
        # share: one that is killed while it holds it would stop us for ever. Ours has no such lock;
        # workers never need it, since they are killed (_shut_down).
        # The one that workers were given stays referenced: without its owner it is gone, and a
        # worker that is only starting (spawn) could not open it.
        stream._event_of_workers = getattr(stream, "_workers_done_event", None)
        stream._workers_done_event = threading.Event()
        _open_streams.add(stream)
        return stream

    def _next(self, stream: Iterator[Any]) -> Batch:
        try:
            batch = next(stream)
        except (RuntimeError, EOFError, OSError) as error:
            explained = explain_death(error, getattr(stream, "_workers", ()))
            if explained is error:
                raise
            raise explained from error
        if isinstance(batch, Failure):
            raise DataError(batch.message)
        return batch


def _shut_down(stream: Any) -> None:
    """End the workers of a stream, at once.

    torch's own way asks each worker through shared locks, and waits for ever when a worker was
    killed while it held one. Workers own nothing that could be lost, so they are killed.
    """
    workers = getattr(stream, "_workers", [])
    _open_streams.discard(stream)
    if not workers or stream._shutdown:
        return
    stream._shutdown = True  # so torch's way, at the end of the object's life, does nothing
    if stream._worker_pids_set:  # else torch would report each of them as a crash
        signal_handling._remove_worker_pids(id(stream))
        stream._worker_pids_set = False
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()
    for queue in stream._index_queues:
        queue.cancel_join_thread()
        queue.close()
    if hasattr(stream, "_pin_memory_thread"):
        stream._pin_memory_thread_done_event.set()
        stream._worker_result_queue.cancel_join_thread()
        stream._worker_result_queue.put((None, None))  # wakes the thread
        stream._pin_memory_thread.join(timeout=10)


@atexit.register
def _shut_down_all() -> None:
    """End the workers of a program that ends in the middle of an epoch.

    Workers ignore SIGTERM (worker.py), which is what multiprocessing's own exit sends before it
    waits for them. Exit functions run last in, first out, so multiprocessing.util, which registers
    its own, is imported above.
    """
    for stream in list(_open_streams):
        _shut_down(stream)
