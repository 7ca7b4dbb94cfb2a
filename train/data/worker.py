"""The life of a worker process: how it is set up, and what its death means."""

import ctypes
import gc
import os
import re
import signal
import sys

import torch

from train.errors import DataError

STALL_S = 300
"""A worker silent for so long is taken for stuck (a dead network disk): a clear end instead of a
hang."""

_PR_SET_PDEATHSIG = 1  # Linux, sys/prctl.h


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


def explain_death(error: RuntimeError) -> Exception:
    """Say what a dead or silent worker means; any other error is passed on as it is.

    Args:
        error: what torch raised.

    Returns:
        A DataError with the process, the signal and what to do, or the error itself.
    """
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
