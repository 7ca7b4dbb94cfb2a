"""What is seen while it runs: which arm, which round, images/s so far, time left."""

import contextlib
import time
from types import TracebackType
from typing import Any, Dict, Iterator, List, Optional, Type

from rich.progress import BarColumn, Progress, TextColumn

from train.console import console


class Plan:
    """How long the rest will take, learnt from what was done.

    Args:
        names: the measurements to come, one name each, in order.
        guess_s: for one that was not yet seen.

    Attributes:
        elapsed_s: of what is done.
    """

    def __init__(self, names: List[str], guess_s: float):
        self.left, self.guess_s = list(names), guess_s
        self.elapsed_s = 0.0
        self._took: Dict[str, float] = {}

    def done(self, name: str, seconds: float) -> None:
        """A measurement took so long."""
        if name in self.left:
            self.left.remove(name)
        self._took[name] = seconds
        self.elapsed_s += seconds

    def drop(self, name: str) -> None:
        """None of this name will come."""
        self.left = [other for other in self.left if other != name]

    def left_s(self, current: Optional[str] = None, since_s: float = 0.0) -> float:
        """Seconds until the end.

        Args:
            current: what runs now.
            since_s: for so long.
        """
        total = sum(self._guess(name) for name in self.left)
        if current in self.left:
            total -= min(since_s, self._guess(str(current)))
        return total

    def _guess(self, name: str) -> float:
        if name in self._took:
            return self._took[name]
        return max(self._took.values(), default=self.guess_s)


class Show:
    """A line that moves where there is a terminal; nothing elsewhere.

    Args:
        plan: of all measurements.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self._current: Optional[str] = None
        self._since = time.monotonic()
        self._progress: Optional[Progress] = None
        if console().is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[note]}"),
                TextColumn("{task.fields[left]}"),
                console=console(),
                transient=True,
                expand=True,
            )
            self._task: Any = self._progress.add_task("", total=1.0, note="", left="")

    def __enter__(self) -> "Show":
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

    @contextlib.contextmanager
    def measuring(self, name: str, title: str) -> Iterator[None]:
        """One measurement of the plan.

        Args:
            name: in the plan.
            title: what is shown.
        """
        self._current, self._since = name, time.monotonic()
        self.note("starting", title)
        try:
            yield
        finally:
            self.plan.done(name, time.monotonic() - self._since)
            self._current = None

    @contextlib.contextmanager
    def apart(self, title: str) -> Iterator[None]:
        """Something of unknown length beside the plan."""
        self.note("", title)
        try:
            yield
        finally:
            self.note("", "")

    def note(self, text: str = "", title: Optional[str] = None) -> None:
        """Say how it stands; '' keeps the last note."""
        if self._progress is None:
            return
        since = time.monotonic() - self._since if self._current else 0.0
        left = self.plan.left_s(self._current, since)
        spent = self.plan.elapsed_s + since
        fields: Dict[str, Any] = {"left": f"left {_clock(left)}"}
        if text or title is not None:
            fields["note"] = text
        if title is not None:
            fields["description"] = title
        self._progress.update(self._task, completed=spent / max(1e-9, spent + left), **fields)


def _clock(seconds: float) -> str:
    return f"{int(seconds + 0.5) // 60}:{int(seconds + 0.5) % 60:02}"
