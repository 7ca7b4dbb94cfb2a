"""CPUs and memory from made-up /proc and /sys trees: cgroup v1, v2, both, and none."""

import os

import pytest

from train import cgroup
from train.cgroup import (
    Measure,
    bytes_text,
    cpu_quota,
    local_ranks,
    memory_available_bytes,
    memory_limit_bytes,
    mounts,
    oom_kills,
    usable_cpus,
)

GIB = 1 << 30
V2 = "30 23 0:26 / /sys/fs/cgroup ro,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1_CPU = "33 32 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
V1_MEMORY = "34 32 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
V1_UNLIMITED = 9223372036854771712


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A function that writes a fake root; 8 CPUs are allowed unless a test says otherwise."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)

    def write(own="", mountinfo=(), total_gib=64, **files):
        texts = {"proc/self/cgroup": own, "proc/self/mountinfo": "\n".join(mountinfo) + "\n"}
        if total_gib:
            kib = total_gib * GIB // 1024
            texts["proc/meminfo"] = f"MemTotal: {kib} kB\nMemAvailable: {kib // 2} kB\n"
        texts.update(
            {f"sys/fs/cgroup/{name}": text for name, text in files.get("groups", {}).items()}
        )
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        return tmp_path

    return write


CPU_CASES = {
    # name: (own cgroup, mounts, files, expected CPUs, words in the source)
    "v2 plain": ("0::/job", [V2], {"job/cpu.max": "200000 100000"}, 2, "v2 quota of 2 CPUs"),
    "v2 max": ("0::/job", [V2], {"job/cpu.max": "max 100000"}, 8, "sched_getaffinity"),
    "v2 parent is tighter": (
        "0::/a/b/c",
        [V2],
        {"a/cpu.max": "300000 100000", "a/b/c/cpu.max": "600000 100000"},
        3,
        "/sys/fs/cgroup/a/cpu.max",
    ),
    "v2 parent is wider": (
        "0::/a/b",
        [V2],
        {"a/cpu.max": "600000 100000", "a/b/cpu.max": "400000 100000"},
        4,
        "/sys/fs/cgroup/a/b/cpu.max",
    ),
    "v2 own namespace": ("0::/", [V2], {"cpu.max": "400000 100000"}, 4, "/sys/fs/cgroup/cpu.max"),
    "v2 one and a half": ("0::/", [V2], {"cpu.max": "150000 100000"}, 1, "1.5 CPUs"),
    "v2 less than one": ("0::/", [V2], {"cpu.max": "20000 100000"}, 1, "counted as 1"),
    "v2 quota is wider": ("0::/", [V2], {"cpu.max": "1600000 100000"}, 8, "is not tighter"),
    "v2 moved out of the namespace": (
        "0::/../other",
        [V2],
        {"cpu.max": "500000 100000"},
        5,
        "/sys/fs/cgroup/cpu.max",
    ),
    "v2 torn file": ("0::/", [V2], {"cpu.max": "many"}, 8, "sched_getaffinity"),
    "v2 empty period": ("0::/", [V2], {"cpu.max": "100000 0"}, 8, "sched_getaffinity"),
    "v1 quota": (
        "4:cpu,cpuacct:/docker/f00",
        [V1_CPU],
        {
            "cpu,cpuacct/docker/f00/cpu.cfs_quota_us": "250000",
            "cpu,cpuacct/docker/f00/cpu.cfs_period_us": "50000",
        },
        5,
        "cgroup v1 quota of 5 CPUs",
    ),
    "v1 no quota": (
        "4:cpu,cpuacct:/docker/f00",
        [V1_CPU],
        {
            "cpu,cpuacct/docker/f00/cpu.cfs_quota_us": "-1",
            "cpu,cpuacct/docker/f00/cpu.cfs_period_us": "100000",
        },
        8,
        "sched_getaffinity",
    ),
    "v1 mounted from the container's folder": (
        "4:cpu,cpuacct:/docker/f00",
        ["33 32 0:30 /docker/f00 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct"],
        {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"},
        3,
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    ),
    "hybrid": (
        "4:cpu,cpuacct:/job\n0::/job",
        [V1_CPU, "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"],
        {
            "cpu,cpuacct/job/cpu.cfs_quota_us": "200000",
            "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
            "unified/job/cgroup.procs": "1",
        },
        2,
        "cgroup v1 quota of 2 CPUs",
    ),
    "another controller's mount": (
        "4:cpu:/job\n5:memory:/job",
        [V1_MEMORY],
        {"memory/job/cpu.cfs_quota_us": "100000", "memory/job/cpu.cfs_period_us": "100000"},
        8,
        "sched_getaffinity",
    ),
}


@pytest.mark.parametrize("case", CPU_CASES.values(), ids=CPU_CASES.keys())
def test_usable_cpus(make, case):
    own, mountinfo, groups, expected, words = case
    measure = usable_cpus(make(own, mountinfo, groups=groups))
    assert (measure.name, measure.value) == ("CPUs", expected)
    assert words in measure.source


def test_affinity_tighter_than_quota(make, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})
    root = make("0::/", [V2], groups={"cpu.max": "400000 100000"})
    measure = usable_cpus(root)
    assert measure.value == 2
    assert measure.source.startswith("sched_getaffinity; cgroup v2 quota of 4 CPUs")


