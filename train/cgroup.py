"""CPUs and memory that this process may really use, each with where the number came from.

In a container `os.cpu_count()` and `/proc/meminfo` tell about the host. The limits stand in cgroup
files: version 2 has one tree (`cpu.max`, `memory.max`), version 1 one tree per controller, and a
machine may have both. A parent's limit binds its children, so every folder from our own group up to
the mount point is read and the tightest limit holds.

Nothing here imports torch or NumPy: an OpenMP library may change the affinity when it is loaded, so
this is read before.

Source: https://docs.kernel.org/admin-guide/cgroup-v2.html and
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Generic, Iterator, List, Optional, Set, Tuple, TypeVar

from train.mounts import PathLike, mounts, read_text

T = TypeVar("T")

# Version 1 has no word for "no limit": it shows the largest page-aligned number. No machine has
# an exbibyte.
_UNLIMITED_BYTES = 1 << 60


@dataclass(frozen=True)
class Measure(Generic[T]):
    """A number read from the machine and where it came from."""

    name: str
    value: T
    source: str


def bytes_text(count: float) -> str:
    """A size for people: '512 B', '9.2 MiB', '23.5 GiB' (powers of 1024)."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{int(count)} B"


def local_ranks() -> Measure[int]:
    """Training processes of this job on this machine, of which this is one; 1 without a launcher.

    torchrun says it. Other launchers bind each process to CPUs of its own, which affinity shows.
    """
    told = _whole_number(os.environ.get("LOCAL_WORLD_SIZE", ""))
    if told:
        return Measure("local ranks", told, "LOCAL_WORLD_SIZE, set by torchrun")
    return Measure("local ranks", 1, "no LOCAL_WORLD_SIZE: not started by torchrun")


