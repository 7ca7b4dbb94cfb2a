"""What a person sees while a run goes on: lines, and a progress bar where there is a terminal."""

import os
import sys
import time
from types import TracebackType
from typing import IO, Any, List, Optional, Type, cast

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

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


def say(text: str, indent: int = 0, unit: str = " ") -> None:
    """Print one line; odd bytes of file names are escaped, in any locale.

    Args:
        text: the line; on a terminal it is broken where it would not fit.
        indent: columns before what is broken off.
        unit: it is broken only where this stands.
    """
    encoding = sys.stdout.encoding or "ascii"
    safe = text.encode(encoding, "backslashreplace").decode(encoding)
    if _console.is_terminal and _console.width > 2 * indent:
        safe = "\n".join(_broken(line, indent, unit) for line in safe.split("\n"))
    _console.print(safe, markup=False)


def _broken(line: str, indent: int, unit: str) -> str:
    """The line in pieces that fit the terminal."""
    pieces: List[str] = []
    for part in line.split(unit):
        longer = pieces[-1] + unit + part if pieces else part
        if pieces and len(longer) >= _console.width:
            pieces.append(" " * indent + part)
        else:
            pieces[-1:] = [longer]
    return "\n".join(pieces)


class Bar:
    """A progress bar over images; quiet lines where nobody watches.

    Args:
        title: for example "epoch 3 train".
        total: images.
        done: images that were done before (a resumed epoch).
    """

    def __init__(self, title: str, total: int, done: int = 0):
        self.title, self.total, self.done = title, total, done
        self._last_line = time.monotonic()
        self._progress: Optional[Progress] = None
        if _console.is_terminal:
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
            say(f"{self.title}  {self.done} of {self.total} images  {note}".rstrip())
