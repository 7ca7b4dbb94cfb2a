"""Checkpoints as files: sealed with a checksum, the last two good ones kept.

A checkpoint is the zip archive that torch.save makes; the checksum of all its bytes stands in the
archive's comment, so `torch.load` reads the file as it is. PyTorch itself does not check what it
reads: a flipped bit would become a weight.
"""

import errno
import hashlib
import io
import os
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import torch

from train.errors import CheckpointError, SetupError
from train.files import disk_error, write_whole

FORMAT = 2
_SINCE_SEALED = 2  # format 1 had no checksum

# End of the central directory of a zip archive, APPNOTE.TXT 4.3.16: 22 bytes, the last two of which
# are the length of the comment that follows.
_END_BYTES = 22
_END_MAGIC = b"PK\x05\x06"
_MARK = b"wellfed blake2b-256 "
_SEAL_BYTES = len(_MARK) + 64


def seal(archive: io.BytesIO) -> None:
    """Put the checksum of an archive into its comment, in place: it may be large."""
    archive.seek(-2, io.SEEK_END)
    archive.write(_SEAL_BYTES.to_bytes(2, "little"))
    with archive.getbuffer() as body:
        checksum = hashlib.blake2b(body, digest_size=32).hexdigest()
    archive.write(_MARK + checksum.encode())


def is_sealed(content: bytes) -> bool:
    """Whether there is a checksum.

    Raises:
        CheckpointError: there is one, and it is another one's.
    """
    body, mark, found = memoryview(content)[:-_SEAL_BYTES], content[-_SEAL_BYTES:-64], content[-64:]
    if mark != _MARK or bytes(body[-_END_BYTES:][:4]) != _END_MAGIC:
        return False
    if hashlib.blake2b(body, digest_size=32).hexdigest().encode() != found:
        raise CheckpointError("its checksum is wrong")
    return True


def pack(content: Dict[str, Any]) -> bytes:
    """The bytes of a checkpoint."""
    # Into memory first: torch.save turns a full disk into an error of its own archive format.
    memory = io.BytesIO()
    torch.save({"format": FORMAT, **content}, memory)
    seal(memory)
    return memory.getvalue()  # hands the bytes over; a view would have to outlive `memory`


def unpack(content: bytes, path: Path) -> Dict[str, Any]:
    """Read the bytes of a checkpoint; nothing in them can run code.

    Raises:
        CheckpointError: torn, damaged, or of another format.
    """
    try:
        sealed = is_sealed(content)
        with warnings.catch_warnings():  # PyTorch 2.1 warns of its own storages
            warnings.filterwarnings("ignore", "TypedStorage is deprecated", UserWarning)
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # a torn file raises whatever its half makes zip and pickle raise
        reason = str(error) if isinstance(error, CheckpointError) else type(error).__name__
        raise CheckpointError(f"{str(path)!r} is torn or no checkpoint ({reason})") from None
    number: Any = found.get("format") if isinstance(found, dict) else type(found).__name__
    if not isinstance(number, int) or number not in range(1, FORMAT + 1):
        raise CheckpointError(
            f"{str(path)!r} has format {number!r}, this version reads formats up to {FORMAT}"
        )
    if number >= _SINCE_SEALED and not sealed:
        raise CheckpointError(f"{str(path)!r} is torn or no checkpoint (its checksum is missing)")
    return found


def read(path: Path) -> bytes:
    """The bytes of a checkpoint file.

    Raises:
        CheckpointError: missing or unreadable.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"no checkpoint at {str(path)!r}; was this run ever saved?") from None
    except OSError as error:
        raise CheckpointError(f"cannot read {str(path)!r}: {error.strerror or error}") from None


def load(path: Path) -> Dict[str, Any]:
    """Read one checkpoint; see `read` and `unpack`."""
    return unpack(read(path), path)


class Rotation:
    """The checkpoints of a run: `last.pt`, `previous.pt` before it, and `best.pt`.

    At any moment, also in a crash, a whole checkpoint stands under one of the first two names: a
    new one is on the disk before an old one goes, and only a good one takes the place of a good
    one.

    Args:
        folder: where they are; must exist.
    """

    def __init__(self, folder: Path):
        self.last, self.previous, self.best = (
            folder / f"{name}.pt" for name in ("last", "previous", "best")
        )
        self._last_is_good = False

    def write(self, content: bytes, is_best: bool = False) -> None:
        """Write the next one.

        Raises:
            SetupError: the disk is full or can't be written; those that were there stay.
        """
        before = self._keep if self._last_is_good else None
        write_whole(self.last, content, self.best if is_best else None, before)
        self._last_is_good = True

    def write_best(self, content: bytes) -> None:
        """Write `best.pt` alone.

        Raises:
            SetupError: as `write`.
        """
        write_whole(self.best, content)

    def _keep(self) -> None:
        """Give the last one its second name; called when the next one is on the disk."""
        beside = self.previous.with_name(f".{self.previous.name}.{os.getpid()}.part")
        beside.unlink(missing_ok=True)
        try:
            os.link(self.last, beside)
        except FileNotFoundError:
            return  # somebody took it away: there is nothing to keep
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                raise
            os.replace(self.last, self.previous)  # no hard links here; the new one is whole
            return
        os.replace(beside, self.previous)

    def read(self, say: Callable[[str], None]) -> Tuple[Path, bytes]:
        """The newest one that is whole, and where it is.

        Args:
            say: told once when it is not the last one.

        Raises:
            CheckpointError: none is; the reason of each is told.
        """
        reasons: List[str] = []
        for path in (self.last, self.previous):
            if path == self.previous and not path.exists():
                continue
            try:
                content = read(path)
                unpack(content, path)
            except CheckpointError as error:
                reasons.append(str(error))
                continue
            self._last_is_good = path == self.last
            if reasons:
                say(f"warning: {reasons[0]}; going on from the one before it, {path}")
            return path, content
        more = f"; to begin this run again: --config {self.last.parent.parent / 'config.yaml'}"
        if self.best.exists():
            more = f"; {self.best} may still be good: copy it to {self.last.name}"
        raise CheckpointError("; ".join(reasons) + more)

    def tidy(self) -> None:
        """Remove what a killed process left half written; nobody else writes here meanwhile."""
        for kind in ("part", "link"):
            for path in self.last.parent.glob(f".*.{kind}"):
                path.unlink(missing_ok=True)

    def refuse_if_unwritable(self) -> None:
        """Find out at the start whether checkpoints can be written at all.

        Raises:
            SetupError: a read-only disk or folder.
        """
        probe = self.last.with_name(f".probe.{os.getpid()}.part")
        try:
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise _unwritable(self.last.parent, error) from None


def _unwritable(folder: Path, error: OSError) -> SetupError:
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return SetupError(
            f"cannot write into {str(folder)!r}: {error.strerror}; nothing that this run computes "
            "could be saved: make the folder writable, or choose another place with run.folder"
        )
    return disk_error(folder, error)
