"""Memory that ends at a page nobody may touch: what goes too far kills the test."""

import ctypes
import mmap

import numpy as np

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_kept = []  # mappings live as long as the tests


def guarded(size):
    """uint8 (size,); a page that can't be used follows, and one stands before the first page."""
    pages = -(-size // _PAGE)
    mapping = mmap.mmap(-1, (pages + 2) * _PAGE)
    _kept.append(mapping)
    memory = np.frombuffer(mapping, np.uint8)
    first = memory.ctypes.data
    for page in (first, first + (pages + 1) * _PAGE):
        if _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    end = (pages + 1) * _PAGE
    return memory[end - size : end]


class GuardedScratch:
    """As `decode.Scratch`; each size that is asked for ends at such a page."""

    def __init__(self, most):
        self._memory, self.most = guarded(most), most

    def take(self, size):
        assert size <= self.most, f"{size} bytes are wanted"
        return self._memory[self.most - size :]
