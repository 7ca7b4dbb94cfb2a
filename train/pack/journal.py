"""The unfinished pack `DST.partial`, and the journal in it that says how far it has come.

A line is written when all before it is safe on the disk. After a crash the last line that still
fits the files holds; what lies behind it is cut off and made again, the same.
"""

import errno
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from train.errors import SetupError

VERSION = 1
JOURNAL = ".journal.jsonl"
LOCK = ".lock"


class Position(NamedTuple):
    """How far a pack has come.

    Attributes:
        split: that is being written; "" when all are done.
        next: index of the next record of the source.
        writer: what the writer's `flush` said; None: the split begins.
        sizes: bytes of the files beside the container, by name.
        counts: what was done so far, by name.
    """

    split: str
    next: int
    writer: Optional[Dict[str, Any]]
    sizes: Dict[str, int]
    counts: Dict[str, Any]


class Partial:
    """The folder beside the target; use it in a `with`, which keeps other processes out.

    Args:
        dst: the target.
        about: what decides the result; an unfinished pack of something else is not continued.
        anew: delete an unfinished pack of something else.
    """

    def __init__(self, dst: Path, about: Dict[str, Any], anew: bool):
        self.path = partial_of(dst)
        self.about = json.loads(json.dumps(about))
        self.anew = anew
        self.lines: List[Position] = []
        self._lock = -1
        self._journal: Any = None

    def __enter__(self) -> "Partial":
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._take_lock()
        except OSError as error:
            raise SetupError(f"cannot write {str(self.path)!r}: {error.strerror}") from None
        try:
            self._open()
        except OSError as error:
            self.__exit__()
            raise SetupError(
                f"cannot write {str(error.filename or self.path)!r}: {error.strerror or error}; "
                f"if nothing else helps, remove {str(self.path)!r} and pack anew"
            ) from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        if self._journal is not None:
            self._journal.close()
        os.close(self._lock)

    def latest(self, fits: Callable[[Position], bool]) -> Optional[Position]:
        """The last position whose files are there; None: begin at the beginning."""
        for position in reversed(self.lines):
            if fits(position):
                return position
        return None

    def write(self, position: Position) -> None:
        """Add a line, safe on the disk."""
        self._journal.write(json.dumps(position._asdict()).encode() + b"\n")
        self._journal.flush()
        os.fsync(self._journal.fileno())

    def remove_traces(self) -> None:
        """Take away what only an unfinished pack has."""
        (self.path / JOURNAL).unlink(missing_ok=True)
        (self.path / LOCK).unlink(missing_ok=True)

    def discard(self) -> None:
        """Take all of it away: nothing was written yet."""
        shutil.rmtree(self.path)

    def _take_lock(self) -> None:
        self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                os.close(self._lock)
                raise SetupError(
                    f"another process is packing into {str(self.path)!r}; "
                    "wait for it, or choose another folder"
                ) from None  # any other error: a file system without locks

    def _open(self) -> None:
        lines = self._read()
        if lines is None:
            foreign = [name for name in os.listdir(self.path) if name != LOCK]
            if foreign and not (self.path / JOURNAL).exists():
                raise SetupError(
                    f"{str(self.path)!r} is needed for the unfinished pack and holds other files "
                    f"({foreign[0]!r}); move it away, or choose another folder"
                )
            self._begin()  # empty, or killed before its first line was whole
            return
        about, self.lines = lines[0], lines[1:]
        if about != self.about:
            if not self.anew:
                raise SetupError(_other(self.path, about, self.about))
            self._begin()
            return
        self._journal = open(self.path / JOURNAL, "ab")  # noqa: SIM115
        self._journal.write(b"\n")  # a torn last line must not swallow the next one

    def _begin(self) -> None:
        for entry in self.path.iterdir():
            if entry.name == LOCK:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        self.lines = []
        self._journal = open(self.path / JOURNAL, "wb")  # noqa: SIM115
        self._journal.write(json.dumps({"version": VERSION, "about": self.about}).encode() + b"\n")
        self._journal.flush()
        os.fsync(self._journal.fileno())

    def _read(self) -> Optional[List[Any]]:
        """What the journal says: about, then positions; None where there is none."""
        try:
            raw = (self.path / JOURNAL).read_bytes().split(b"\n")
        except FileNotFoundError:
            return None
        lines: List[Any] = []
        for line in raw:
            try:
                values = json.loads(line)
                lines.append(_position(**values) if lines else dict(values["about"]))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                if not lines:
                    return None
                continue  # torn by a crash
        return lines or None


def _position(
    split: str, next: int, writer: Any, sizes: Dict[str, int], counts: Dict[str, Any]
) -> Position:
    """A line of the journal; ValueError where it is damaged."""
    sound = (
        isinstance(split, str)
        and isinstance(next, int)
        and isinstance(writer, (dict, type(None)))
        and are_counts(counts)
        and isinstance(sizes, dict)
        and all(isinstance(size, int) for size in sizes.values())
    )
    if not sound:
        raise ValueError("not a position")
    return Position(split, next, writer, sizes, counts)


def are_counts(counts: Any) -> bool:
    """Whether it is what a pack counts: numbers by name, and under "reasons" a dict of them."""
    reasons = counts.get("reasons", {})
    numbers = [number for name, number in counts.items() if name != "reasons"]
    return all(type(number) is int and number >= 0 for number in [*numbers, *reasons.values()])


def partial_of(dst: Path) -> Path:
    """The folder of an unfinished pack."""
    return dst.parent / (dst.name + ".partial")


def _other(path: Path, before: Dict[str, Any], now: Dict[str, Any]) -> str:
    """Which options differ."""
    changes = [
        f"{key.replace('_', '-')}: {before.get(key)!r}, now {now.get(key)!r}"
        for key in sorted(set(before) | set(now))
        if before.get(key) != now.get(key)
    ]
    return (
        f"{str(path)!r} is an unfinished pack of something else ({'; '.join(changes)}); "
        "say the same options again to go on with it, or add --overwrite to begin anew"
    )
