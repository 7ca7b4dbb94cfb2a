"""`python -m train.monitor [RUN]`: what a run does at this moment, once a second, until q."""

import argparse
import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, Iterator, List, Optional

from rich.console import Console
from rich.live import Live

from train.console import complain, say
from train.errors import TrainError
from train.gpu import gpus
from train.monitor.look import Looker
from train.monitor.runs import NoRun, find
from train.monitor.screen import screen

EVERY_S = 1.0

WAIT_S = 60.0
"""On a terminal it waits so long for a run to begin."""


def main(arguments: Optional[List[str]] = None) -> int:
    """Watch a run; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m train.monitor",
        description="Shows what a run does: workers, CPU, memory, disk, queue. Where there is a "
        "GPU and nvitop is installed, nvitop is started instead.",
    )
    parser.add_argument(
        "run", nargs="?", default="runs", help="a run's folder, or the folder of runs (runs)"
    )
    parser.add_argument("--ours", action="store_true", help="this view, with a GPU too")
    parser.add_argument("--once", action="store_true", help="print one look and end")
    options = parser.parse_args(arguments)
    if sys.stdout is None:  # started with its output closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  stays open to the end
    # Bars are no ASCII, and names may hold any byte: what can't be written stands as a code.
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    terminal = sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()
    try:
        if terminal and not options.ours and not options.once:
            _nvitop_or_note()
        run = _run(options.run, terminal and not options.once)
        if run is None:
            return 0
        looker = Looker(run)
    except TrainError as error:
        complain(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        return 0
    try:
        if options.once or not terminal:
            return _once(looker)
        return _again_and_again(looker)
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _run(asked: str, waits: bool) -> Optional[Path]:
    """The run to watch; None: q was pressed before there was one.

    Raises:
        TrainError: there is none, and none has begun.
    """
    try:
        return find(asked)
    except NoRun:
        if not waits:
            raise
    say(f"waiting for a run in {asked.rstrip('/')}/ (q ends)")
    end = time.monotonic() + WAIT_S
    with _keys():
        while time.monotonic() < end:
            if _quit_within(EVERY_S):
                return None
            with contextlib.suppress(NoRun):
                return find(asked)
    return find(asked)


def _nvitop_or_note() -> None:
    """Become nvitop where there is a GPU to look at."""
    if not gpus()[0]:
        return
    program = os.path.join(os.path.dirname(sys.executable), "nvitop")
    found = program if os.access(program, os.X_OK) else shutil.which("nvitop")
    if found:
        os.execv(found, [found])
    say(
        "nvitop shows more of a GPU; it is not in the locks: "
        f"{sys.executable} -m pip install nvitop"
    )
    time.sleep(EVERY_S)


def _once(looker: Looker) -> int:
    looker.look()
    time.sleep(EVERY_S / 2)  # CPU and disk are rates: they need two looks
    snapshot = looker.look()
    if snapshot is None:
        say("the run has ended")
        return 0
    Console(highlight=False).print(screen(snapshot, height=200, keys=False))
    return 0


def _again_and_again(looker: Looker) -> int:
    console = Console(highlight=False)
    with _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            snapshot = looker.look()
            if snapshot is None:
                break
            live.update(screen(snapshot, console.height), refresh=True)
            if _quit_within(EVERY_S):
                return 0
    say(f"the run has ended: {looker.run / 'report.html'}")
    return 0


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Keys come at once and unseen; the terminal is as before afterwards, also after a signal."""
    import termios  # Unix alone has it
    import tty

    def leave(signum: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = termios.tcgetattr(sys.stdin)
    handlers = {s: signal.signal(s, leave) for s in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def _quit_within(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        key = os.read(sys.stdin.fileno(), 1)
        if key in (b"q", b"Q", b"\x04", b""):
            return True


if __name__ == "__main__":
    sys.exit(main())
