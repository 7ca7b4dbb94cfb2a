"""The life of a worker process: how it is set up, what it does, and what its death means."""

import ctypes
import gc
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any, Optional

import torch

from train.data.ring import Ring
from train.data.watch import Maker, Watch
from train.errors import DataError
from train.machine import Measure, bytes_text

STALL_S = 300.0
"""Workers silent for so long are taken for stuck (a dead network disk): a clear end instead of a
hang."""

_PR_SET_PDEATHSIG = 1  # Linux, sys/prctl.h

_HINTS = {
    "SIGKILL": "most often memory ran out: lower data.workers, data.prefetch or data.batch_size",
    "SIGBUS": "a file was cut off, or its disk failed, while it was read: see that nothing writes "
    "to the data, and check it with `train pack --verify`",
    "SIGSEGV": "a library crashed on what is stored there: take it out of the data, or find all "
    "such samples with `train pack --verify`",
}
_HINT_SHM = "most often /dev/shm is full: give the container more (docker run --shm-size 8g)"
_CUDA = "Cannot re-initialize CUDA in forked subprocess"
_HINT_CUDA = (
    "the data set uses CUDA, and a loader worker can't: do that step on whole batches, where they "
    "arrive in the main process, or take data.workers=0"
)
_NO_HINT = "run with data.workers=0 to see its error"


def work(number: int, dataset: Any, ring: Optional[Ring], watch: Watch, link: Connection) -> None:
    """What a worker does: make the batches that it is asked for, until it is killed.

    Args:
        number: 0 to workers - 1.
        dataset: makes batches; None: it comes through the link, before any request.
        ring: where to, if there is one.
        watch: where to note the sample that it is at.
        link: requests come and batches go here.
    """
    init_worker(number)
    if watch.stacks is not None:
        watch.stacks.answer()
    watch.begin(number)
    if dataset is None:
        dataset = link.recv()
    make = Maker(dataset, ring, watch.cell(number))
    outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # A batch that did not fit into the ring fills the link until it is fetched: the next one is
    # made meanwhile, and the main process never finds both ends waiting for each other.
    threading.Thread(target=_send_all, args=(link, outbox), daemon=True).start()
    while True:
        try:
            request = link.recv()
        except (EOFError, OSError):
            return  # the program ended
        try:
            outbox.put(make(request))
        except Exception as error:
            outbox.put(Raised(error))


def _send_all(link: Connection, outbox: "queue.SimpleQueue[Any]") -> None:
    while True:
        try:
            link.send(outbox.get())
        except (BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:  # it does not pickle, or /dev/shm has no room for it
            link.send(Raised(error))


class WorkerTraceback(Exception):
    """Where in a worker an error was raised: the cause of the error that the caller sees."""

    def __str__(self) -> str:
        return "\n" + "".join(self.args)


class Raised:
    """An error on its way from a worker.

    Args:
        error: what was raised there.
    """

    def __init__(self, error: Exception):
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        if _CUDA in str(error):
            error = RuntimeError(f"{str(error).splitlines()[0]}; {_HINT_CUDA}")
        try:
            self.pickled = pickle.dumps(error)
            pickle.loads(self.pickled)
        except Exception:  # many classes of errors can't be made again from their arguments
            self.pickled = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))

    def again(self) -> Exception:
        """The error, with the worker's traceback as its cause."""
        error: Exception = pickle.loads(self.pickled)
        error.__cause__ = WorkerTraceback(self.text)
        return error


def init_worker(worker_id: int) -> None:
    """Set a worker process up: one thread each, no signal meant for the parent, no life after it.

    Args:
        worker_id: 0 to workers - 1.
    """
    # Ctrl-C and a scheduler's SIGTERM reach the whole process group; the parent decides when we
    # end, so that it can still save. Should it be killed, the kernel ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid != os.getppid():
        # Under forkserver the kernel's parent is the server, which may outlive the program.
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
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


def _end_with(parent: Any) -> None:
    """Wait for the program's end, then end."""
    parent.join()
    os._exit(1)


def death(
    pid: int, exit_code: int, sample: str, through_shm: bool, limit: Optional[Measure[int]] = None
) -> DataError:
    """Say what a dead worker means.

    Args:
        pid: of the process.
        exit_code: as multiprocessing has it: a signal is negative.
        sample: what it was at; '' when that is not known.
        through_shm: its batches travel through /dev/shm.
        limit: of memory, where the kernel has counted a kill for it meanwhile.
    """
    how, hint = f"exited unexpectedly with code {exit_code}", _NO_HINT
    if exit_code < 0:
        how = f"was killed by signal {signal.strsignal(-exit_code)}"
        names = {number.value: number.name for number in signal.Signals}
        name = names.get(-exit_code, "")
        hint = _HINT_SHM if name == "SIGBUS" and through_shm else _HINTS.get(name, _NO_HINT)
        if name == "SIGKILL" and limit is not None:
            hint = (
                f"memory ran out: the limit is {bytes_text(limit.value)} ({limit.source}); "
                "lower data.workers, data.prefetch or data.batch_size, or raise the limit"
            )
    where = f" at sample {sample}" if sample else ""
    return DataError(f"a loader worker (process {pid}) {how}{where}; {hint}")


def stall(samples: str) -> DataError:
    """Say what it means that no batch comes.

    Args:
        samples: what the workers are at; '' when that is not known.
    """
    where = f" at sample {samples}" if samples else ""
    return DataError(
        f"no batch came for {STALL_S:.0f} s: a worker is stuck{where}, most often on a disk that "
        "no longer answers; check that the data folder can be read"
    )