def test_no_files_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    assert usable_cpus(tmp_path) == cgroup.Measure("CPUs", 3, "sched_getaffinity")
    assert cpu_quota(tmp_path) is None
    assert mounts(tmp_path) == []


@pytest.mark.parametrize(("count", "expected"), [(6, 6), (None, 1)])
def test_system_without_affinity(tmp_path, monkeypatch, count, expected):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    measure = usable_cpus(tmp_path)
    assert measure.value == expected
    assert "os.cpu_count" in measure.source


@pytest.mark.parametrize(("ranks", "expected"), [(1, 8), (3, 2), (16, 1), (0, 8)])
def test_cpus_are_shared_by_local_ranks(make, ranks, expected):
    measure = usable_cpus(make(), Measure("local ranks", ranks, "a test"))
    assert measure.value == expected
    assert ("local ranks (a test)" in measure.source) == (ranks > 1)


def test_torchrun_says_how_many_ranks_share_the_machine(make, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    root = make("0::/", [V2], groups={"cpu.max": "600000 100000"})
    measure = usable_cpus(root)
    assert measure.value == 1
    assert "6 shared by 4 local ranks (LOCAL_WORLD_SIZE, set by torchrun)" in measure.source


@pytest.mark.parametrize("text", [None, "", "0", "many", "-2"])
def test_without_torchrun_there_is_one_rank(monkeypatch, text):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if text is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", text)
    assert local_ranks().value == 1


@pytest.mark.parametrize(
    ("siblings", "words"),
    [
        (lambda cpu: f"{cpu % 4},{cpu % 4 + 4}", "8 hardware threads on 4 cores"),
        (lambda cpu: "0-7", "8 hardware threads on 1 core)"),
        (lambda cpu: f"{cpu}", None),
        (lambda cpu: f"{cpu % 4},{cpu % 4 + 4}" if cpu else "", None),
    ],
)
def test_hardware_threads_are_noted(make, siblings, words):
    root = make()
    for cpu in range(8):
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings(cpu) + "\n")
    measure = usable_cpus(root)
    assert measure.value == 8
    if words:
        assert words in measure.source
    else:
        assert "hardware threads" not in measure.source


MEMORY_CASES = {
    "host alone": ("0::/", [V2], {"memory.max": "max"}, 64 * GIB, "/proc/meminfo"),
    "v2": ("0::/", [V2], {"memory.max": str(4 * GIB)}, 4 * GIB, "cgroup v2 limit"),
    "v2 parent is tighter": (
        "0::/pod/job",
        [V2],
        {"pod/memory.max": str(2 * GIB), "pod/job/memory.max": str(8 * GIB)},
        2 * GIB,
        "/sys/fs/cgroup/pod/memory.max",
    ),
    "v2 wider than the host": ("0::/", [V2], {"memory.max": str(99 * GIB)}, 64 * GIB, "MemTotal"),
    "v1": (
        "5:memory:/job",
        [V1_MEMORY],
        {"memory/job/memory.limit_in_bytes": str(3 * GIB)},
        3 * GIB,
        "cgroup v1 limit",
    ),
    "v1 unlimited": (
        "5:memory:/job",
        [V1_MEMORY],
        {"memory/job/memory.limit_in_bytes": str(V1_UNLIMITED)},
        64 * GIB,
        "MemTotal",
    ),
    "v1 parent is not mounted": (
        "5:memory:/docker/f00",
        ["34 32 0:31 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"],
        {
            "memory/memory.limit_in_bytes": str(V1_UNLIMITED),
            "memory/memory.stat": f"cache 12\nhierarchical_memory_limit {5 * GIB}",
        },
        5 * GIB,
        "memory.stat",
    ),
}


