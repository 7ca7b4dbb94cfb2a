"""Stop 6 of the line: workers over stop 5 -> host batches, in order. torch's DataLoader, tuned.

One stream of batches runs through all epochs: while the last batches of an epoch are used, workers
already decode the first ones of the next, so there is no pause between epochs and no worker is ever
restarted.
"""

import ctypes
import gc
import os
import re
import signal
import sys
from typing import Any, Dict, Iterator, Optional, Tuple

import torch
from torch.utils.data import DataLoader

from train.data.batch import Batch, Batches, Failure, identity
from train.data.sampler import BatchRequest, Sampler
from train.errors import DataError

STALL_S = 300
"""A worker silent for so long is taken for stuck (a dead network disk): a clear end instead of a
hang."""

_PR_SET_PDEATHSIG = 1  # Linux, sys/prctl.h


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
        """Batches left in the current epoch, on this rank."""
        return len(self.sampler.global_batch_sizes(self.samples_seen))

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
        whole = False
        try:
            for _ in sizes:
                batch = self._next(stream)
                self.epoch, self.samples_seen = epoch, batch.samples_seen
                yield batch
            whole = True
        finally:
            if whole:
                self.epoch, self.samples_seen = epoch + 1, 0
                self._idle = ((epoch + 1, 0), stream)
            else:
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
        return iter(
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

    def _next(self, stream: Iterator[Any]) -> Batch:
        try:
            batch = next(stream)
        except RuntimeError as error:
            raise _explain(error) from error
        if isinstance(batch, Failure):
            raise DataError(batch.message)
        return batch


def init_worker(worker_id: int) -> None:
    """Set a worker process up: one thread each, no signal meant for the parent, no life after it.

    Args:
        worker_id: 0 to workers - 1.
    """
    # Ctrl-C and a scheduler's SIGTERM reach the whole process group; the parent decides when we
    # end, so that it can still save. Should it be killed, the kernel ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # One thread a library: workers x cores threads would only get in each other's way. The
    # variables are for libraries that are loaded later; OpenCV also hangs in a forked child unless
    # its threads are off.
    for name in (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ):
        os.environ[name] = "1"
    os.environ["OPENCV_FOR_THREADS_NUM"] = "1"
    torch.set_num_threads(1)
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(0)
    # The collector would write to the headers of everything that was inherited, and so copy those
    # pages.
    gc.freeze()


def _shut_down(stream: Iterator[Any]) -> None:
    """Stop the workers of an abandoned stream and wait for them."""
    workers = getattr(stream, "_workers", [])
    if not workers:
        return
    stream._shutdown_workers()  # type: ignore[attr-defined]
    for worker in workers:
        if worker.is_alive():  # they ignore SIGTERM, see init_worker
            worker.kill()
            worker.join()


def _explain(error: RuntimeError) -> Exception:
    """Say what a dead or silent worker means; any other error is passed on as it is."""
    text = str(error)
    if "timed out after" in text:
        return DataError(
            f"no batch came for {STALL_S} s: a worker is stuck, most often on a disk that no "
            "longer answers; check that the data folder can be read, or see with data.workers=0 "
            "which file it is"
        )
    killed = re.search(
        r"worker \(pid\(?s?\)? ?\(?([\d, ]+)\)?\) (is killed by signal: (\w+)|exited unexpectedly)",
        text,
    )
    if killed is None and "exited unexpectedly" not in text and "killed by signal" not in text:
        return error
    how = (
        f"was killed by signal {killed.group(3)}"
        if killed and killed.group(3)
        else "exited unexpectedly"
    )
    pid = killed.group(1) if killed else "unknown"
    hint = {
        "Killed": "most often memory ran out: lower data.workers, data.prefetch or data.batch_size",
        "Bus": "most often /dev/shm is full: give the container more (docker run --shm-size 8g)",
    }.get(
        killed.group(3) if killed and killed.group(3) else "",
        "run with data.workers=0 to see its error",
    )
    return DataError(f"a loader worker (process {pid}) {how}; {hint}")
