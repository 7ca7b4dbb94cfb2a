"""The life of a worker process: how it is set up, and what its death means."""

import ctypes
import gc
import multiprocessing
import os
import re
import signal
import sys
import threading
from multiprocessing import connection
from typing import Any, Iterator, Optional, Sequence

import torch

from train.errors import DataError

STALL_S = 300
"""A worker silent for so long is taken for stuck (a dead network disk): a clear end instead of a
hang."""

_PR_SET_PDEATHSIG = 1  # Linux, sys/prctl.h

_HINTS = {
    "Killed": "most often memory ran out: lower data.workers, data.prefetch or data.batch_size",
    "Bus error": "most often /dev/shm is full: give the container more (docker run --shm-size 8g)",
}


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


def explain_death(error: Exception, workers: Sequence[Any] = ()) -> Exception:
    """Say what a dead or silent worker means; any other error is passed on as it is.

    Args:
        error: what torch raised.
        workers: the processes, to ask which one is dead when the error does not say.

    Returns:
        A DataError with the process, how it ended and what to do, or the error itself.
    """
    unclear = isinstance(error, (EOFError, OSError))  # a connection broke; why, the worker knows
    dead = _first_dead(workers, 2.0 if unclear else 0.0) if workers else None
    if dead is not None:
        return _death(
            str(dead.pid), signal.strsignal(-dead.exitcode) if dead.exitcode < 0 else None
        )
    text = " ".join(_chain(error))
    if "timed out after" in text:
        return DataError(
            f"no batch came for {STALL_S} s: a worker is stuck, most often on a disk that no "
            "longer answers; check that the data folder can be read, or see with data.workers=0 "
            "which file it is"
        )
    killed = re.search(r"worker \(pid (\d+)\) is killed by signal: ([^.]+)", text)
    if killed:
        return _death(killed.group(1), killed.group(2))
    left = re.search(r"worker \(pid(?:\(s\))? ([\d, ]+)\) exited unexpectedly", text)
    if left:
        return _death(left.group(1), None)
    return error


def _first_dead(workers: Sequence[Any], wait_s: float) -> Optional[Any]:
    """The worker that died, if one did; its end may be seen a moment after its last message."""
    try:
        ended = connection.wait([worker.sentinel for worker in workers], wait_s)
        for worker in workers:
            if worker.sentinel in ended:
                worker.join()  # its pipes close a moment before it is dead
    except RuntimeError:
        pass  # torch's handler of SIGCHLD, which may speak up at any line
    return next((worker for worker in workers if worker.exitcode not in (None, 0)), None)


def _death(pid: str, signal_name: Optional[str]) -> DataError:
    hint = _HINTS.get(signal_name or "", "run with data.workers=0 to see its error")
    how = f"was killed by signal {signal_name}" if signal_name else "exited unexpectedly"
    return DataError(f"a loader worker (process {pid}) {how}; {hint}")


def _chain(error: Optional[BaseException]) -> Iterator[str]:
    """The error's text and those of what led to it: torch tells of a signal, then of its effect."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or error.__context__
