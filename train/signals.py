"""SIGINT (Ctrl-C), SIGTERM, SIGUSR1 (a scheduler's notice) and SIGHUP (a closed terminal).

The first asks the run to save at the next step, the second ends it at once.
"""

import os
import signal
import time
from multiprocessing import popen_fork
from types import FrameType
from typing import Any, Callable, Dict, Optional

from train.errors import Interrupted

# SIGHUP: the terminal was closed. One that the program was started to ignore (nohup, a job in the
# background) stays ignored.
CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)

ECHO_S = 1.0
"""Under torchrun a signal comes twice: to all processes of the job, and handed on by torchrun."""


class StopRequest:
    """Catches the signals while the run can be saved.

    ```
    with StopRequest(say) as stop:
        ...
        if stop.signum: save and leave
    ```

    Args:
        say: prints one line to the user.
        echo_s: a signal that comes within so many seconds of the first one is the same one.
    """

    def __init__(self, say: Callable[[str], None], echo_s: float = 0.0):
        self.say, self._echo_s = say, echo_s
        self.signum: Optional[int] = None
        self._first = 0.0
        self._before: Dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        for signum in CAUGHT:
            if signal.getsignal(signum) == signal.SIG_IGN:
                continue
            self._before[signum] = signal.signal(signum, self._caught)
        return self

    def __exit__(self, *_: Any) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _caught(self, signum: int, _: Optional[FrameType]) -> None:
        now = time.monotonic()
        if self.signum is not None:
            if now - self._first < self._echo_s:
                return
            # No clean-up that could hang; workers end with their parent (data/loader.py).
            os._exit(128 + signum)
        self.signum, self._first = signum, now
        self.say(f"{signal.Signals(signum).name}: {WHAT_COMES}")


WHAT_COMES = "saving at the next step; a second one ends at once, unsaved"


class StopAtOnce:
    """Ctrl-C and SIGTERM for a command that keeps nothing: it ends with one line.

    Inside, a signal raises KeyboardInterrupt, so that whoever started workers ends them; leaving
    raises Interrupted. Processes forked inside inherit the handlers, and end as if they had none.
    """

    def __init__(self) -> None:
        self.signum: Optional[int] = None
        self._owner = os.getpid()
        self._before: Dict[int, Any] = {}

    def __enter__(self) -> "StopAtOnce":
        for signum in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(signum) != signal.SIG_IGN:  # as a program in the background has it
                self._before[signum] = signal.signal(signum, self._caught)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        # What a lost or swallowed one, or a worker that it ended, led to is no error of its own.
        if isinstance(error, Interrupted):  # packing of a sample caught it itself
            self.signum = self.signum or error.signum
        if self.signum is not None and os.getpid() == self._owner:
            message = "stopped; nothing is kept, the same command begins again"
            raise Interrupted(self.signum, message) from None

    def _caught(self, signum: int, frame: Optional[FrameType]) -> None:
        if os.getpid() != self._owner:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
            return
        self.signum = self.signum or signum
        if not _is_forking(frame):
            raise KeyboardInterrupt

    def look(self) -> None:
        """Raise what waits: while a worker is forked nothing can be raised.

        Python would print and drop it there, in what `os.register_at_fork` has called.
        """
        if self.signum is not None:
            raise KeyboardInterrupt


_FORKING = popen_fork.Popen._launch.__code__  # type: ignore[attr-defined]


def _is_forking(frame: Optional[FrameType]) -> bool:
    """Whether a process is being forked in this frame, or in one that called it."""
    while frame is not None and frame.f_code is not _FORKING:
        frame = frame.f_back
    return frame is not None
