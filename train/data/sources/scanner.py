"""Reading small pieces of a large file in order, as the first scan of a container does."""

import os
from typing import Optional

from train.errors import DataError
from train.files import never_wait

_LEAST = 4096
_MOST = 1 << 20
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip -c OLD > NEW"),
    b"BZh": ("bzip2", "bunzip2 -c OLD > NEW"),
    b"\xfd7zXZ": ("xz", "xz -dc OLD > NEW"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc OLD > NEW"),
    b"PK\x03\x04": ("zip", "unzip OLD"),
}


class Scanner:
    """A file read by position, through a window that grows while the reads lie close together.

    A scan looks at headers and skips what is between them. Large records cost one page each; small
    ones are read a megabyte at a time.

    Args:
        path: the file. Close it after use (`with`).

    Raises:
        DataError: it can't be opened, or (of `read`) its disk fails.
    """

    def __init__(self, path: str):
        self.path = path
        try:
            self._file = open(path, "rb", buffering=0, opener=never_wait)  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise DataError(f"cannot open {path!r}: {error.strerror}") from None
        self.size = os.fstat(self._file.fileno()).st_size
        self._start = 0
        self._window = b""
        self._ask = _LEAST

    def __enter__(self) -> "Scanner":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, offset: int, length: int) -> bytes:
        """Read up to `length` bytes, fewer at the end of the file."""
        begin = offset - self._start
        if begin < 0 or begin + length > len(self._window):
            near = 0 <= begin <= len(self._window) + _LEAST
            self._ask = min(2 * self._ask, _MOST) if near else _LEAST
            wanted = min(max(length, self._ask), max(self.size - offset, 0))
            try:
                self._window = os.pread(self._file.fileno(), wanted, offset)
            except OSError as error:
                raise DataError(
                    f"cannot read {self.path!r} at byte {offset:,}: {error.strerror}"
                ) from None
            self._start, begin = offset, 0
        return self._window[begin : begin + length]

    def not_of_kind(self, kind: str) -> str:
        """Say that a file is none of its kind, and what it seems to be instead."""
        start = self.read(0, 16)
        compressed = self._compression(start)
        if compressed is not None:
            return compressed
        return f"{self.path!r} is no {kind} (it begins with {start!r})"

    def _compression(self, start: bytes) -> Optional[str]:
        for magic, (name, command) in _COMPRESSED.items():
            if start.startswith(magic):
                return (
                    f"{self.path!r} is compressed ({name}): a record in it can't be found without "
                    f"reading all that is before it; unpack it once: {command}"
                )
        return None
