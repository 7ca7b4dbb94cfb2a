"""Disks from made-up /proc and /sys trees: local, stacked, virtual, on the network, hidden."""

import os

import pytest

from train.disk import disk_kind, file_system


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function that writes mounts and block devices below a fake root."""
    real = os.path.realpath

    def of_the_fake_machine(path, **options):
        """What this machine has at the same place does not count; Path.resolve asks here too."""
        inside = os.fspath(path).startswith(str(tmp_path))
        return real(path, **options) if inside else os.path.abspath(path)

    monkeypatch.setattr(os.path, "realpath", of_the_fake_machine)

    def write(*mountinfo, disks=(), named=()):
        (tmp_path / "proc/self").mkdir(parents=True)
        lines = [f"{40 + n} 1 {line}" for n, line in enumerate(mountinfo)]
        (tmp_path / "proc/self/mountinfo").write_text("\n".join(lines) + "\n")
        for number, folder in dict(disks).items():
            link = tmp_path / "sys/dev/block" / number
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(folder)
        for name, folder in dict(named).items():
            link = tmp_path / "sys/class/block" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(folder)
        return tmp_path

    return write


@pytest.fixture
def disk(tmp_path):
    """A function that writes a block device; gives its folder."""

    def write(name, rotational=None, model=None, partition=None, slaves=()):
        folder = tmp_path / "sys/devices" / name
        (folder / "queue").mkdir(parents=True)
        (folder / "device").mkdir()
        if rotational is not None:
            (folder / "queue/rotational").write_text(f"{rotational}\n")
        if model is not None:
            (folder / "device/model").write_text(f"{model}   \n")
        if slaves:
            (folder / "slaves").mkdir()
            for slave in slaves:
                (folder / "slaves" / slave.name).symlink_to(slave)
        if partition is not None:
            (folder / partition).mkdir()
            (folder / partition / "partition").write_text("1\n")
            return folder / partition
        return folder

    return write


DATA = "8:1 / /data rw - ext4 /dev/sda1 rw"


@pytest.mark.parametrize(
    ("name", "rotational", "model", "kind", "words"),
    [
        ("nvme0n1", 0, "Fast 980", "NVMe", "Fast 980 (/sys/block/nvme0n1)"),
        ("sda", 0, "Quick", "SSD", "rotational: 0"),
        ("sda", 1, "Round", "hard disk", "rotational: 1"),
        ("sda", None, None, "unknown", "rotational: not told"),
        ("vda", 1, None, "virtual disk", "what it stands on is not told"),
        ("sda", 1, "QEMU HARDDISK", "virtual disk", "not told"),
        ("nvme1n1", 0, "Amazon Elastic Block Store", "network", "Amazon EBS"),
        ("sda", 0, "PersistentDisk", "network", "Google persistent disk"),
        ("rbd0", 0, None, "network", "rbd0"),
        ("zram0", 0, None, "memory", "zram0"),
    ],
)
def test_the_disk_says_what_it_is(machine, disk, name, rotational, model, kind, words):
    root = machine(DATA, disks={"8:1": disk(name, rotational, model, partition="part1")})
    measure = disk_kind("/data/images", root)
    assert (measure.name, measure.value) == ("disk of /data/images", kind)
    assert measure.source.startswith("ext4 at /data, ")
    assert words in measure.source


def test_a_stack_of_disks_is_as_slow_as_its_slowest(machine, disk):
    parts = [disk("nvme0n1", 0, "Fast"), disk("sdb", 1, "Round", partition="sdb1")]
    md = disk("md0", 0, slaves=parts)
    root = machine(DATA, disks={"8:1": disk("dm-0", 0, slaves=[md])})
    measure = disk_kind("/data", root)
    assert measure.value == "hard disk"
    assert "dm-0 on md0 on Round" in measure.source


def test_a_file_system_with_a_number_of_its_own_is_found_by_its_name(machine, disk):
    root = machine(
        "0:44 /@data /data rw - btrfs /dev/nvme0n1p2 rw",
        named={"nvme0n1p2": disk("nvme0n1", 0, "Fast", partition="nvme0n1p2")},
    )
    assert disk_kind("/data", root).value == "NVMe"


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("0:50 / /data rw - nfs4 store:/pool rw", "network", "nfs4 at /data from store:/pool"),
        ("0:50 / /data rw - fuse.sshfs me@there:/x rw", "network", "sshfs"),
        ("0:50 / /data rw - fuse.something x rw", "FUSE", "no block device"),
        ("0:50 / /data rw - tmpfs tmpfs rw", "memory", "tmpfs at /data"),
        ("0:50 / / rw - overlay overlay rw,upperdir=/host/x", "overlay", "container's own layer"),
        ("0:50 / /data rw - zfs pool/data rw", "unknown", "no block device"),
    ],
)
def test_what_stands_on_no_disk_of_ours(machine, line, kind, words):
    measure = disk_kind("/data/images", machine(line))
    assert measure.value == kind
    assert words in measure.source


def test_without_mountinfo_nothing_is_known(tmp_path):
    assert disk_kind("/data", tmp_path).value == "unknown"
    assert file_system("/data", tmp_path) == ("unknown", "")


def test_the_deepest_and_latest_mount_counts(machine):
    root = machine(
        "0:1 / / rw - overlay overlay rw",
        "0:2 / /data rw - ext4 /dev/sda rw",
        "0:3 / /data rw - nfs4 store:/x rw",
        "0:4 / /data/fast rw - xfs /dev/sdb rw",
    )
    assert file_system("/data/images", root) == ("nfs4", "/data")
    assert file_system("/data", root) == ("nfs4", "/data")
    assert file_system("/data/fast/a.tar", root) == ("xfs", "/data/fast")
    assert file_system("/database", root) == ("overlay", "/")


def test_links_are_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    there = os.path.realpath(tmp_path / "there")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(f"40 1 0:9 / {there} rw - tmpfs tmpfs rw\n")
    assert file_system(tmp_path / "link" / "x.jpg", tmp_path) == ("tmpfs", there)


def test_a_ring_of_devices_ends(machine, disk, tmp_path):
    one = disk("dm-0", 0)
    two = disk("dm-1", 0, slaves=[one])
    (one / "slaves").mkdir()
    (one / "slaves" / "dm-1").symlink_to(two)
    assert disk_kind("/data", machine(DATA, disks={"8:1": one})).value in ("SSD", "unknown")
