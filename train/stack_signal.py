"""`kill -USR2 PID` of a training process: where its code and its workers' code stand, on stderr.

The training process answers by faulthandler, which is C code: also while it hangs in a library. Its
workers are asked by Python code, at the next chance. The run goes on.
"""

import contextlib
import faulthandler
import signal
import sys
import threading
from typing import Any, Iterator, Sequence

from train.data.loader import Loader
from train.data.stacks import SIGNAL


@contextlib.contextmanager
def stacks_on_signal(loaders: Sequence[Loader]) -> Iterator[None]:
    """Answer the signal meanwhile; in a thread, or without a real stderr, nothing is answered."""

    def tell_workers(signum: int, frame: Any) -> None:
        for loader in loaders:
            for title, stack in loader.account.stacks():
                sys.stderr.write(f"{title}:\n{stack}\n")
                sys.stderr.flush()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(SIGNAL, tell_workers)
    try:
        faulthandler.register(SIGNAL, file=sys.stderr, all_threads=True, chain=True)
        registered = True
    except (AttributeError, OSError, RuntimeError, ValueError):
        registered = False  # a notebook's stderr is no file
    try:
        yield
    finally:
        if registered:
            faulthandler.unregister(SIGNAL)
        signal.signal(SIGNAL, before)
