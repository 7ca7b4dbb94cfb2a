"""Ranks that train together: who is who, what they agree on, and how all of them end.

torchrun starts them (or `train.launch`, which is torchrun with our exit codes). Gradients travel by
NCCL with CUDA, by gloo on the CPU. All else is small and goes from host to host by gloo: signals,
bad samples, what is saved. There is no barrier: ranks meet where they add up gradients.
"""

import contextlib
import ctypes
import os
import re
import signal
import socket
import sys
import traceback
from datetime import timedelta
from typing import Any, Iterator, List, Optional, Sequence

import torch
import torch.distributed

from train.console import complain, mute
from train.errors import Interrupted, SetupError, TrainError

TIMEOUT = timedelta(minutes=30)
"""How long a rank waits for the others. A rank that ends is noticed at once; this is for a machine
that vanished from the network."""

_END_S = 600
"""How long the others wait for rank 0 to write its last files."""

LAUNCH = "WELLFED_LAUNCH"
"""Environment variable that `train.launch` gives to its ranks: its process id."""

_PR_SET_PDEATHSIG = 1  # Linux, sys/prctl.h
_LOST = re.compile(
    r"gloo|nccl|connection (closed|reset|refused)|broken pipe|timed out waiting|socket", re.I
)


class Group:
    """All ranks of a run.

    Args:
        rank: of this process, 0 to size - 1.
        size: how many.
        local_rank: among those of this machine.
        store: what all of them can reach; None: this one is alone.
    """

    def __init__(self, rank: int = 0, size: int = 1, local_rank: int = 0, store: Any = None):
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self._store = store

    @property
    def is_first(self) -> bool:
        """Rank 0, the one that writes and speaks."""
        return self.rank == 0

    def agree(self, values: Sequence[int]) -> List[int]:
        """The largest of each number over all ranks, the same on all of them."""
        if self.size == 1:
            return list(values)
        numbers = torch.tensor(values, dtype=torch.int64)
        torch.distributed.all_reduce(numbers, torch.distributed.ReduceOp.MAX)
        return [int(number) for number in numbers.tolist()]

    def gather(self, value: Any) -> List[Any]:
        """What each rank has, in the order of the ranks, on all of them."""
        if self.size == 1:
            return [value]
        found: List[Any] = [None] * self.size
        torch.distributed.all_gather_object(found, value)
        return found

    def share(self, value: Any) -> Any:
        """What rank 0 has, on all of them."""
        if self.size == 1:
            return value
        box = [value]
        torch.distributed.broadcast_object_list(box, 0, device=torch.device("cpu"))
        return box[0]

    def device(self, asked: str) -> Optional[torch.device]:
        """This rank's GPU; None: there is nothing to choose.

        Args:
            asked: run.device.

        Raises:
            SetupError: more ranks than GPUs on this machine.
        """
        if self.size == 1 or asked == "cpu" or not torch.cuda.is_available():
            return None
        there = torch.cuda.device_count()
        # A scheduler may show each rank its own GPU alone.
        number = 0 if there == 1 and "CUDA_VISIBLE_DEVICES" in os.environ else self.local_rank
        if number >= there:
            raise SetupError(
                f"rank {self.rank} is number {self.local_rank + 1} on {socket.gethostname()}, "
                f"which has {there} GPU(s): start as many ranks as there are GPUs (make train "
                f"GPUS={there}, torchrun --nproc-per-node {there}), or use run.device=cpu"
            )
        torch.cuda.set_device(number)
        return torch.device("cuda", number)

    def is_first_to_tell(self) -> bool:
        """Whether this rank is the one that says why all of them end."""
        try:
            return self._store is None or self._store.add("told", 1) == 1
        except Exception:  # its holder is gone: it has told, or torchrun tells that it was killed
            return False

    def leave(self) -> None:
        """Wait until rank 0 has written and said all.

        The first rank that ends makes torchrun end the others.
        """
        try:
            if self._store is not None and self.is_first:
                self._store.set("done", "1")
            elif self._store is not None:
                self._store.wait(["done"], timedelta(seconds=_END_S))
        except Exception:
            pass  # rank 0 held the store and is gone, so it has ended


