"""Files that are either whole or not there: written beside, flushed to the disk, renamed."""

import errno
import os
from pathlib import Path
from typing import Callable, Optional, Union

from train.errors import SetupError


def never_wait(path: str, flags: int) -> int:
    """For `open(opener=...)`: a pipe under the name of a file reads as empty, and blocks nobody."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def write_whole(
    path: Path,
    content: Union[bytes, memoryview],
    also: Optional[Path] = None,
    before: Optional[Callable[[], None]] = None,
) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one, never a part.

    Args:
        path: the file; its folder must exist.
        content: the bytes.
        also: a second name for the same content in the same folder, set first; a hard link where
            the file system has them, so that nothing is written twice.
        before: called when the new content is on the disk and before the old one goes.

    Raises:
        SetupError: the disk is full, a quota is reached, or the folder can't be written; the old
            file stays.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            with open(beside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if also is not None:
                _set_link(beside, also, content)
            if before is not None:
                before()
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


def _set_link(source: Path, target: Path, content: Union[bytes, memoryview]) -> None:
    """Give `source` a second name; a copy where the file system has no hard links."""
    link = source.with_suffix(".link")
    link.unlink(missing_ok=True)  # of a killed process with our number, as in containers
    try:
        os.link(source, link)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        write_whole(target, content)
        return
    os.replace(link, target)


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
