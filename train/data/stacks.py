"""Where a worker's code stands right now: asked by a signal, answered by faulthandler.

A process that hangs in a library answers too: the handler is C code, and writes into an anonymous
file that both sides hold. One that waits for a dead disk inside the kernel does not.
"""

import faulthandler
import fcntl
import os
import signal
import sys
import threading
import time
import traceback
from multiprocessing import context, reduction
from typing import Any, List, Optional, Tuple

from train.data.ring import memory_file

SIGNAL = signal.SIGUSR2
"""Asks for the stack."""

ANSWER_S = 1.0
"""How long an answer is waited for."""

NO_ANSWER = "  it does not answer: it waits inside the kernel, or is stopped"

ASLEEP = "asleep"

_STATES = {
    "R": "computing",
    "S": ASLEEP,
    "D": "waiting in the kernel, most often for a disk",
    "T": "stopped by a signal",
    "t": "stopped by a debugger",
    "Z": "dead",
}


class StackFile:
    """Takes the stacks of worker processes.

    Raises:
        OSError: this system has no anonymous files.
    """

    def __init__(self) -> None:
        self._descriptor: Optional[int] = memory_file()
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags | os.O_APPEND)

    def answer(self) -> None:
        """In a worker: write the stack of the main thread whenever the signal comes."""
        if self._descriptor is not None:
            faulthandler.register(SIGNAL, file=self._descriptor, all_threads=False, chain=False)

    def ask(self, pid: int) -> str:
        """The stack of a worker that answers, innermost call first; else a line that says so."""
        if self._descriptor is None:
            return NO_ANSWER
        begin = size = os.fstat(self._descriptor).st_size
        try:
            os.kill(pid, SIGNAL)
        except OSError:
            return "  it is gone"
        end = time.monotonic() + ANSWER_S
        while time.monotonic() < end:
            time.sleep(0.02)
            before, size = size, os.fstat(self._descriptor).st_size
            if begin < size == before:
                break  # all of it: nothing more came
        text = os.pread(self._descriptor, size - begin, begin).decode("utf-8", "backslashreplace")
        return "\n".join(_ours(text.splitlines())) or NO_ANSWER

    def close(self) -> None:
        """Give it up here."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __getstate__(self) -> Tuple[Any]:
        context.assert_spawning(self)
        assert self._descriptor is not None
        return (reduction.DupFd(self._descriptor),)

    def __setstate__(self, state: Tuple[Any]) -> None:
        self._descriptor = state[0].detach()


def _ours(lines: List[str]) -> List[str]:
    """Without the first line, which numbers a thread, and without what started the worker."""
    calls = lines[1:]
    for number, line in enumerate(calls):
        if line.endswith(" in work") and "worker.py" in line:
            return calls[: number + 1]
    return calls


def stack_of_thread(thread: threading.Thread) -> str:
    """The stack of a thread of this process, innermost call first, in faulthandler's form."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "  it is gone"
    entries = reversed(traceback.extract_stack(frame))
    return "\n".join(f'  File "{e.filename}", line {e.lineno} in {e.name}' for e in entries)


def process_state(pid: int) -> str:
    """What the kernel says that a process does; '' where it does not say."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return _STATES.get(file.read().rsplit(")", 1)[1].split()[0], "")
    except (OSError, IndexError):
        return ""
