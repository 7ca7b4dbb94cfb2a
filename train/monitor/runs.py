"""Which runs go on: their folder is locked."""

import contextlib
import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import List, Optional

from train.errors import SetupError

# struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid
_FLOCK = "hhqqi4x"


class NoRun(SetupError):
    """No run goes on in a folder of runs; one may begin."""


def lock_holder(run: Path) -> Optional[int]:
    """The process that trains in this folder; 0: one that is not known here; None: nobody.

    It asks and takes no lock itself: a run that starts meanwhile is not kept out.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        # A pipe of that name would be waited for without O_NONBLOCK.
        descriptor = os.open(run / ".lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    except OSError:
        return None  # a file system without locks
    finally:
        os.close(descriptor)
    if kind == fcntl.F_UNLCK:
        return None
    return max(0, pid)


def running(base: Path) -> List[Path]:
    """Runs below a folder that go on, the newest first."""
    try:
        folders = list(base.iterdir())
    except OSError:
        return []
    found = []
    for folder in folders:
        if lock_holder(folder) is not None:
            with contextlib.suppress(OSError):  # it ended and was deleted meanwhile
                found.append(((folder / ".lock").stat().st_mtime, folder))
    return [folder for _, folder in sorted(found, reverse=True)]


def find(asked: str) -> Path:
    """The run to watch.

    Args:
        asked: a run's folder, or a folder of runs: then the newest that goes on.

    Raises:
        NoRun: none goes on there.
        SetupError: it is a run's folder, and the run does not go on.
    """
    folder = Path(asked)
    if os.path.isfile(folder / "config.yaml"):  # False too where nobody may look
        if lock_holder(folder) is None:
            raise SetupError(f"{asked!r} is a run that does not go on; its report.html tells of it")
        return folder
    found = running(folder)
    if not found:
        raise NoRun(
            f"no run goes on in {asked!r}: start one (make train), or say its folder: "
            'make monitor ARGS="path/of/the/run"'
        )
    return found[0]