def usable_cpus(root: PathLike = "/", ranks: Optional[Measure[int]] = None) -> Measure[int]:
    """CPUs for this process: the least of affinity and cgroup quota, shared among local ranks.

    A quota of 1.5 CPUs counts as 1: the kernel would stop a second busy process half of the time.

    Args:
        root: where `proc` and `sys` are looked for; tests pass a folder.
        ranks: training processes on this machine that share its CPUs; None: `local_ranks()`.

    Returns:
        A count of at least 1, named "CPUs".
    """
    cpus, source = _affinity()
    source += _threads_per_core(root, cpus)
    count = max(1, len(cpus))
    quota = cpu_quota(root)
    if quota is not None:
        by_quota = max(1, int(quota.value))
        if by_quota < count:
            rounded = "" if by_quota == quota.value else f", counted as {by_quota}"
            source = f"{quota.source}{rounded}; without it {count} by {source}"
            count = by_quota
        else:
            source += f"; {quota.source} is not tighter"
    ranks = local_ranks() if ranks is None else ranks
    if ranks.value > 1:
        source += f"; {count} shared by {ranks.value} local ranks ({ranks.source})"
        count = max(1, count // ranks.value)
    return Measure("CPUs", count, source)


def cpu_quota(root: PathLike = "/") -> Optional[Measure[float]]:
    """The tightest CPU quota of our cgroup and its parents, in CPUs (may be 1.5); None without."""
    tightest: Optional[Measure[float]] = None
    for version, folder in _groups(root, "cpu"):
        if version == 2:
            name, words = "cpu.max", read_text(folder / "cpu.max").split()
        else:
            name = "cpu.cfs_quota_us"
            words = [
                read_text(folder / name).strip(),
                read_text(folder / "cpu.cfs_period_us").strip(),
            ]
        numbers = [_whole_number(word) for word in words]
        if len(numbers) != 2 or not numbers[0] or not numbers[1]:
            continue  # "max", -1, or no such file: no quota at this level
        value = numbers[0] / numbers[1]
        if tightest is None or value < tightest.value:
            source = f"cgroup v{version} quota of {value:.3g} CPUs ({_shown(root, folder / name)})"
            tightest = Measure("CPU quota", value, source)
    return tightest


def memory_limit_bytes(root: PathLike = "/") -> Measure[int]:
    """Memory this process may use: the least of the host's and of our cgroups' limits.

    Returns:
        Bytes, named "memory"; 0 where the system does not say.
    """
    best = _host_memory(root, "MemTotal", "SC_PHYS_PAGES")
    for version, folder, limit, name in _memory_limits(root):
        if best.value == 0 or limit < best.value:
            best = Measure("", limit, f"cgroup v{version} limit ({_shown(root, folder / name)})")
    return Measure("memory", best.value, best.source)


def memory_available_bytes(root: PathLike = "/") -> Measure[int]:
    """Memory that can still be taken without swapping or being killed.

    Inside a cgroup, file pages not used lately count as free: the kernel drops them first.

    Returns:
        Bytes, named "memory available"; 0 where the system does not say.
    """
    best = _host_memory(root, "MemAvailable", "SC_AVPHYS_PAGES")
    for version, folder, limit, _ in _memory_limits(root):
        used_in, cache_in = "memory.current", "inactive_file"
        if version == 1:
            used_in, cache_in = "memory.usage_in_bytes", "total_inactive_file"
        used = _whole_number(read_text(folder / used_in)) or 0
        used -= _table(folder / "memory.stat").get(cache_in, 0)
        free = max(0, limit - max(0, used))
        if best.value == 0 or free < best.value:
            what = f"cgroup v{version} limit of {bytes_text(limit)} less what is used"
            best = Measure("", free, f"{what} ({_shown(root, folder)})")
    return Measure("memory available", best.value, best.source)


def oom_kills(root: PathLike = "/") -> Measure[int]:
    """How often the kernel has killed a process of our cgroups because their memory ran out.

    Returns:
        A count, named "killed for memory", which means something beside an earlier one. 0 where
        the system does not say.
    """
    count, source = 0, "no cgroup that counts them"
    for version, folder in _groups(root, "memory"):
        name = "memory.events" if version == 2 else "memory.oom_control"
        found = _table(folder / name).get("oom_kill")
        if found is not None:
            count, source = count + found, f"cgroup v{version} ({_shown(root, folder / name)})"
    return Measure("killed for memory", count, source)


def _affinity() -> Tuple[Set[int], str]:
    try:
        return set(os.sched_getaffinity(0)), "sched_getaffinity"
    except (AttributeError, OSError):
        return set(
            range(os.cpu_count() or 1)
        ), "os.cpu_count (this system has no sched_getaffinity)"


def _threads_per_core(root: PathLike, cpus: Set[int]) -> str:
    """Say when CPUs share cores: two hardware threads decode less than twice as fast as one."""
    folder = Path(root, "sys/devices/system/cpu")
    cores = {read_text(folder / f"cpu{cpu}/topology/thread_siblings_list").strip() for cpu in cpus}
    if "" in cores or len(cores) >= len(cpus):
        return ""
    ending = "s" if len(cores) > 1 else ""
    return f" ({len(cpus)} hardware threads on {len(cores)} core{ending})"


def _groups(root: PathLike, controller: str) -> Iterator[Tuple[int, Path]]:
    """(version, folder) of our group and of its parents up to the mount point, for a controller."""
    own: Dict[str, str] = {}
    for line in read_text(Path(root, "proc/self/cgroup")).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            own.update(dict.fromkeys(parts[1].split(","), parts[2]))  # version 2 has no name: ""
    for mount in mounts(root):
        if mount.kind == "cgroup2" and "" in own:
            version, path = 2, own[""]
        elif mount.kind == "cgroup" and controller in mount.options and controller in own:
            version, path = 1, own[controller]
        else:
            continue
        below = _below(path, mount.fs_root)
        for depth in range(len(below), -1, -1):
            yield version, Path(root, mount.point.lstrip("/"), *below[:depth])


def _below(path: str, fs_root: str) -> List[str]:
    """Folders from the mount point down to our group.

    Docker without a cgroup namespace mounts only our own part of the tree (`fs_root`) while /proc
    names the path on the host. Where the two don't fit, or lead out of the namespace ("/.."), the
    mount point is all that can be known.
    """
    parts, base = path.strip("/").split("/"), fs_root.strip("/").split("/")
    parts, base = [part for part in parts if part], [part for part in base if part]
    if ".." in parts or ".." in base or parts[: len(base)] != base:
        return []
    return parts[len(base) :]


def _memory_limits(root: PathLike) -> Iterator[Tuple[int, Path, int, str]]:
    for version, folder in _groups(root, "memory"):
        name = "memory.max" if version == 2 else "memory.limit_in_bytes"
        found = [(_whole_number(read_text(folder / name)) or 0, name)]
        # Version 1 also tells the limit of parents that are not mounted here.
        inherited = _table(folder / "memory.stat").get("hierarchical_memory_limit", 0)
        found.append((inherited, "memory.stat"))
        limited = [(limit, name) for limit, name in found if 0 < limit < _UNLIMITED_BYTES]
        if limited:
            limit, name = min(limited)
            yield version, folder, limit, name


def _host_memory(root: PathLike, field: str, pages: str) -> Measure[int]:
    kib = _table(Path(root, "proc/meminfo")).get(field)
    if kib:
        return Measure("", kib * 1024, f"{field} in /proc/meminfo")
    try:
        return Measure("", os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE"), f"sysconf {pages}")
    except (AttributeError, OSError, ValueError):
        return Measure("", 0, "unknown: this system does not say")


def _table(path: Path) -> Dict[str, int]:
    """Lines of 'name number' (memory.stat) or 'Name: number kB' (meminfo) as a dictionary."""
    table = {}
    for line in read_text(path).splitlines():
        words = line.replace(":", " ").split()
        number = _whole_number(words[1]) if len(words) > 1 else None
        if number is not None:
            table[words[0]] = number
    return table


def _whole_number(text: str) -> Optional[int]:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _shown(root: PathLike, path: Path) -> str:
    return "/" + path.relative_to(root).as_posix()
