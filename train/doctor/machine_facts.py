"""What this machine is like, as far as an examination wants to know: read, not judged."""

import dataclasses
import os
import sys
import time
from typing import Dict, Optional, Sequence, Tuple

from train import machine
from train.cgroup import cpu_quota
from train.doctor.ptrace import ptrace_problem


@dataclasses.dataclass(frozen=True)
class Machine:
    """What was read.

    Attributes:
        cpus: usable ones, and where the number comes from.
        quota: of the cgroup, in CPUs; None without.
        affinity: CPUs that this process may run on.
        load: mean number of running processes in the last minute; None where unknown.
        memory, shm, files: limits, each with its source.
        oom_kills: processes of this cgroup that were killed for memory.
        driver: what keeps PyTorch from the GPUs; None: nothing known.
        gpus: as NVML has them, and a note.
        encoding: of file names.
        now: the clock, seconds.
        newest_file: when the newest of our own files was written.
        clock_source: of the kernel; '' where unknown.
        clock_s: one look at the clock.
        disk: kind of the disk of the data; None: no data.
        free_bytes: on the disk that runs are written to; None where unknown.
        environ: variables.
        ptrace: why py-spy can't look into a process; '': it can.
    """

    cpus: machine.Measure[int]
    quota: Optional[machine.Measure[float]]
    affinity: int
    load: Optional[float]
    memory: machine.Measure[int]
    shm: machine.Measure[int]
    files: machine.Measure[int]
    oom_kills: int
    driver: Optional[str]
    gpus: Tuple[Sequence[machine.Gpu], str]
    encoding: str
    now: float
    newest_file: float
    clock_source: str
    clock_s: float
    disk: Optional[machine.Measure[str]]
    free_bytes: Optional[int]
    environ: Dict[str, str]
    ptrace: str


def read_machine(cpus: machine.Measure[int], data_path: Optional[str] = None) -> Machine:
    """Read this machine; nothing is changed, and nothing raises.

    Args:
        cpus: as read before torch was imported.
        data_path: of the data; None: there are none.
    """
    try:
        load: Optional[float] = os.getloadavg()[0]
    except (AttributeError, OSError):
        load = None
    return Machine(
        cpus,
        cpu_quota(),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load,
        machine.memory_limit_bytes(),
        machine.shm_free_bytes(),
        machine.open_file_limit(),
        _oom_kills(),
        machine.driver_problem(),
        machine.gpus(),
        sys.getfilesystemencoding(),
        time.time(),
        _newest_file(),
        _line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        _clock_s(),
        machine.disk_kind(data_path) if data_path else None,
        _free_bytes("."),
        dict(os.environ),
        ptrace_problem(),
    )


def _line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _oom_kills() -> int:
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path, encoding="ascii") as file:
                for line in file:
                    words = line.split()
                    if len(words) == 2 and words[0] == "oom_kill":
                        return int(words[1])
        except (OSError, ValueError):
            continue
    return 0


def _newest_file() -> float:
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        return max(entry.stat().st_mtime for entry in os.scandir(folder) if entry.is_file())
    except (OSError, ValueError):
        return 0.0


def _clock_s() -> float:
    best = 1.0
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(200):
            time.perf_counter()
        best = min(best, (time.perf_counter() - begin) / 201)
    return best


def _free_bytes(path: str) -> Optional[int]:
    try:
        room = os.statvfs(path)
    except (AttributeError, OSError):
        return None
    return room.f_bavail * room.f_frsize
