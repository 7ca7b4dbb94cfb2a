"""One input within bounds: what came of it, and what must not have been.

Time is the processor's, so that a busy machine finds nothing that is not there.
"""

import contextlib
import faulthandler
import os
import resource
import shutil
import signal
import tempfile
import traceback
import warnings
from pathlib import Path

import fuzz_targets

CPU_S = 5.0
"""A thousand times what an input takes."""

READ, REFUSED, FAILED = "read", "refused", "failed"


class Hang(BaseException):
    """An input took too long. No Exception, so that no reader swallows it."""


def limit_memory(mib):
    """Addresses for so much more than the process has: a bomb ends in MemoryError."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + (mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def prepare():
    """What a process sets once before it reads inputs."""

    def ring(signum, frame):
        raise Hang(f"more than {CPU_S:.0f} s of processor time")

    signal.signal(signal.SIGPROF, ring)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()  # pytest's
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", DeprecationWarning)  # of libraries, to each other
    warnings.filterwarnings("ignore", ".*TypedStorage is deprecated")  # torch 2.1
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libtiff has a lot to say


def attempt(name, number, folder):
    """Read one mutant: (READ, REFUSED or FAILED, and why).

    Args:
        name: of the target.
        number: of the mutant.
        folder: for files; each input gets its own, on a disk in memory where there is one.
    """
    target = fuzz_targets.TARGETS[name]
    data, draw = fuzz_targets.mutant(name, number)
    if not target.files:
        return _attempt(target, data, draw, None)
    with scratch(folder) as place:
        return _attempt(target, data, draw, place)


def _attempt(target, data, draw, place):
    before = _peak_mib()
    outcome, why = READ, ""
    try:
        _limit_seconds(CPU_S)
        try:
            target.check(data, place, draw)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except (*fuzz_targets.FAMILY, *target.refusals) as error:
        outcome, why = REFUSED, str(error)
        if not why:
            return FAILED, f"{type(error).__name__} without a message"
        if "MemoryError" in why or "do not fit into memory" in why:
            return FAILED, f"wanted more memory than there was: {why[:300]}"
    except (Exception, Hang):
        return FAILED, traceback.format_exc()[-3000:]
    grown = _peak_mib() - before
    if grown > target.growth_mib:
        return FAILED, f"took {grown:.0f} MiB for {len(data):,} bytes; {outcome} {why[:300]}"
    return outcome, why


def _limit_seconds(seconds):
    """A signal that Python hears, and later one that ends a loop in C with its process."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + 2 * seconds) + 1, hard))


def _peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.contextmanager
def scratch(folder):
    """A folder that is gone afterwards."""
    place = tempfile.mkdtemp(dir=folder)
    try:
        yield Path(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
