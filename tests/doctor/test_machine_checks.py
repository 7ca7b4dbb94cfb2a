"""Machines that are made up, each with one fault."""

import dataclasses
import time

import pytest

from train.doctor.machine_checks import check_machine, check_shm
from train.doctor.machine_facts import Machine, read_machine
from train.doctor.ptrace import ptrace_problem
from train.gpu import Gpu
from train.machine import Measure, usable_cpus

GPU = Gpu(0, "NVIDIA A100", 40 << 30, False, "550.54", "12.4")

SOUND = Machine(
    cpus=Measure("CPUs", 8, "sched_getaffinity"),
    quota=None,
    affinity=8,
    load=0.4,
    memory=Measure("memory", 32 << 30, "MemTotal"),
    shm=Measure("/dev/shm free", 8 << 30, "statvfs"),
    files=Measure("open files", 65536, "soft limit"),
    oom_kills=0,
    driver=None,
    gpus=([GPU], "NVML"),
    encoding="utf-8",
    now=1_800_000_000.0,
    newest_file=1_790_000_000.0,
    clock_source="tsc",
    clock_s=5e-8,
    disk=Measure("disk", "NVMe", "ext4"),
    free_bytes=100 << 30,
    environ={},
    ptrace="",
)


def found(own=False, **changes):
    return check_machine(dataclasses.replace(SOUND, **changes), own)


def test_a_sound_machine_has_no_findings():
    assert found(own=True) == []


FAULTS = [
    ("CPU quota", {"quota": Measure("CPU quota", 1.5, "cgroup v2")}),
    ("CPUs", {"cpus": Measure("CPUs", 1, "sched_getaffinity")}),
    ("other programs", {"load": 7.5}),
    ("killed for memory", {"oom_kills": 3}),
    ("memory", {"memory": Measure("memory", 2 << 30, "cgroup v2 limit")}),
    ("open files", {"files": Measure("open files", 1024, "soft limit")}),
    ("driver", {"driver": "NVIDIA's driver 470 is too old"}),
    ("lost GPU", {"gpus": ([GPU, dataclasses.replace(GPU, name="does not answer (lost?)")], "")}),
    ("MIG", {"gpus": ([dataclasses.replace(GPU, mig=True)], "NVML")}),
    ("locale", {"encoding": "ascii"}),
    ("clock", {"now": 86_400.0}),
    ("clock", {"now": 1_700_000_000.0}),
    ("slow clock", {"clock_s": 3e-6, "clock_source": "hpet"}),
    ("data on network", {"disk": Measure("disk", "network", "nfs4 at /data")}),
    ("data on hard disk", {"disk": Measure("disk", "hard disk", "sda")}),
    ("disk space", {"free_bytes": 1 << 20}),
    ("LD_LIBRARY_PATH", {"environ": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}}),
    ("CUDA_LAUNCH_BLOCKING", {"environ": {"CUDA_LAUNCH_BLOCKING": "1"}}),
    ("OMP_NUM_THREADS", {"environ": {"OMP_NUM_THREADS": "64"}}),
    ("py-spy", {"ptrace": "Operation not permitted"}),
]


@pytest.mark.parametrize(("what", "changes"), FAULTS, ids=[what for what, _ in FAULTS])
def test_each_fault_is_found_alone_with_evidence_and_mend(what, changes):
    (finding,) = found(**changes)
    assert finding.what == what
    assert len(finding.evidence) > 10
    assert finding.mend


@pytest.mark.parametrize(
    "changes",
    [
        {"quota": Measure("CPU quota", 16.0, "cgroup v2")},
        {"load": None},
        {"memory": Measure("memory", 0, "unknown")},
        {"files": Measure("open files", 0, "unknown")},
        {"gpus": ([], "NVML: not found")},
        {"encoding": "UTF-8"},
        {"newest_file": 0.0},
        {"disk": None},
        {"disk": Measure("disk", "unknown", "no mountinfo")},
        {"free_bytes": None},
        {"environ": {"CUDA_LAUNCH_BLOCKING": "0", "OMP_NUM_THREADS": "8", "LD_PRELOAD": ""}},
    ],
)
def test_what_is_sound_or_unknown_is_no_finding(changes):
    assert found(**changes) == []


def test_shared_memory_matters_for_samples_of_a_users_own():
    small = Measure("/dev/shm free", 60 << 20, "statvfs, 64.0 MiB in all")
    assert found(own=False, shm=small) == []
    (finding,) = found(own=True, shm=small)
    assert finding.what == "/dev/shm"
    assert "--shm-size" in finding.mend
    assert finding in check_shm(dataclasses.replace(SOUND, shm=small))


def test_serious_findings_come_first():
    findings = found(load=7.5, oom_kills=1, files=Measure("open files", 256, "soft limit"))
    assert [finding.serious for finding in findings] == [True, False, False]


def test_this_machine_can_be_read(tmp_path):
    seen = read_machine(usable_cpus(), str(tmp_path))
    assert seen.affinity >= 1
    assert abs(seen.now - time.time()) < 60
    assert seen.disk is not None
    assert isinstance(check_machine(seen, own=True, workers=2), list)


def test_whether_others_can_be_looked_into_is_tried():
    assert isinstance(ptrace_problem(), str)