ALONE = Group()


def under_torchrun() -> bool:
    """Whether torchrun started this process, if only as a single rank."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextlib.contextmanager
def together(asked: str) -> Iterator[Group]:
    """All ranks, from their meeting to their end; without torchrun `ALONE`.

    Whatever ends one rank ends all of them, with one message and one exit code. Here the process
    of a rank ends then, at once: what is left of a group that lost a member could wait for ever.

    Args:
        asked: run.device.

    Raises:
        SetupError: torchrun's variables are incomplete, or the ranks don't find each other.
    """
    if under_torchrun() and sys.platform == "linux":
        # Should torchrun be killed, its ranks save and end, and are no orphans.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        _refuse_orphan()
    told = os.environ.get("WORLD_SIZE") or "1"
    if told.strip() in ("0", "1"):
        yield ALONE
        return
    group = _join(asked)
    try:
        yield group
    except BaseException as error:
        _end(group, error)
    group.leave()
    # NCCL is shut down; the object stays, since its destructor may wait for ever: holding Python's
    # lock it joins gloo's threads, one of which wants that lock to free a tensor (PyTorch 2.6).
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(torch.distributed.group.WORLD))
    torch.distributed.destroy_process_group()


def _refuse_orphan() -> None:
    """A launch that was killed before the signal was asked for can't send it any more."""
    launch = os.environ.get(LAUNCH, "")
    if launch.isdigit() and not os.path.exists(f"/proc/{launch}"):
        raise SetupError(f"the launch that started this rank (process {launch}) has ended")


def _join(asked: str) -> Group:
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        local_rank = int(os.environ["LOCAL_RANK"])
        if not 0 <= rank < size or local_rank < 0:  # it would wait for ranks that never come
            raise ValueError(f"RANK={rank}, LOCAL_RANK={local_rank}")
    except (KeyError, ValueError) as error:
        raise SetupError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']!r}, but it or torchrun's other variables are "
            f"missing or no such numbers: {error}; start the ranks with torchrun or make "
            "train GPUS=..., or unset WORLD_SIZE"
        ) from None
    if rank > 0:
        mute(rank)
    with_nccl = asked != "cpu" and torch.cuda.is_available()
    backend = "cpu:gloo,cuda:nccl" if with_nccl else "gloo"
    try:
        store, rank, size = next(torch.distributed.rendezvous("env://", timeout=TIMEOUT))
        # torchrun keeps one store for all its attempts: the addresses of the ranks before are in it
        # (PyTorch 2.6), and a restarted rank would knock at their doors.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = torch.distributed.PrefixStore(f"attempt-{attempt}", store)
        torch.distributed.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT
        )
        store = torch.distributed.PrefixStore("wellfed", store)
        return Group(rank, size, local_rank, store)
    except (RuntimeError, ValueError) as error:
        text = str(error).splitlines()[0]
        raise SetupError(
            f"rank {rank} of {size} on {socket.gethostname()} does not reach the others: {text}; "
            "check MASTER_ADDR, MASTER_PORT and the network between the machines"
        ) from None


def _end(group: Group, error: BaseException) -> None:
    """End this rank."""
    code, message = 2, ""
    if isinstance(error, Interrupted):
        code = error.exit_code
        if group.is_first:
            complain(f"{error.signal_name}: {error}")
        group.leave()
    elif isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 1
    elif isinstance(error, KeyboardInterrupt):
        code, message = 128 + signal.SIGINT, "interrupted before anything began; nothing to save"
    elif isinstance(error, TrainError):
        message = f"error: {error}"
    elif isinstance(error, RuntimeError) and _LOST.search(str(error)):
        message = (
            f"error: rank {group.rank} lost the others: one of {group.size} ranks was killed, or "
            "its machine is gone. The kernel's log tells whether memory ran out there. What was "
            f"saved before is intact; torchrun --max-restarts goes on from there by itself "
            f"({str(error).splitlines()[0][-100:]})"
        )
    else:
        code, message = 1, f"rank {group.rank}:\n{traceback.format_exc()}"
    if message and group.is_first_to_tell():
        complain(message)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
