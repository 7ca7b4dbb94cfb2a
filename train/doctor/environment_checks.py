"""Is what surrounds a run in order: GPUs, driver, locale, clock, disks, variables, py-spy?

Pure functions, as those of `machine_checks.py`.
"""

import time
from typing import List

from train.doctor.findings import Finding
from train.doctor.machine_facts import Machine
from train.machine import bytes_text

LEAST_DISK_BYTES = 2 << 30
SLOW_CLOCK_S = 1e-6
"""One look at the clock; tens of nanoseconds are usual."""

CLOCK_AFTER = 1_577_836_800  # 2020-01-01: what is installed here did not exist before


def check_gpus(seen: Machine) -> List[Finding]:
    """Driver beside PyTorch, lost GPUs, MIG."""
    findings = []
    if seen.driver is not None:
        findings.append(Finding("driver", True, seen.driver, "see the text before"))
    found, note = seen.gpus
    lost = [gpu.index for gpu in found if "lost" in gpu.name]
    if lost:
        findings.append(
            Finding(
                "lost GPU",
                True,
                f"GPU {', '.join(map(str, lost))} does not answer NVML ({note}): it fell off the "
                "bus, or hangs",
                "dmesg | grep -i xid; a restart of the machine; until then "
                "CUDA_VISIBLE_DEVICES without it",
            )
        )
    if any(gpu.mig for gpu in found):
        findings.append(
            Finding(
                "MIG",
                False,
                "a GPU is divided (MIG): its utilisation is not told, a process uses one part",
                "nothing; `waiting for data` is measured by events all the same",
            )
        )
    return findings


def check_locale(seen: Machine) -> List[Finding]:
    """File names that are no UTF-8."""
    if seen.encoding.lower().replace("-", "") == "utf8":
        return []
    return [
        Finding(
            "locale",
            True,
            f"file names are taken for {seen.encoding}: names with other letters can't be opened",
            "export LC_ALL=C.UTF-8 PYTHONUTF8=1",
        )
    ]


def check_clock(seen: Machine) -> List[Finding]:
    """A clock that is wrong, or slow to look at."""
    findings = []
    if seen.now < max(CLOCK_AFTER, seen.newest_file - 86_400):
        when = time.strftime("%Y-%m-%d", time.gmtime(seen.now))
        findings.append(
            Finding(
                "clock",
                True,
                f"it says {when}, which is before the files of this program were written: "
                "certificates are refused, and runs are sorted wrong",
                "timedatectl set-ntp true on the host",
            )
        )
    if seen.clock_s > SLOW_CLOCK_S:
        findings.append(
            Finding(
                "slow clock",
                False,
                f"a look at the clock takes {1e6 * seen.clock_s:.1f} µs (kernel's source: "
                f"{seen.clock_source or 'unknown'}): profilers slow the run down",
                "clocksource=tsc on the host's kernel command line",
            )
        )
    return findings


_SLOW_DISKS = {
    "network": "each file is a round trip, and every reader shares the line",
    "hard disk": "each small file is a seek, about a hundred a second",
    "FUSE": "each read goes through a program",
    "overlay": "the container's own layer; a mounted folder is often faster",
}


_OVER_THE_NETWORK = (
    " --container tar: few large files, which copy and stream well; LMDB is made for a local disk"
)


def check_disk(seen: Machine) -> List[Finding]:
    """Data on a kind of disk that is slow for small files; no room for runs."""
    findings = []
    if seen.disk is not None and seen.disk.value in _SLOW_DISKS:
        findings.append(
            Finding(
                f"data on {seen.disk.value}",
                False,
                f"{_SLOW_DISKS[seen.disk.value]} ({seen.disk.source})",
                "data on a local SSD or NVMe; many small files: train pack DIR OUT"
                + (_OVER_THE_NETWORK if seen.disk.value == "network" else ""),
            )
        )
    if seen.free_bytes is not None and seen.free_bytes < LEAST_DISK_BYTES:
        findings.append(
            Finding(
                "disk space",
                True,
                f"{bytes_text(seen.free_bytes)} free in this folder: checkpoints need room twice",
                "free some, or run.folder on another disk",
            )
        )
    return findings


_VARIABLES = {
    "LD_LIBRARY_PATH": "libraries there hide the environment's, and an import may fail",
    "LD_PRELOAD": "this library is loaded into every process before the environment's",
    "PYTHONPATH": "packages found there hide those of the environment",
    "KMP_DUPLICATE_LIB_OK": "allows two OpenMP libraries, which can give wrong results",
    "CUDA_LAUNCH_BLOCKING": "every kernel waits for its end: for debugging alone",
    "NVIDIA_TF32_OVERRIDE": "0 turns TF32 off in all libraries",
}


def check_variables(seen: Machine) -> List[Finding]:
    """Variables that change what is loaded, or how fast it runs."""
    harmless = {"CUDA_LAUNCH_BLOCKING": "0", "NVIDIA_TF32_OVERRIDE": "1"}
    return [
        Finding(name, False, f"{seen.environ[name]}; {meaning}", f"unset {name}, if you can")
        for name, meaning in _VARIABLES.items()
        if seen.environ.get(name) and seen.environ[name] != harmless.get(name)
    ]


def check_ptrace(seen: Machine) -> List[Finding]:
    """Can py-spy look into a process that runs?"""
    if not seen.ptrace:
        return []
    return [
        Finding(
            "py-spy",
            False,
            f"it can't look into another process here: {seen.ptrace}",
            "docker run --cap-add SYS_PTRACE; Kubernetes securityContext.capabilities.add; a run "
            "that stalls names the line by itself",
        )
    ]
