"""The loop over one split: converted in threads, written in order, committed now and then."""

import json
import sys
import time
from typing import Any, Callable, Dict, NamedTuple, Optional

from train.console import Bar, say
from train.data.sources import Source
from train.errors import SetupError
from train.pack.journal import Partial, Position
from train.pack.options import PackOptions
from train.pack.pool import in_order
from train.pack.records import Item, check_of, read
from train.pack.target import CHECKS, LEDGER
from train.pack.writers import Sample, Target, writer_class
from train.pack.writers.append import AppendFile
from train.signals import StopRequest

COMMIT_BYTES = 64 << 20
"""A crash costs at most this much work; each commit waits for the disk once."""

COMMIT_RECORDS = 8192

MOST_REASONS = 20
LEAST_UNREADABLE = 10

_EVERY_S = 0.1


def stopping() -> StopRequest:
    """Catches the first signal, so that what is being done ends well."""
    return StopRequest(lambda _: say("stopping; a second signal ends at once"))


class Work(NamedTuple):
    """What stays the same for all splits.

    Attributes:
        options: what was asked for.
        partial: the unfinished pack.
        threads: that convert.
        stopped: whether a signal came.
        num_records: of all splits.
    """

    options: PackOptions
    partial: Partial
    threads: int
    stopped: Callable[[], bool]
    num_records: int


class SplitWriting:
    """One split, from a position to its end. Errors while writing are OSError.

    Args:
        work: what stays the same.
        target: where it is written.
        source: what is written.
        position: where to begin; its split is the target's.
        following: the split after this one; "": none.
    """

    def __init__(
        self, work: Work, target: Target, source: Source, position: Position, following: str
    ):
        self.work, self.source, self.following = work, source, following
        self.split, self.next = target.split, position.next
        self.position = position
        self.counts: Dict[str, Any] = json.loads(json.dumps(position.counts))
        self._writer = writer_class(work.options.container)(target, position.writer)
        self._side = {
            name: AppendFile(target.folder / name, position.sizes.get(name, 0))
            for name in (LEDGER, CHECKS)
        }
        self._staged_bytes = self._staged = 0

    def run(self, bar: Bar, meter: "Meter") -> Optional[Position]:
        """Write to the end; gives the position after it, or None when a signal came before."""
        options, source = self.work.options, self.source
        for item in in_order(
            lambda index: read(source, index, options),
            self.next,
            len(source),
            self.work.threads,
            lambda item: item.num_bytes,
            self.work.stopped,
        ):
            self._take(item)
            if self._staged_bytes >= COMMIT_BYTES or self._staged >= COMMIT_RECORDS:
                self._commit()
            meter.count(bar)
        meter.show(bar)
        if self.next < len(source):
            if self._writer.commits_anywhere:
                self._commit()
            return None
        self._commit()
        self._writer.finish()
        self.position = Position(self.following, 0, None, self._sizes(), self.counts)
        self.work.partial.write(self.position)
        return self.position

    def close(self) -> None:
        """Let go of all files."""
        self._writer.close()
        for file in self._side.values():
            file.close()

    def _take(self, item: Item) -> None:
        """Write one record and everything that is noted of it."""
        self.next = item.number + 1
        self._add("before_bytes", item.before)
        made = item.made
        if made is None or made.bad:
            self._note_bad(item)
        if made is None:
            return
        self._add(made.way, 1)
        if made.reason and not made.bad:
            reasons = self.counts.setdefault("reasons", {})
            if made.reason in reasons or len(reasons) < MOST_REASONS:
                reasons[made.reason] = reasons.get(made.reason, 0) + 1
        key = self._writer.add(Sample(item.key, item.label, made.data, made.ending))
        self._side[CHECKS].write(check_of(made.data, key, item.label).to_bytes(4, "little"))
        self._add("records:" + self.split, 1)
        self._add("image_bytes", len(made.data))
        self._staged_bytes += len(made.data)
        self._staged += 1

    def _note_bad(self, item: Item) -> None:
        kept = item.made is not None
        reason = item.made.reason if item.made is not None else item.reason
        entry = {"key": f"{self.split}:{item.key}", "index": item.number, "reason": reason}
        entry.update({"rank": 0, "kept": kept})
        self._side[LEDGER].write(json.dumps(entry).encode() + b"\n")
        self._add("bad" if kept else "left_out", 1)
        if not item.storage:
            return
        self._add("unreadable", 1)
        if self.counts["unreadable"] > max(LEAST_UNREADABLE, self.work.num_records // 1000):
            raise SetupError(
                f"{self.counts['unreadable']} images can't be read, the last one is {item.key!r} "
                f"({item.reason}); is the source's disk still there? Nothing was made of it; "
                "mend it, and begin anew by adding --overwrite and removing "
                f"{str(self.work.partial.path)!r}"
            )

    def _commit(self) -> None:
        """Make all safe that was written, and say so."""
        state = self._writer.flush()
        position = Position(self.split, self.next, state, self._sizes(), self.counts)
        self.work.partial.write(position)
        self._writer.commit()
        self.position = position
        self._staged_bytes = self._staged = 0

    def _sizes(self) -> Dict[str, int]:
        return {name: file.sync() for name, file in self._side.items()}

    def _add(self, name: str, number: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + number


class Meter:
    """Rate and time left, beside a bar.

    Args:
        total: records.
        done: of them, before this process began.
    """

    def __init__(self, total: int, done: int):
        self.total, self.done, self.now = total, done, done
        self._begin = self._shown = time.monotonic()
        self._pending = 0

    @property
    def rate(self) -> float:
        """Records a second, of this process."""
        return (self.now - self.done) / max(1e-9, time.monotonic() - self._begin)

    def count(self, bar: Bar) -> None:
        """One more."""
        self.now += 1
        self._pending += 1
        if time.monotonic() - self._shown > _EVERY_S:
            self.show(bar)

    def show(self, bar: Bar) -> None:
        """Move the bar."""
        left = (self.total - self.now) / self.rate if self.now > self.done else 0.0
        text = f"{self.rate:.0f} images/s"
        if left and not sys.stdout.isatty():  # on a terminal the bar itself says it
            text += f", {duration(left)} left"
        bar.advance(self._pending, text)
        self._pending, self._shown = 0, time.monotonic()


def duration(seconds: float) -> str:
    """For people: '40 s', '3 min', '2 h 05 min'."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
