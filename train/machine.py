"""What this machine offers: CPUs, memory, open files, GPUs, file systems, the environment.

Import this before torch: an OpenMP library may change the CPU affinity when it is loaded. Every
number comes as a `Measure` with its source, so a log line or the report can say where it is from.
Nothing here ends a run: what cannot be read is "unknown", with the reason. CPUs and memory are read
in `cgroup.py`, GPUs in `gpu.py`, the driver in `driver.py`, disks in `disk.py`.
"""

import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Dict, List

from train.cgroup import (
    Measure,
    bytes_text,
    local_ranks,
    memory_available_bytes,
    memory_limit_bytes,
    oom_kills,
    usable_cpus,
)
from train.disk import disk_kind, file_system
from train.driver import driver_problem, driver_row
from train.gpu import Gpu, GpuUtilisation, gpu_rows, gpus
from train.mounts import PathLike

__all__ = [
    "Gpu",
    "GpuUtilisation",
    "Measure",
    "bytes_text",
    "describe",
    "disk_kind",
    "driver_problem",
    "file_system",
    "gpus",
    "local_ranks",
    "lock_hash",
    "memory_available_bytes",
    "memory_limit_bytes",
    "oom_kills",
    "open_file_limit",
    "raise_open_file_limit",
    "shm_free_bytes",
    "usable_cpus",
]

PACKAGES = ("torch", "torchvision", "numpy", "pillow", "simplejpeg")

# Variables that redirect what is loaded: the first thing to look at when an import fails.
_RISKY_VARIABLES = {
    "LD_LIBRARY_PATH": "libraries there hide the environment's; unset it if an import fails",
    "LD_PRELOAD": "this library is loaded into every process before the environment's",
    "PYTHONPATH": "packages found there hide those of the environment",
    "KMP_DUPLICATE_LIB_OK": "allows two OpenMP libraries, which can give wrong results; unset it",
}


def shm_free_bytes(path: PathLike = "/dev/shm") -> Measure[int]:
    """Free bytes of the shared memory that workers put batches into; 0 where there is none."""
    name = f"{os.fspath(path)} free"
    try:
        room = os.statvfs(path)
    except (AttributeError, OSError) as error:
        cause = getattr(error, "strerror", None) or error
        return Measure(name, 0, f"no {os.fspath(path)} ({cause})")
    if room.f_blocks == 0:  # a tmpfs mounted with size=0 has no bound and reports 0 of 0 free
        memory = memory_available_bytes()
        return Measure(name, memory.value, f"no bound but memory available: {memory.source}")
    size = bytes_text(room.f_blocks * room.f_frsize)
    return Measure(name, room.f_bavail * room.f_frsize, f"statvfs, {size} in all")


def open_file_limit() -> Measure[int]:
    """How many files this process may hold open now (soft limit); 0 where it is unknown."""
    try:
        import resource  # Unix alone has it

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except (ImportError, OSError, ValueError) as error:
        return Measure("open files", 0, f"unknown ({error})")
    return Measure("open files", soft, f"soft limit; the hard limit is {hard}")


def raise_open_file_limit() -> Measure[int]:
    """Raise the soft limit of open files to the hard one: each batch in flight holds descriptors.

    Returns:
        The limit that now holds. Where it can't be changed nothing is raised; the source says why.
    """
    try:
        import resource  # Unix alone has it

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == hard:
            return Measure("open files", soft, "the soft limit is the hard limit already")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return Measure("open files", hard, f"raised from {soft} to the hard limit")
    except (ImportError, OSError, ValueError) as error:
        now = open_file_limit()
        return Measure("open files", now.value, f"{now.source}; could not be raised ({error})")


def describe(data: PathLike = ".") -> List[Measure[str]]:
    """All of it as rows for `train info` and `machine.json`: name, value as text, source.

    It imports none of the packages it names. Called after `import torch` it also shows which OpenMP
    libraries and which libstdc++ are loaded.

    Args:
        data: a path on the disk that the data are read from.
    """
    rows = [_as_text(usable_cpus()), _as_text(local_ranks())]
    for size in (memory_limit_bytes(), memory_available_bytes(), shm_free_bytes()):
        rows.append(Measure(size.name, bytes_text(size.value), size.source))
    rows.append(_as_text(open_file_limit()))
    rows.append(disk_kind(data))
    rows += gpu_rows()
    rows.append(driver_row())
    rows.append(Measure("kernel", f"{platform.system()} {platform.release()}", platform.machine()))
    rows.append(Measure("Python", platform.python_version(), sys.prefix))
    rows += [_environment_row()]
    rows += [_package_row(name) for name in PACKAGES]
    return rows + _library_rows() + _findings()


def lock_hash() -> str:
    """Hash of the lock this environment was made from; '' in an environment of one's own."""
    try:
        marker = json.loads(Path(sys.prefix, "wellfed.json").read_text(encoding="utf-8"))
        return str(marker["lock"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _as_text(measure: Measure[int]) -> Measure[str]:
    return Measure(measure.name, str(measure.value), measure.source)


def _environment_row() -> Measure[str]:
    path = Path(sys.prefix, "wellfed.json")
    try:
        marker = json.loads(path.read_text(encoding="utf-8"))
        lock = str(marker["lock"])[:12]
        text = f"{marker['way']}, lock {lock}, torch {marker['torch']}, CUDA {marker['cuda']}"
        if marker.get("state", "ready") != "ready":
            text += " (half-made: run make env)"
        return Measure("environment", text, str(path))
    except FileNotFoundError:
        return Measure("environment", "not made by make env", f"no {path}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        cause = f"{type(error).__name__}: {error}"
        return Measure("environment", "unknown", f"cannot read {path} ({cause})")


def _package_row(name: str) -> Measure[str]:
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return Measure(name, "not installed", "importlib.metadata")
    return Measure(name, str(found.version), str(found.locate_file("")))


def _library_rows() -> List[Measure[str]]:
    """OpenMP and C++ libraries loaded now: two of a kind can end in aborts or wrong results."""
    kinds = {"OpenMP": ("libgomp", "libiomp5", "libomp"), "libstdc++": ("libstdc++",)}
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    paths = sorted({line[line.index("/") :] for line in maps.splitlines() if "/" in line})
    rows = []
    for kind, names in kinds.items():
        starts = tuple(name + end for name in names for end in (".", "-"))
        loaded = [path for path in paths if os.path.basename(path).startswith(starts)]
        if loaded:
            warning = "; more than one can clash" if len(loaded) > 1 else ""
            rows.append(Measure(f"{kind} loaded", ", ".join(loaded), f"/proc/self/maps{warning}"))
    return rows


def _findings() -> List[Measure[str]]:
    """What often breaks an environment: variables that redirect loading, outside packages."""
    rows = []
    for name, meaning in _RISKY_VARIABLES.items():
        if os.environ.get(name):
            rows.append(Measure(name, os.environ[name], meaning))
    checkout = Path(__file__).resolve().parent.parent
    inside = (Path(sys.prefix).resolve(), checkout)
    outside: Dict[str, List[str]] = {}
    for found in metadata.distributions():
        folder = Path(str(found.locate_file(""))).resolve()
        if not any(home == folder or home in folder.parents for home in inside):
            outside.setdefault(str(folder), []).append(str(found.metadata["Name"]))
    for place, names in outside.items():
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        shown = ", ".join(sorted(names)[:8]) + more
        meaning = f"outside the environment: {place}; PYTHONNOUSERSITE=1 keeps user packages out"
        rows.append(Measure("packages from outside", shown, meaning))
    return rows
