"""Several ranks of a run in processes of their own, as torchrun would start them, but in no time.

They are forked from a server that has imported all and computed nothing (tests/conftest.py says so
to it before it starts). Each is bounded in time and is killed by its process id after that.
"""

import datetime
import faulthandler
import multiprocessing
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

LIMIT_S = 200

PRELOADED = [
    "small_run",
    "train.fit",
    "train.data.resize_kernels",
    "torch.utils.tensorboard",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
]

_context = multiprocessing.get_context("forkserver")


class Ended(NamedTuple):
    """How the ranks ended.

    Attributes:
        codes: exit code of each; a signal is negative.
        outputs: what each printed, standard error too.
    """

    codes: List[int]
    outputs: List[str]

    @property
    def errors(self) -> List[str]:
        """Lines that tell of an end, of all ranks."""
        lines = [line for text in self.outputs for line in text.splitlines()]
        return [line for line in lines if line.startswith(("error:", "Traceback", "SIG"))]


class Ranks:
    """Ranks that run. Use it as a context: what still runs at its end is killed."""

    def __init__(
        self,
        size: int,
        target: Callable[..., Any],
        arguments: Sequence[Any],
        folder: Path,
        env: Any = None,
    ):
        from torch.distributed import TCPStore

        folder.mkdir(parents=True, exist_ok=True)
        # As torchrun's agent does it: it holds the store, so no port can be taken meanwhile.
        self._store = TCPStore(
            "127.0.0.1", 0, None, True, datetime.timedelta(seconds=LIMIT_S), wait_for_workers=False
        )
        self.logs = [folder / f"rank-{rank}.log" for rank in range(size)]
        self.processes = []
        for rank in range(size):
            variables: Dict[str, str] = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(size),
                "LOCAL_WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self._store.port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
                "TORCHELASTIC_RUN_ID": str(self._store.port),
                "TORCHELASTIC_RESTART_COUNT": "0",  # PyTorch 2.1 wants it
                **(env or {}),
            }
            process = _context.Process(
                target=_be_rank, args=(variables, self.logs[rank], target, tuple(arguments))
            )
            process.start()
            self.processes.append(process)

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *_: Any) -> None:
        for process in self.processes:
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
            process.join()

    def pids(self) -> List[int]:
        return [process.pid for process in self.processes]

    def wait(self, seconds: float = LIMIT_S) -> Ended:
        """Wait for all of them; those that hang are killed, and the test fails."""
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
        hung = [rank for rank, process in enumerate(self.processes) if process.is_alive()]
        for rank in hung:
            os.kill(self.processes[rank].pid, signal.SIGKILL)
            self.processes[rank].join()
        outputs = [log.read_text(errors="replace") for log in self.logs]
        assert not hung, f"ranks {hung} hung:\n" + "\n".join(outputs)
        return Ended([process.exitcode for process in self.processes], outputs)


def run(size: int, words: Sequence[str], folder: Path, env: Any = None) -> Ended:
    """`train ...` on so many ranks, to its end."""
    with Ranks(size, _train, (list(words),), folder, env) as ranks:
        return ranks.wait()


def start(size: int, words: Sequence[str], folder: Path, env: Any = None) -> Ranks:
    """`train ...` on so many ranks."""
    return Ranks(size, _train, (list(words),), folder, env)


def call(size: int, target: Callable[..., Any], arguments: Sequence[Any], folder: Path) -> Ended:
    """A function of a test's on so many ranks."""
    with Ranks(size, target, arguments, folder) as ranks:
        return ranks.wait()


def _train(words: List[str]) -> int:
    from train.__main__ import main

    return main(words)


def _be_rank(variables: Dict[str, str], log: Path, target: Any, arguments: Any) -> None:
    os.setsid()
    os.environ.update(variables)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout = os.fdopen(os.dup(1), "w", buffering=1)
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    faulthandler.dump_traceback_later(LIMIT_S * 2 / 3, file=2)  # tells where it hangs
    import torch

    torch.set_num_threads(1)  # the same sums at any number of ranks
    try:
        code = target(*arguments)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    # Not through multiprocessing's end: it would wait for what a test left behind.
    sys.exit(code or 0)
