"""The disk behind a path: its file system and its kind, as far as this process can see.

The kinds: "NVMe", "SSD", "hard disk", "network", "memory", "virtual disk", "overlay", "FUSE",
"unknown". What a path stands on is known by mountinfo, what a disk is by /sys.

Source: https://www.kernel.org/doc/html/latest/block/queue-sysfs.html (rotational).
"""

import os
from pathlib import Path
from typing import List, NamedTuple, Optional, Set, Tuple

from train.cgroup import Measure
from train.mounts import Mount, PathLike, mounts, read_text

_NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "glusterfs", "beegfs", "gpfs"),
    *("afs", "9p", "virtiofs", "ocfs2", "gfs2", "orangefs", "wekafs", "panfs"),
    *("fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.glusterfs", "fuse.ceph"),
    *("fuse.juicefs", "fuse.goofys", "fuse.mount-s3", "fuse.blobfuse2"),
}
_MEMORY = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}

# Disks that look like local ones and are a service on the network, by their model's name.
_SERVICES = {
    "Amazon Elastic Block Store": "Amazon EBS",
    "nvme_card-pd": "Google persistent disk",
    "PersistentDisk": "Google persistent disk",
}

_FROM_SLOW_TO_FAST = ("network", "hard disk", "virtual disk", "unknown", "SSD", "NVMe", "memory")


class _Found(NamedTuple):
    kind: str
    source: str


def file_system(path: PathLike, root: PathLike = "/") -> Tuple[str, str]:
    """Type and mount point of the file system that holds `path`: ('nfs4', '/data').

    The path need not exist. Without mountinfo (not Linux) the answer is ('unknown', '').
    """
    mount = _mount_of(path, root)
    return ("unknown", "") if mount is None else (mount.kind, mount.point)


def disk_kind(path: PathLike, root: PathLike = "/") -> Measure[str]:
    """The kind of disk that holds `path`, which need not exist.

    Args:
        path: of the data.
        root: where `proc` and `sys` are looked for; tests pass a folder.

    Returns:
        One of the kinds above, and in the source how it is known. Never raises.
    """
    name = f"disk of {os.fspath(path)}"
    mount = _mount_of(path, root)
    if mount is None:
        return Measure(name, "unknown", "this system has no mountinfo")
    where = f"{mount.kind} at {mount.point}"
    if mount.kind in _NETWORK:
        return Measure(name, "network", f"{where} from {mount.device}")
    if mount.kind in _MEMORY:
        return Measure(name, "memory", where)
    if mount.kind == "overlay":
        hidden = "the container's own layer; a folder of the host, mounted, is often faster"
        return Measure(name, "overlay", f"{where}: {hidden}")
    disk = _block_device(mount, root)
    if disk is None:
        kind = "FUSE" if mount.kind.startswith("fuse") else "unknown"
        return Measure(name, kind, f"{where} from {mount.device}: no block device is behind it")
    found = _kind_of(disk, root, set())
    return Measure(name, found.kind, f"{where}, {found.source}")


def _mount_of(path: PathLike, root: PathLike) -> Optional[Mount]:
    real = os.path.realpath(path)
    best: Optional[Mount] = None
    for mount in mounts(root):
        inside = real == mount.point or real.startswith(mount.point.rstrip("/") + "/")
        # At one point the later mount hides the earlier.
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _block_device(mount: Mount, root: PathLike) -> Optional[Path]:
    """The device's folder in /sys; btrfs and the like have numbers of their own, but a name."""
    candidates = [Path(root, "sys/dev/block", mount.number)] if mount.number else []
    if mount.device.startswith("/dev/"):
        name = os.path.basename(_followed(mount.device, root))
        candidates.append(Path(root, "sys/class/block", name))
    for candidate in candidates:
        if candidate.exists():
            return candidate.resolve()
    return None


def _followed(device: str, root: PathLike) -> str:
    """/dev/mapper/data is a link to /dev/dm-0."""
    return os.path.realpath(Path(root, device.lstrip("/")))


def _kind_of(device: Path, root: PathLike, seen: Set[Path]) -> _Found:
    """The kind of one block device; a partition's is its disk's, a stack's the slowest part's."""
    seen.add(device)
    if (device / "partition").exists():
        return _kind_of(device.parent.resolve(), root, seen)
    below = _slaves(device, seen)
    if below:
        parts = [_kind_of(part, root, seen) for part in below]
        slowest = min(parts, key=lambda part: _FROM_SLOW_TO_FAST.index(part.kind))
        return _Found(slowest.kind, f"{device.name} on {slowest.source}")
    name, shown = device.name, f"/sys/block/{device.name}"
    model = " ".join(read_text(device / "device/model").split())
    if model in _SERVICES:
        return _Found("network", f"{_SERVICES[model]} ({shown}/device/model)")
    if name.startswith("zram") or name.startswith("ram"):
        return _Found("memory", shown)
    if name.startswith("nvme"):
        return _Found("NVMe", f"{model or name} ({shown})")
    if name.startswith(("nbd", "rbd", "drbd")):
        return _Found("network", f"{name} ({shown})")
    if name.startswith(("vd", "xvd")) or model in (
        "QEMU HARDDISK",
        "Virtual Disk",
        "VBOX HARDDISK",
    ):
        return _Found("virtual disk", f"{name} ({shown}): what it stands on is not told")
    flag = read_text(device / "queue/rotational").strip()
    kind = {"0": "SSD", "1": "hard disk"}.get(flag, "unknown")
    return _Found(kind, f"{model or name} ({shown}/queue/rotational: {flag or 'not told'})")


def _slaves(device: Path, seen: Set[Path]) -> List[Path]:
    """What RAID, LVM and encryption stand on."""
    try:
        links = sorted((device / "slaves").iterdir())
    except OSError:
        return []
    return [link.resolve() for link in links if link.resolve() not in seen]
