"""Is the machine in order? Each check is a pure function of what was read, and gives its findings.

`check_machine` runs all of them; tests make up any machine.
"""

import sys
from typing import Callable, List, Optional, Tuple

from train.doctor.environment_checks import (
    check_clock,
    check_disk,
    check_gpus,
    check_locale,
    check_ptrace,
    check_variables,
)
from train.doctor.findings import Finding
from train.doctor.machine_facts import Machine
from train.machine import bytes_text

LEAST_OPEN_FILES = 4096
LEAST_SHM_BYTES = 512 << 20
LEAST_MEMORY_BYTES = 4 << 30
BUSY = 0.3
"""Other programs that keep this share of the CPUs busy make every figure here smaller."""


def check_machine(seen: Machine, own: bool, workers: Optional[int] = None) -> List[Finding]:
    """All that is to be said about a machine.

    Args:
        seen: as read.
        own: a data set of a user's own is examined: its batches travel through /dev/shm.
        workers: of the loader; None: not known yet.
    """
    findings: List[Finding] = []
    for check in CHECKS:
        findings += check(seen)
    if own:
        findings += check_shm(seen)
    findings += check_omp(seen, workers)
    return sorted(findings, key=lambda finding: not finding.serious)


def check_shm(seen: Machine) -> List[Finding]:
    """Samples of a user's own are handed over in /dev/shm; our own batches are not."""
    if seen.shm.value >= LEAST_SHM_BYTES or not sys.platform.startswith("linux"):
        return []
    return [
        Finding(
            "/dev/shm",
            True,
            f"{bytes_text(seen.shm.value)} free ({seen.shm.source}): tensors of your samples pass "
            'through it, and a full one kills workers ("Bus error")',
            "docker run --shm-size 8g; compose: shm_size: 8g; or data.workers_kind=thread",
        )
    ]


def check_cpus(seen: Machine) -> List[Finding]:
    """A quota that is tighter than what `nproc` says; a single CPU."""
    findings = []
    if seen.quota is not None and seen.quota.value < seen.affinity:
        findings.append(
            Finding(
                "CPU quota",
                seen.quota.value < 2,
                f"{seen.quota.value:.3g} CPUs of {seen.affinity} ({seen.quota.source}): programs "
                "that count CPUs start too many threads, and the kernel stops them in turn",
                "docker run --cpus N, Kubernetes resources.limits.cpu; the loader here counts by "
                "the quota",
            )
        )
    elif seen.cpus.value == 1:
        findings.append(
            Finding(
                "CPUs",
                True,
                f"1 usable CPU ({seen.cpus.source}): workers take it from the main process",
                "give this process more CPUs (taskset, Slurm --cpus-per-task, docker --cpus)",
            )
        )
    return findings


def check_load(seen: Machine) -> List[Finding]:
    """Others that take the CPUs."""
    if seen.load is None or seen.load < max(1.0, BUSY * seen.affinity) + 0.5:
        return []
    return [
        Finding(
            "other programs",
            False,
            f"{seen.load:.1f} processes ran on {seen.affinity} CPU(s) in the last minute: figures "
            "here are smaller than on a quiet machine",
            "look again when it is quiet; `htop` says who it is",
        )
    ]


def check_memory(seen: Machine) -> List[Finding]:
    """Little memory, and processes that were killed for it."""
    findings = []
    if seen.oom_kills:
        findings.append(
            Finding(
                "killed for memory",
                True,
                f"{seen.oom_kills} process(es) of this container were killed when memory ran out "
                f"(limit {bytes_text(seen.memory.value)}, {seen.memory.source})",
                "lower data.workers, data.prefetch or data.batch_size; or allow more (docker run "
                "--memory)",
            )
        )
    elif 0 < seen.memory.value < LEAST_MEMORY_BYTES:
        findings.append(
            Finding(
                "memory",
                False,
                f"{bytes_text(seen.memory.value)} ({seen.memory.source}): PyTorch with CUDA takes "
                "2 to 3 GiB before the first batch",
                "docker run --memory, Kubernetes resources.limits.memory",
            )
        )
    return findings


def check_files(seen: Machine) -> List[Finding]:
    """A low limit of open files."""
    if not 0 < seen.files.value < LEAST_OPEN_FILES:
        return []
    return [
        Finding(
            "open files",
            False,
            f"{seen.files.value} ({seen.files.source}): a loader of PyTorch's own holds one for "
            'each tensor on its way ("Too many open files", "received 0 items of ancdata")',
            "ulimit -n 65536; docker run --ulimit nofile=65536; a run here raises it to the hard "
            "limit by itself",
        )
    ]


def check_omp(seen: Machine, workers: Optional[int] = None) -> List[Finding]:
    """Threads of OpenMP against CPUs."""
    text = seen.environ.get("OMP_NUM_THREADS", "")
    if not text.isdigit() or int(text) <= seen.cpus.value:
        return []
    return [
        Finding(
            "OMP_NUM_THREADS",
            True,
            f"{text} threads on {seen.cpus.value} usable CPU(s) ({seen.cpus.source}): they take "
            f"turns{f', beside {workers} worker(s)' if workers else ''}",
            f"export OMP_NUM_THREADS={seen.cpus.value}, or unset it",
        )
    ]


CHECKS: Tuple[Callable[[Machine], List[Finding]], ...] = (
    check_cpus,
    check_load,
    check_memory,
    check_files,
    check_gpus,
    check_locale,
    check_clock,
    check_disk,
    check_variables,
    check_ptrace,
)
