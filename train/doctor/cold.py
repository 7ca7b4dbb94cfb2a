"""Data that are not in memory: the system is asked to forget the data's own files, and no others.

`posix_fadvise(DONTNEED)` drops pages that nobody maps and that are written; `mincore` tells what is
left. The caches of the whole machine are never dropped: they are other people's as well.

Source: https://man7.org/linux/man-pages/man2/posix_fadvise.2.html, .../mincore.2.html
"""

import ctypes
import mmap
import os
from typing import List, Sequence

LOOKED_AT_FILES = 64
LOOKED_AT_BYTES = 64 << 20


def forget(paths: Sequence[str]) -> None:
    """Ask the system to drop these files from memory; what can't be opened is left."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            os.fdatasync(descriptor)  # pages that are not written yet stay
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            pass
        finally:
            os.close(descriptor)


def cached_share(paths: Sequence[str]) -> float:
    """Share of these files' pages that is in memory; 1.0 where the system does not say."""
    step = max(1, len(paths) // LOOKED_AT_FILES)
    resident = pages = 0
    for path in list(paths)[::step]:
        found = _resident(path)
        resident += sum(found)
        pages += len(found)
    return resident / pages if pages else 1.0


def total_bytes(paths: Sequence[str]) -> int:
    """Bytes of these files."""
    total = 0
    for path in paths:
        try:
            total += os.stat(path).st_size
        except OSError:
            continue
    return total


def _resident(path: str) -> List[int]:
    """One entry for each page: 1 where it is in memory."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        with open(path, "rb") as file:
            size = min(os.fstat(file.fileno()).st_size, LOOKED_AT_BYTES)
            if size == 0:
                return []
            # Private and writable, so that its address can be had; nothing is written.
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as pages:
                count = -(-size // mmap.PAGESIZE)
                answer = (ctypes.c_ubyte * count)()
                start = ctypes.c_char.from_buffer(pages)
                address = ctypes.c_void_p(ctypes.addressof(start))
                failed = library.mincore(address, ctypes.c_size_t(size), answer)
                del start
                return [] if failed else [value & 1 for value in answer]
    except (OSError, ValueError, AttributeError):
        return []
