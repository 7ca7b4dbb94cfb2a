"""What a run takes from the machine: CPU time, cores, memory, of this process and its workers."""

import os
import time
from typing import Any, List, NamedTuple, Optional

import psutil


class Memory(NamedTuple):
    """Bytes of this process and its children, shared pages counted once (PSS).

    Attributes:
        anonymous: of their own.
        shared: batches on their way.
        files: mapped files, such as an LMDB; the page cache, which is no cost of theirs.
    """

    anonymous: int
    shared: int
    files: int

    @property
    def taken(self) -> int:
        """What the run takes: without the page cache."""
        return self.anonymous + self.shared


def _family() -> List[psutil.Process]:
    own = psutil.Process()
    try:
        return [own, *own.children(recursive=True)]
    except psutil.Error:
        return [own]


def cpu_seconds() -> float:
    """CPU seconds, user and system, of this process, its children, and those that have ended."""
    total = 0.0
    for number, process in enumerate(_family()):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # gone since; its parent has waited for it and counts it
        total += times.user + times.system
        if number == 0:
            total += times.children_user + times.children_system
    return total


def memory() -> Optional[Memory]:
    """Memory of this process and its children now; None where the system does not say."""
    sums = {"Pss_Anon:": 0, "Pss_Shmem:": 0, "Pss_File:": 0}
    found = False
    for process in _family():
        try:
            with open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as file:
                for line in file:
                    words = line.split()
                    if words[0] in sums:
                        found = True
                        sums[words[0]] += int(words[1]) * 1024
        except (OSError, ValueError):
            continue
    return Memory(*sums.values()) if found else None


class CoreClock:
    """How many cores were busy between two looks."""

    def __init__(self) -> None:
        self._cpu, self._time = cpu_seconds(), time.perf_counter()

    def cores(self) -> float:
        """Mean number of busy cores since this was made."""
        elapsed = time.perf_counter() - self._time
        return (cpu_seconds() - self._cpu) / elapsed if elapsed > 0 else 0.0


class OthersClock:
    """How many of our cores other programs kept busy between two looks."""

    def __init__(self) -> None:
        self._own, self._time, self._all = CoreClock(), time.perf_counter(), _busy_seconds()

    def cores(self) -> float:
        """Mean number since this was made; 0 where the system does not say."""
        elapsed = time.perf_counter() - self._time
        busy = _busy_seconds() - self._all
        return max(0.0, busy / elapsed - self._own.cores()) if elapsed > 0 else 0.0


def _busy_seconds() -> float:
    """Seconds, so far, in which the CPUs that this process may use were at work or taken away."""
    try:
        allowed = os.sched_getaffinity(0)
        found = [one for cpu, one in enumerate(psutil.cpu_times(percpu=True)) if cpu in allowed]
    except (AttributeError, OSError, psutil.Error):
        return 0.0
    return sum(sum(one) - one.idle - getattr(one, "iowait", 0.0) - _guest(one) for one in found)


def _guest(times: Any) -> float:
    """Linux counts a guest's time twice: as its own and in `user` and `nice`."""
    return float(getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0))


def descriptors() -> Optional[int]:
    """Open files of this process; None where the system does not say."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None
