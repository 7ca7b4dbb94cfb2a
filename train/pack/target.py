"""Where a pack is written: what must not be touched, and putting the result in its place."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from train.errors import SetupError
from train.pack.journal import partial_of

MARKER = "pack.json"
FORMAT = "wellfed pack"
VERSION = 1
LEDGER = "bad_samples.jsonl"
CLASSES = "classes.json"
CHECKS = "pack.crc32"

_OURS = re.compile(
    r"pack\.json|pack\.crc32|bad_samples\.jsonl|classes\.json|(train|val)"
    r"(\.lmdb|\.h5|-\d+\.tar|-\d+\.tfrecord)?(\.index)?"
)
_MOST_LINKS = 100_000


def read_marker(folder: Path) -> Optional[Dict[str, Any]]:
    """What a pack says of itself; None where it is none of ours."""
    try:
        marker = json.loads((folder / MARKER).read_bytes())
    except (OSError, ValueError):
        return None
    return marker if isinstance(marker, dict) and marker.get("format") == FORMAT else None


def check_target(dst: Path, overwrite: bool) -> None:
    """Refuse a target that must not be written.

    Raises:
        SetupError: it holds something that is no pack of ours, or exists and `overwrite` is not
            set.
    """
    if os.path.ismount(dst):
        raise SetupError(
            f"{str(dst)!r} is where a disk is mounted, and the pack is renamed into its place; "
            f"choose a folder on that disk: {str(dst / 'pack')!r}"
        )
    if not os.path.lexists(dst):
        return
    if dst.is_symlink():
        raise SetupError(f"{str(dst)!r} is a link; name the folder itself: {os.path.realpath(dst)}")
    if dst.is_dir() and not any(dst.iterdir()):
        return
    if read_marker(dst) is None:
        raise SetupError(
            f"{str(dst)!r} exists and is no pack made by train pack; it is never replaced: "
            "choose another folder"
        )
    foreign = [name for name in sorted(os.listdir(dst)) if not _OURS.fullmatch(name)]
    if foreign:
        raise SetupError(
            f"{str(dst)!r} holds more than a pack ({foreign[0]!r}), so it is not replaced; "
            "move that away, or choose another folder"
        )
    if not overwrite:
        raise SetupError(
            f"{str(dst)!r} exists; add --overwrite to replace this pack, --verify to read it "
            "back, or choose another folder"
        )


def put_in_place(dst: Path) -> None:
    """Rename the whole pack to its name; an earlier one goes when the new one is there."""
    partial, replaced = partial_of(dst), _replaced(dst)
    if dst.exists() and any(dst.iterdir()):
        os.rename(dst, replaced)
    os.rename(partial, dst)
    _sync(dst.parent)
    if replaced.exists():
        shutil.rmtree(replaced)


def mend(dst: Path) -> None:
    """Undo what a process left that was killed while it replaced one pack by another."""
    replaced = _replaced(dst)
    if read_marker(replaced) is None:
        return
    if dst.exists():
        shutil.rmtree(replaced)
    else:
        os.rename(replaced, dst)


def _replaced(dst: Path) -> Path:
    return dst.with_name(dst.name + ".replaced")


def refuse_source(src: str, dst: Path) -> None:
    """Refuse a target that is the source, or lies in it, or the other way round.

    Compared by identity, so that links and second mounts hide nothing.

    Raises:
        SetupError: they are, or lie in each other.
    """
    for target in (dst, partial_of(dst), _replaced(dst)):
        real = os.path.realpath(target)
        above_target = {identity for identity in map(_identity, _upwards(real)) if identity}
        itself = _identity(real)
        for place in _places(src):
            if _identity(place) in above_target:
                raise SetupError(_same(src, dst, place))
            if itself and itself in map(_identity, _upwards(os.path.realpath(place))):
                raise SetupError(_same(src, dst, place))


def _same(src: str, dst: Path, place: str) -> str:
    through = "" if place == src else f" (through {place!r})"
    return (
        f"the source {src!r} and the target {str(dst)!r} are the same or lie in each other"
        f"{through}; choose a folder outside the source"
    )


def _places(src: str) -> Iterator[str]:
    """The source, and what links in its first two levels lead to."""
    yield src
    seen = 0
    stack: List[Tuple[str, int]] = [(src, 0)]
    while stack:
        folder, depth = stack.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MOST_LINKS:
                        return
                    if entry.is_symlink():
                        yield entry.path
                    if depth == 0 and entry.is_dir():
                        stack.append((entry.path, 1))
        except OSError:
            continue  # not a folder; what is wrong with it is told when it is opened


def _identity(path: str) -> Optional[Tuple[int, int]]:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _upwards(path: str) -> Iterator[str]:
    """The path and all folders above it."""
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
