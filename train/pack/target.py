"""Where a pack is written: what must not be touched, and putting the result in its place."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple, get_args

from train.errors import SetupError
from train.files import never_wait
from train.pack.journal import are_counts, partial_of
from train.pack.options import Container, Content, PackOptions

MARKER = "pack.json"
FORMAT = "wellfed pack"
VERSION = 1
LEDGER = "bad_samples.jsonl"
CLASSES = "classes.json"
CHECKS = "pack.crc32"

_REPLACED = ".replaced"
"""In a pack that gives way to a new one: tells it from a pack that a person called DST.replaced."""

_OURS = re.compile(
    r"\.replaced|pack\.json|pack\.crc32|bad_samples\.jsonl|classes\.json|(train|val)"
    r"(\.lmdb|\.h5|-\d+\.tar|-\d+\.tfrecord)?(\.index)?"
)
_MOST_LINKS = 100_000


def read_marker(folder: Path) -> Optional[Dict[str, Any]]:
    """What a pack says of itself; None where it is none of ours, or what it says is damaged."""
    try:
        with open(folder / MARKER, "rb", opener=never_wait) as file:
            marker = json.load(file)
        return marker if marker["format"] == FORMAT and _is_sound(marker) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _is_sound(marker: Dict[str, Any]) -> bool:
    """Whether all is there that is used; a value of a wrong type raises."""
    records, options = marker["records"], marker["options"]
    if not set(PackOptions("", "").lasting()) <= set(options):
        return False
    given = {name: value for name, value in options.items() if value is not None}
    PackOptions("src", "dst", **given)
    known = options["container"] in get_args(Container) and options["content"] in get_args(Content)
    numbers = all(type(number) is int and number >= 0 for number in records.values())
    return known and numbers and are_counts(marker["counts"])


def check_target(dst: Path, overwrite: bool) -> None:
    """Refuse a target that must not be written.

    Raises:
        SetupError: it holds something that is no pack of ours, or exists and `overwrite` is not
            set.
    """
    if dst.name.endswith((".partial", ".replaced")) or not dst.name:
        raise SetupError(
            f"{str(dst)!r} can't be the target: names that end in .partial and .replaced are those "
            "of packs that are being made; choose another name"
        )
    for beside in (partial_of(dst), _replaced(dst)):
        if os.path.islink(beside) or (beside == _replaced(dst) and os.path.exists(beside)):
            raise SetupError(
                f"{str(beside)!r} is in the way: its name is needed while {dst.name!r} is made; "
                "move it away, or choose another folder"
            )
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
    refuse_foreign(dst)
    if not overwrite:
        raise SetupError(
            f"{str(dst)!r} exists; add --overwrite to replace this pack, --verify to read it "
            "back, or choose another folder"
        )


def refuse_foreign(pack: Path) -> None:
    """Refuse to delete a pack to which a person has added something.

    Raises:
        SetupError: naming the file.
    """
    foreign = [name for name in sorted(os.listdir(pack)) if not _OURS.fullmatch(name)]
    if foreign:
        raise SetupError(
            f"{str(pack)!r} holds more than a pack ({foreign[0]!r}), so it is not replaced; "
            "move that away, or choose another folder"
        )


def put_in_place(dst: Path) -> None:
    """Rename the whole pack to its name; an earlier one goes when the new one is there."""
    partial, replaced = partial_of(dst), _replaced(dst)
    if dst.exists() and any(dst.iterdir()):
        (dst / _REPLACED).touch()
        os.rename(dst, replaced)
    os.rename(partial, dst)
    _sync(dst.parent)
    if replaced.exists():
        shutil.rmtree(replaced)


def mend(dst: Path) -> None:
    """Undo what a process left that was killed while it replaced one pack by another.

    Raises:
        SetupError: the folder can't be written.
    """
    replaced = _replaced(dst)
    if not os.path.exists(replaced / _REPLACED):
        return
    try:
        if dst.exists():
            shutil.rmtree(replaced)
        else:
            os.rename(replaced, dst)
            (dst / _REPLACED).unlink()
    except OSError as error:
        raise SetupError(
            f"{str(replaced)!r} was left by a process that was killed, and can't be moved away: "
            f"{error.strerror or error}; move it away yourself"
        ) from None


def _replaced(dst: Path) -> Path:
    return dst.parent / (dst.name + _REPLACED)


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
