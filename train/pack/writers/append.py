"""A file that only grows, and can be cut back to where it was known to be whole."""

import os
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from train.pack.writers import Target


class AppendFile:
    """Bytes behind each other.

    Args:
        path: of the file.
        size: cut it to so many bytes; 0: begin anew.
    """

    def __init__(self, path: Path, size: int = 0):
        self.path = path
        self.size = size
        self._file = open(path, "r+b" if size else "wb", buffering=1 << 20)  # noqa: SIM115
        self._file.truncate(size)
        self._file.seek(size)

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._file.write(data)
        self.size += len(data)

    def sync(self) -> int:
        """Bring all to the disk; returns the size."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self.size

    def close(self) -> None:
        """Let go of it; a full disk was told before."""
        try:
            self._file.close()
        except OSError:
            pass


class Shards:
    """Files of about equal size behind each other: `train-000000.tar`, `train-000001.tar` ...

    Args:
        folder: where they lie.
        pattern: their names, with `%` for the number.
        most: bytes after which the next one begins.
        end: what a whole file of that many bytes must end with.
        state: what `flush` returned; None: begin anew.
    """

    def __init__(
        self,
        folder: Path,
        pattern: str,
        most: int,
        end: Callable[[int], bytes],
        state: Optional[Dict[str, Any]],
    ):
        self.folder, self.pattern, self.most, self.end = folder, pattern, most, end
        self.number = int(state["shard"]) if state else 0
        self.file = AppendFile(folder / (pattern % self.number), state["size"] if state else 0)
        number = self.number + 1
        while (folder / (pattern % number)).exists():  # what a killed process wrote after `state`
            (folder / (pattern % number)).unlink()
            number += 1

    @staticmethod
    def usable(folder: Path, pattern: str, state: Dict[str, Any]) -> bool:
        """Whether the files still hold what `state` says."""
        try:
            size = os.path.getsize(folder / (pattern % int(state["shard"])))
            return size >= int(state["size"])
        except (OSError, KeyError, TypeError, ValueError, OverflowError):
            return False

    def write(self, record: bytes) -> None:
        """Add one record, whole, to this file or to the next."""
        if self.file.size and self.file.size + len(record) > self.most:
            self.finish()
            self.number += 1
            self.file = AppendFile(self.folder / (self.pattern % self.number))
        self.file.write(record)

    def flush(self) -> Dict[str, Any]:
        """Bring all to the disk; returns where it stands."""
        return {"shard": self.number, "size": self.file.sync()}

    def finish(self) -> None:
        """Complete the last file."""
        self.file.write(self.end(self.file.size))
        self.file.sync()
        self.file.close()

    def close(self) -> None:
        """Let go of the file."""
        self.file.close()


class ShardWriter:
    """What all writers of shards do alike, see `Writer`; a container has its names and `add`.

    Args:
        target: where to.
        state: what `flush` returned; None: begin anew.

    Attributes:
        pattern: names of the files: the split, then the number.
    """

    commits_anywhere = True
    pattern = ""

    def __init__(self, target: Target, state: Optional[Dict[str, Any]]):
        pattern = self.pattern % target.split
        self._shards = Shards(target.folder, pattern, target.shard_bytes, self.end, state)

    @classmethod
    def usable(cls, target: Target, state: Dict[str, Any]) -> bool:
        """Whether the files still hold what `state` says."""
        return Shards.usable(target.folder, cls.pattern % target.split, state)

    @staticmethod
    def end(size: int) -> bytes:
        """What a whole file of that many bytes must end with."""
        return b""

    def flush(self) -> Dict[str, Any]:
        """Bring all to the disk."""
        return self._shards.flush()

    def commit(self) -> None:
        """Nothing is left to do."""

    def finish(self) -> None:
        """Complete the last file."""
        self._shards.finish()

    def close(self) -> None:
        """Let go of the file."""
        self._shards.close()
