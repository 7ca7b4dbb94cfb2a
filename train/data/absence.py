"""Data that are gone while a run reads them: an unmounted disk, a folder that was moved away.

That is not a bad sample: no other one may take its place, or thousands of them would end the run.
Whoever reads waits, and goes on with the very same sample when the data are back.
"""

import errno
import os
import time
from typing import Any, Callable, NamedTuple, Optional

from train.data.sources import root_of
from train.data.sources.handles import forget
from train.errors import BadSample, DataGone

WAIT_S = 600.0
"""How long to wait: a server restarts, a person mounts a disk again. A run that waits holds a
device that others may want."""

LOOK_S = 1.0
"""Seconds between two looks."""

_GONE = frozenset(
    (
        errno.ENOENT,
        errno.ENOTDIR,  # a file stands where a folder above it was
        errno.ESTALE,
        errno.EIO,
        errno.ENOTCONN,  # the program behind a FUSE mount ended
        errno.ENODEV,
        errno.ENXIO,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
    )
)
"""What a disk answers that is not there. Not EACCES: that is for a person to mend."""


class Gone(NamedTuple):
    """What is gone.

    Attributes:
        root: the folder or file that all records of a source lie in.
        reason: what the system says.
    """

    root: str
    reason: str


def look(source: Any, index: int) -> Optional[Gone]:
    """Whether what a record lies in is gone; None: it is there, or nobody knows where it is.

    Args:
        source: of records, or a data set of a user's own with a `root`.
        index: of the record.
    """
    root = root_of(source, index)
    if not root:
        return None
    try:
        if not os.path.isdir(root):
            os.close(os.open(root, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            return None
        with os.scandir(root) as entries:
            if next(entries, None) is not None:
                return None
        return Gone(root, "the folder is empty; is its disk still mounted?")
    except OSError as error:
        return Gone(root, error.strerror or str(error)) if error.errno in _GONE else None


def read(
    source: Any,
    index: int,
    away: Callable[[Optional[Gone]], None],
) -> Any:
    """`source[index]`, waited for while the data are gone.

    Args:
        source: of records, or a user's own data set.
        index: of the record.
        away: called again and again while the data are gone, and with None when they are back; may
            raise to leave.

    Raises:
        DataGone: they did not come back.
        BadSample, OSError: the data are there, and this record can't be used.
    """
    again = False
    while True:
        try:
            return source[index]
        except (OSError, BadSample) as error:
            gone = look(source, index)
            if gone is None:
                # They may have come back since: what failed with them is read once more.
                if again or not isinstance(error, OSError) or error.errno not in _GONE:
                    raise
                again = True
            else:
                again = False
        # A container that is deleted and comes back as another file needs nothing while it is open:
        # the descriptor keeps the old one. After an error it is opened anew.
        forget(root_of(source, index))
        if gone is not None:
            _wait(source, index, gone, away)


def _wait(
    source: Any, index: int, gone: Optional[Gone], away: Callable[[Optional[Gone]], None]
) -> None:
    end = time.monotonic() + WAIT_S
    while gone is not None:
        away(gone)
        if time.monotonic() >= end:
            raise DataGone(
                f"the data at {gone.root!r} have been gone for {minutes(WAIT_S)} ({gone.reason}); "
                "mount the disk again or move them back, then go on with this run"
            )
        time.sleep(LOOK_S)
        gone = look(source, index)
    away(None)


class Teller:
    """Says once that data are gone, and that they are back."""

    def __init__(self) -> None:
        self._since: Optional[float] = None

    def note(self, gone: Optional[Gone]) -> None:
        """Tell what has changed; None: nobody waits for data any more."""
        if gone is not None and self._since is None:
            self._since = time.monotonic()
            _say(going(gone))
        elif gone is None and self._since is not None:
            seconds, self._since = time.monotonic() - self._since, None
            _say(f"the data are back after {seconds:.0f} s; the run goes on")


def _say(text: str) -> None:
    from train.console import say  # late: a worker that is spawned needs no console

    say(text, indent=4, any_rank=True)


def minutes(seconds: float) -> str:
    """A time in words."""
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"


def going(gone: Gone) -> str:
    """What is said when they are gone."""
    return (
        f"warning: the data at {gone.root!r} are gone ({gone.reason}); waiting up to "
        f"{minutes(WAIT_S)} for them to come back. The run then goes on with the very same sample"
    )
