"""torchrun with a readable end: `python -m train.launch [options of torchrun] -m train fit ...`.

The same options, ranks and restarts. Instead of a traceback of torchrun's own and exit code 1, it
ends with the exit code of the rank that ended first: 2 something that you can mend, 130, 138, 143
saved after Ctrl-C, SIGUSR1, SIGTERM; 128 + N killed by signal N. SIGUSR1 reaches the ranks, too.
"""

import logging
import os
import re
import signal
import socket
import sys
from types import FrameType
from typing import Any, List, Optional

from train import machine
from train.console import complain, say

_DEFAULT_PLACE = "127.0.0.1:29500"
"""Where torchrun lets ranks meet when it is told of no other place."""

_IN_USE = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)


def main(arguments: Optional[List[str]] = None) -> int:
    """Start the ranks of this machine and wait for them; returns the exit code."""
    cpus = machine.usable_cpus()  # before torch is imported, see machine.py
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    from train.dist import LAUNCH

    asked = sys.argv[1:] if arguments is None else arguments
    options = run.parse_args(asked)
    wrong = _wrong_ranks(str(options.nproc_per_node), cpus.value) or _wrong_place(options)
    if wrong:
        complain(f"error: {wrong}")
        return 2
    os.environ[LAUNCH] = str(os.getpid())
    _set_threads(options.nproc_per_node, cpus.value)
    _take_a_free_port(options)

    def forward(signum: int, _: Optional[FrameType]) -> None:
        # What torchrun itself does with SIGTERM: its ranks get the signal and are waited for.
        raise SignalException(f"got {signal.Signals(signum).name}", signal.Signals(signum))

    signal.signal(signal.SIGUSR1, forward)
    # It tells of each rank that ends, after the ranks' own message.
    logging.getLogger("torch.distributed.elastic.multiprocessing.api").setLevel(logging.CRITICAL)
    # It warns of each signal that ends it, which the ranks have told.
    logging.getLogger("torch.distributed.elastic.agent.server.api").setLevel(logging.ERROR)
    try:
        run.run(options)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        code = failure.exitcode
        if code < 0:
            complain(f"error: rank {rank} was killed by {signal.Signals(-code).name}")
        return 128 - code if code < 0 else code
    except SignalException as error:
        return 128 + int(error.sigval)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:  # an option that it can't read, a port in use, a host not there
        text = (str(error).splitlines() or [""])[0]
        if _IN_USE.search(str(error)):
            complain(
                f"error: the port where the ranks would meet ({_place(options)}) is in use by "
                "another program, perhaps by another launch; give a free one with --master-port, "
                "or on a single machine none: then a free one is taken"
            )
            return 2
        complain(
            f"error: torchrun did not start the ranks: {type(error).__name__}: {text}; "
            "see python -m train.launch --help"
        )
        return 2
    return 0


def _wrong_ranks(asked: str, cpus: int) -> str:
    """What is wrong with the number of ranks; '' for nothing."""
    if not asked.isdigit():
        if asked in ("gpu", "cpu", "auto"):
            return ""
        return f"--nproc-per-node must be a whole number, or gpu, cpu, auto; got {asked!r}"
    most = max(64, 8 * cpus)
    if not 1 <= int(asked) <= most:
        return (
            f"--nproc-per-node must be 1 to {most}, got {asked}: a rank is a process of its own, "
            f"one for each GPU, and this machine has {cpus} usable CPU(s)"
        )
    return ""


def _wrong_place(options: Any) -> str:
    """What is wrong with the machines, or with the name of where they meet; '' for nothing.

    torchrun would look for it again and again, for minutes and without a word.
    """
    if not re.fullmatch(r"\d+(:\d+)?", str(options.nnodes)):
        return f"--nnodes must be a whole number, or two as LEAST:MOST; got {options.nnodes!r}"
    if str(options.nnodes) in ("1", "1:1"):
        return ""
    place = _place(options)
    host = place.rpartition(":")[0].strip("[]") or place
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        return (
            f"the machine where the ranks would meet, {host!r}, is not known here "
            f"({error.strerror}); give --rdzv-endpoint or --master-addr as this machine knows it"
        )
    say(f"meeting   {options.nnodes} machines at {place}: each must reach it; this one waits")
    return ""


def _take_a_free_port(options: Any) -> None:
    """A machine alone: let the system choose the port, where torchrun would take 29500.

    The second launch on a machine would find that one in use.
    """
    alone = str(options.nnodes) in ("1", "1:1") and options.rdzv_backend == "static"
    if alone and not options.rdzv_endpoint and _place(options) == _DEFAULT_PLACE:
        options.rdzv_backend, options.rdzv_endpoint = "c10d", "localhost:0"


def _place(options: Any) -> str:
    port = options.master_port or 29500  # newer ones leave it open
    return str(options.rdzv_endpoint or f"{options.master_addr}:{port}")


def _set_threads(ranks: Any, cpus: int) -> None:
    """PyTorch's threads on the CPU: a fair share each, where torchrun would give each rank one."""
    if str(ranks).isdigit() and int(ranks) > 1:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cpus // int(ranks))))


if __name__ == "__main__":
    sys.exit(main())
