"""Compiling the kernels of this folder once: one process does it, others wait for it."""

import contextlib
import os
import sys
from pathlib import Path
from typing import IO, Iterator, Optional

if sys.platform != "win32":
    import fcntl

SECONDS = 15
"""What compiling takes: 12 to 13 s of one core in 2026."""


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Import kernels in here: a line says it where they must be compiled first.

    A mark in numba's folder tells whether they were, for this CPU, this Python and these versions.
    Where nothing can be written, each process compiles for itself.
    """
    mark = _mark()
    if mark.exists():
        yield
        return
    lock = _locked(mark.with_suffix(".lock"))
    try:
        if not mark.exists():
            from train.console import say  # late: a worker that is spawned needs no console

            say(
                "compiling the kernels for coefficient records, once on this machine: "
                f"about {SECONDS} s"
            )
        yield
        with contextlib.suppress(OSError):
            mark.touch()
    finally:
        if lock is not None:
            with contextlib.suppress(OSError, NameError):
                fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough: a child may have it open
            lock.close()


def is_compiled() -> bool:
    """Whether the kernels of this folder were compiled before, for this machine and versions."""
    return _mark().exists()


def _mark() -> Path:
    import llvmlite.binding

    from train.data.kernels import numba

    cpu = numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()
    versions = f"{sys.implementation.cache_tag}-numba{numba.__version__}"
    name = f"coefficients-{cpu}-{versions}".replace(os.sep, "_")
    return Path(numba.config.CACHE_DIR) / f"{name}.compiled"


def _locked(path: Path) -> Optional[IO[str]]:
    """The file, locked; None where that can't be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "w")  # noqa: SIM115  closed by the caller
    except OSError:
        return None
    with contextlib.suppress(OSError, NameError):
        fcntl.flock(file, fcntl.LOCK_EX)
    return file
