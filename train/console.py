"""What a person sees while a run goes on: lines, and a progress bar where there is a terminal."""

import contextlib
import os
import sys
import time
from types import TracebackType
from typing import IO, Any, Callable, Iterator, List, Optional, Type, cast

from rich.console import Console
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.spinner import Spinner

QUIET_S = 60.0
"""Without a terminal (a log file, Slurm) one line in so many seconds stands for the bar."""


class _Output:
    """Standard output that may break (a closed terminal, `| head`): the run goes on unheard."""

    def write(self, text: str) -> int:
        try:
            return sys.stdout.write(text)
        except OSError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        try:
            sys.stdout.flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)


_console = Console(file=cast(IO[str], _Output()), highlight=False, soft_wrap=True)
_muted: Optional[int] = None


def console() -> Console:
    """The one that everything is shown on: what moves on it and what is said don't mix."""
    return _console


def mute(rank: int) -> None:
    """From now on this process says only what is for all to hear: it is not rank 0."""
    global _muted
    _muted = rank


def say(text: str, indent: int = 0, unit: str = " ", any_rank: bool = False) -> None:
    """Print one line; odd bytes of file names are escaped, in any locale.

    Args:
        text: the line; on a terminal it is broken where it would not fit.
        indent: columns before what is broken off.
        unit: it is broken only where this stands.
        any_rank: said by ranks other than 0, too.
    """
    if _muted is not None:
        if not any_rank:
            return
        text = f"rank {_muted}: {text}"
    safe = _safe(text, sys.stdout)
    if _console.is_terminal and _console.width > 2 * indent:
        lines = safe.split("\n")
        safe = "\n".join(_broken(line, indent, unit, _console.width) for line in lines)
    _console.print(safe, markup=False)


def complain(text: str) -> None:
    """Print a message of the program's end to standard error, in any locale.

    On a terminal it is broken between words where it would not fit.
    """
    try:
        safe = _safe(text, sys.stderr)
        if sys.stderr.isatty():
            width = os.get_terminal_size(_proxied(sys.stderr).fileno()).columns or 80
            safe = "\n".join(_broken(line, 2, " ", width) for line in safe.split("\n"))
        sys.stderr.write(safe + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody can hear it; the exit code still tells


def _proxied(stream: Any) -> Any:
    """The stream itself: while something moves on a terminal, rich has put a proxy before it."""
    return getattr(stream, "rich_proxied_file", stream)


def _safe(text: str, stream: Any) -> str:
    """The text with what the stream's encoding lacks as escapes; a proxy knows no encoding."""
    encoding = _proxied(stream).encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _broken(line: str, indent: int, unit: str, width: int) -> str:
    """The line in pieces that leave the last column free."""
    pieces: List[str] = []
    for part in line.split(unit):
        longer = pieces[-1] + unit + part if pieces else part
        if pieces and len(longer) >= width:
            pieces.append(" " * indent + part)
        else:
            pieces[-1:] = [longer]
    return "\n".join(pieces)


def _leave_proxies() -> None:
    """In a forked child: the proxies' locks may be held for ever by a thread that is not here."""
    for name in ("stdout", "stderr"):
        setattr(sys, name, _proxied(getattr(sys, name)))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_proxies)


@contextlib.contextmanager
def waiting(text: str, apart: bool = False) -> Iterator[Callable[[str], None]]:
    """A spinner with what goes on; lines that are said meanwhile come above it.

    Args:
        text: what goes on at first.
        apart: standard output is not for people (--json): it is left alone.

    Yields:
        A function that changes the text. It does nothing without a terminal.
    """
    # One terminal, one console: two would write into each other's lines.
    shown = Console(stderr=True, highlight=False)
    if _console.is_terminal and not apart:
        shown = _console
    if not shown.is_terminal or _muted is not None:
        yield lambda text: None
        return
    spinner = Spinner("dots", text=text)
    with Live(
        spinner,
        console=shown,
        refresh_per_second=12.5,
        transient=True,
        redirect_stdout=shown is _console,
    ):
        yield lambda text: spinner.update(text=text)


class Bar:
    """A progress bar over images; quiet lines where nobody watches.

    Args:
        title: for example "epoch 3 train".
        total: images.
        done: images that were done before (a resumed epoch).
        unit: what is counted, where it is no images.
    """

    def __init__(self, title: str, total: int, done: int = 0, unit: str = "images"):
        self.title, self.total, self.done, self.unit = title, total, done, unit
        self._last_line = time.monotonic()
        self._progress: Optional[Progress] = None
        if _console.is_terminal and _muted is None:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=_console,
                transient=True,
            )
            self._task = self._progress.add_task(title, total=total, completed=done, note="")

    def __enter__(self) -> "Bar":
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, images: int, note: str = "") -> None:
        """Move on.

        Args:
            images: how many more are done.
            note: shown beside the bar; '' keeps the last one.
        """
        self.done += images
        if self._progress is not None:
            if note:
                self._progress.update(self._task, completed=self.done, note=note)
            else:
                self._progress.update(self._task, completed=self.done)
        elif time.monotonic() - self._last_line >= QUIET_S:
            self._last_line = time.monotonic()
            say(f"{self.title}  {self.done} of {self.total} {self.unit}  {note}".rstrip())
