"""The batch ring: memory into which workers write their batches and from which this process reads.

A batch is written once and never copied to another process. The memory is one anonymous file
(`memfd_create`): not bounded by /dev/shm, gone with the last process that has it. It reaches
workers as a descriptor, so fork, forkserver and spawn all work; each process maps it for itself.

The main process names the slot of a batch when it asks for it, and nobody else ever writes there:
a slot is free again when no tensor over it is alive any more. Where none is free the batch goes
into memory of its own.
"""

import ctypes
import mmap
import os
import sys
import weakref
from collections import deque
from multiprocessing import context, reduction
from typing import Any, Deque, Dict, Optional, Tuple, cast

import numpy as np
import torch

_SYSTEM_CALLS = {"x86_64": 319, "aarch64": 279}  # memfd_create, where the C library is older
_MFD_CLOEXEC = 1
_PORTABLE = 1  # cudaHostRegisterPortable: page-locked for every device


class SharedBlock:
    """Some memory that this process shares with its workers.

    Args:
        size: bytes, rounded up to whole pages.

    Raises:
        OSError: this system has no such memory, or not enough.
    """

    def __init__(self, size: int):
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._descriptor = memory_file()
        self._finalizer = _at_end(self, os.close, self._descriptor)
        os.ftruncate(self._descriptor, self.size)
        self._process = os.getpid()
        self._mapping: Optional[mmap.mmap] = mmap.mmap(self._descriptor, self.size)

    @property
    def memory(self) -> mmap.mmap:
        """The memory, as this process sees it.

        A forked worker maps it anew: memory that CUDA has page-locked may not be inherited.
        """
        if self._process != os.getpid() or self._mapping is None:
            self._mapping = mmap.mmap(self._descriptor, self.size)
            self._process = os.getpid()
        return self._mapping

    def close(self) -> None:
        """Give it up here; the memory goes when no array and no process has it any more."""
        self._finalizer()
        self._mapping = None

    def __getstate__(self) -> Tuple[int, Any]:
        context.assert_spawning(self)  # a descriptor goes to a starting worker, never into a file
        return self.size, reduction.DupFd(self._descriptor)

    def __setstate__(self, state: Tuple[int, Any]) -> None:
        self.size, self._descriptor = state[0], state[1].detach()
        self._process, self._mapping = -1, None


class _Loan(weakref.ref):
    """A batch that someone holds, and its slot."""

    __slots__ = ("slot",)
    slot: int


class Ring:
    """Slots of one batch each.

    It is closed when its last user is gone: the loader, and each of its streams of batches.

    Args:
        slots: how many, >= 1.
        shape: of the largest batch: (B, S, S, 3), uint8.

    Raises:
        OSError: this system has no such memory, or not enough.
    """

    def __init__(self, slots: int, shape: Tuple[int, ...]):
        self.slots, self.shape = slots, shape
        self._stride = -(-int(np.prod(shape)) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._block = SharedBlock(slots * self._stride)
        # Last in, first out: the slot that was used last is in the caches.
        self._free: Deque[int] = deque(reversed(range(slots)))
        self._loans: Dict[int, _Loan] = {}
        self._returned: Deque[_Loan] = deque()
        self._pinned: Optional[weakref.finalize] = None
        self._pin_problem = ""
        self._users = 0

    def add_user(self) -> None:
        """Someone who needs it."""
        self._users += 1

    def remove_user(self) -> None:
        """One who no longer does; batches that are still in use stay valid."""
        self._users -= 1
        if self._users == 0:
            self._unpin()
            self._block.close()

    def acquire(self, count: int) -> int:
        """A free slot for a batch of so many images; -1 where there is none."""
        if count > self.shape[0] or not self.free:
            return -1
        return self._free.pop()

    def release(self, slot: int) -> None:
        """Give back a slot that was not used; -1 is none."""
        if slot >= 0:
            self._free.append(slot)

    @property
    def free(self) -> int:
        """How many slots are free."""
        while self._returned:
            slot = self._returned.popleft().slot
            del self._loans[slot]
            self._free.append(slot)
        return len(self._free)

    def array(self, slot: int, count: int) -> np.ndarray:
        """The memory of a slot: uint8 (count, S, S, 3)."""
        return np.ndarray(
            (count, *self.shape[1:]), np.uint8, self._block.memory, slot * self._stride
        )

    def take(self, slot: int, count: int) -> torch.Tensor:
        """The batch in a slot; the slot is free when the tensor and all its views are gone."""
        array = self.array(slot, count)
        # torch keeps the array as long as the storage lives, whatever views there are of it. What
        # is called at its end is no Python code: there a Ctrl-C would be lost.
        loan = _Loan(array, self._returned.append)
        loan.slot = slot
        self._loans[slot] = loan
        return torch.from_numpy(array)

    def pin(self) -> str:
        """Page-lock the whole ring for CUDA, at the first call; '' or why that is not possible."""
        if self._pinned is None and not self._pin_problem:
            self._pin_problem = self._register()
        return self._pin_problem

    def _register(self) -> str:
        runtime = torch.cuda.cudart()
        whole = np.frombuffer(self._block.memory, dtype=np.uint8)
        address = whole.ctypes.data
        code = runtime.cudaHostRegister(address, self._block.size, _PORTABLE)
        if int(code) != 0:
            _forget_last_error()
            return f"cudaHostRegister: {runtime.cudaGetErrorString(code)}"
        # It goes with the memory itself, should nobody end it before.
        self._pinned = _at_end(self._block.memory, _unregister, address, os.getpid())
        if not torch.from_numpy(whole).is_pinned():
            self._unpin()
            return "PyTorch does not see it as page-locked"
        return ""

    def _unpin(self) -> None:
        if self._pinned is not None:
            self._pinned()
            self._pinned = None

    def __getstate__(self) -> Tuple[Any, ...]:
        return self.slots, self.shape, self._stride, self._block

    def __setstate__(self, state: Tuple[Any, ...]) -> None:
        self.slots, self.shape, self._stride, self._block = state
        self._free, self._pinned = deque(), None  # a worker writes where it is told to


def _at_end(owner: Any, function: Any, *arguments: Any) -> weakref.finalize:
    """Call a function when an object is gone, or earlier by hand; never at the program's exit."""
    finalizer: Any = weakref.finalize(owner, function, *arguments)
    finalizer.atexit = False  # the kernel does it then, and CUDA may be gone already
    return cast(weakref.finalize, finalizer)


def memory_file() -> int:
    """A descriptor of an anonymous file in memory."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("wellfed", os.MFD_CLOEXEC)
    # conda-forge's Python is built for C libraries older than the call; the kernel has it.
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        if hasattr(library, "memfd_create"):
            descriptor = library.memfd_create(b"wellfed", _MFD_CLOEXEC)
        else:
            number = _SYSTEM_CALLS.get(os.uname().machine, -1)
            descriptor = library.syscall(number, b"wellfed", _MFD_CLOEXEC)
        if descriptor >= 0:
            return int(descriptor)
        raise OSError(ctypes.get_errno(), f"memfd_create: {os.strerror(ctypes.get_errno())}")
    raise OSError("memfd_create is a call of Linux")


def _unregister(address: int, process: int) -> None:
    if process != os.getpid():
        return  # a forked worker gives up what it inherited
    torch.cuda.synchronize()  # copies that are still on their way
    torch.cuda.cudart().cudaHostUnregister(address)


def _forget_last_error() -> None:
    """CUDA keeps a failed call's error, and the next kernel would report it as its own."""
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError:
        pass
