"""What is mounted where, from /proc/self/mountinfo.

Source: https://www.kernel.org/doc/html/latest/filesystems/proc.html (3.5).
"""

import os
import re
from pathlib import Path
from typing import List, NamedTuple, Tuple, Union

PathLike = Union[str, "os.PathLike[str]"]


class Mount(NamedTuple):
    """One line of /proc/self/mountinfo.

    Attributes:
        fs_root: the part of the file system that is seen at `point`.
        point: where.
        kind: "ext4", "nfs4" and so on.
        options: of the file system itself.
        number: "major:minor" of the device, as stat has it.
        device: where the files come from: a device's name, a server; or a word.
    """

    fs_root: str
    point: str
    kind: str
    options: Tuple[str, ...]
    number: str = ""
    device: str = ""


def mounts(root: PathLike = "/") -> List[Mount]:
    """All mounts this process sees, in order; empty where the system has no mountinfo."""
    found = []
    for line in read_text(Path(root, "proc/self/mountinfo")).splitlines():
        left, _, right = line.partition(" - ")
        head, tail = left.split(), right.split()
        if len(head) >= 5 and tail:
            options = tuple(tail[2].split(",")) if len(tail) > 2 else ()
            device = _unescape(tail[1]) if len(tail) > 1 else ""
            fs_root, point = _unescape(head[3]), _unescape(head[4])
            found.append(Mount(fs_root, point, tail[0], options, head[2], device))
    return found


def read_text(path: Path) -> str:
    """A small file of the system's; '' where it is missing or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _unescape(text: str) -> str:
    r"""Mountinfo writes a space as \040, a backslash as \134 and so on."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)
