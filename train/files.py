"""Files that are either whole or not there: written beside, flushed to the disk, renamed."""

import errno
import os
from pathlib import Path
from typing import IO, Callable, Union

from train.errors import SetupError


def write_whole(path: Path, content: Union[bytes, Callable[[IO[bytes]], None]]) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one, never a part.

    Args:
        path: the file; its folder must exist.
        content: the bytes, or a function that writes them to an open binary file.

    Raises:
        SetupError: the disk is full, a quota is reached, or the folder can't be written; the old
            file stays.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            with open(beside, "wb") as file:
                if callable(content):
                    content(file)
                else:
                    file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # or a power cut may forget the rename
        finally:
            os.close(folder)
    except OSError as error:
        raise disk_error(path, error) from None


def disk_error(path: Path, error: OSError) -> SetupError:
    """What an error while writing means and what to do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        try:
            info = os.statvfs(path.parent)
            free = f", {info.f_bavail * info.f_frsize / 2**20:.0f} MiB free"
        except OSError:
            free = ""
        return SetupError(
            f"cannot write {str(path)!r}: the disk is full or a quota is reached{free}; "
            "what was saved before is intact: make room, or choose another disk with run.folder"
        )
    return SetupError(
        f"cannot write {str(path)!r}: {error.strerror or error}; "
        "choose another place with run.folder"
    )