@pytest.mark.parametrize("case", MEMORY_CASES.values(), ids=MEMORY_CASES.keys())
def test_memory_limit(make, case):
    own, mountinfo, groups, expected, words = case
    measure = memory_limit_bytes(make(own, mountinfo, groups=groups))
    assert (measure.name, measure.value) == ("memory", expected)
    assert words in measure.source


def test_unlimited_v1_is_ignored_even_where_the_host_is_unknown(make, monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    files = {"memory/memory.limit_in_bytes": str(V1_UNLIMITED)}
    measure = memory_limit_bytes(make("5:memory:/", [V1_MEMORY], total_gib=0, groups=files))
    assert measure.value == 0
    assert "unknown" in measure.source


def test_limit_holds_where_the_host_is_unknown(make, monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    root = make("0::/", [V2], total_gib=0, groups={"memory.max": str(GIB)})
    assert memory_limit_bytes(root).value == GIB


def test_memory_without_meminfo_asks_sysconf(tmp_path, monkeypatch):
    answers = {"SC_PHYS_PAGES": 1000, "SC_AVPHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", answers.__getitem__)
    assert memory_limit_bytes(tmp_path).value == 4096000
    assert memory_available_bytes(tmp_path).value == 40960
    assert "sysconf" in memory_limit_bytes(tmp_path).source


def test_available_memory_on_the_host(make):
    measure = memory_available_bytes(make())
    assert (measure.name, measure.value) == ("memory available", 32 * GIB)
    assert "MemAvailable" in measure.source


@pytest.mark.parametrize(
    ("own", "mount", "groups"),
    [
        (
            "0::/",
            V2,
            {
                "memory.max": str(4 * GIB),
                "memory.current": str(3 * GIB),
                "memory.stat": f"anon 5\ninactive_file {GIB}",
            },
        ),
        (
            "5:memory:/",
            V1_MEMORY,
            {
                "memory/memory.limit_in_bytes": str(4 * GIB),
                "memory/memory.usage_in_bytes": str(3 * GIB),
                "memory/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB}",
            },
        ),
    ],
)
def test_available_memory_counts_old_file_pages_as_free(make, own, mount, groups):
    measure = memory_available_bytes(make(own, [mount], groups=groups))
    assert measure.value == 2 * GIB
    assert "4.0 GiB less what is used" in measure.source


def test_available_memory_is_never_negative(make):
    groups = {"memory.max": str(GIB), "memory.current": str(2 * GIB)}
    assert memory_available_bytes(make("0::/", [V2], groups=groups)).value == 0


@pytest.mark.parametrize(
    ("own", "mount", "groups", "count"),
    [
        (
            "0::/a/b",
            V2,
            {"a/memory.events": "oom 5\noom_kill 3", "a/b/memory.events": "oom_kill 2"},
            5,
        ),
        (
            "5:memory:/job",
            V1_MEMORY,
            {"memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 7"},
            7,
        ),
        ("0::/", V2, {"memory.events": "torn"}, 0),
        ("", V2, {}, 0),
    ],
)
def test_kills_for_memory_are_counted(make, own, mount, groups, count):
    assert oom_kills(make(own, [mount], groups=groups)).value == count


def test_mounts_with_spaces_and_torn_lines(make):
    odd = r"50 23 0:50 / /data\040sets/a\134b rw - nfs4 host:/x rw,vers=4.2"
    root = make("", [V2, odd, "torn line", ""])
    assert [(mount.point, mount.kind) for mount in mounts(root)] == [
        ("/sys/fs/cgroup", "cgroup2"),
        ("/data sets/a\\b", "nfs4"),
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (9633792, "9.2 MiB"), (3 << 29, "1.5 GiB")],
)
def test_bytes_text(count, text):
    assert bytes_text(count) == text
