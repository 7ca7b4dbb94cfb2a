"""What `--verify` found: the list of bad samples, and what is said of it."""

import contextlib
import json
import math
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

from train.config import DataConfig
from train.console import say
from train.errors import DataError, SetupError
from train.files import write_whole
from train.pack import target as place

SHOWN = 10


class Finding(NamedTuple):
    """One image that is not as it should be.

    Attributes:
        split, key, number: which one.
        reason: what is wrong, for people.
        damaged: it is not what was packed; False: it was bad before.
    """

    split: str
    key: str
    number: int
    reason: str
    damaged: bool


def allowed_bad(num_images: int) -> int:
    """How many bad images training puts up with, unless it is told otherwise."""
    return math.ceil(round(DataConfig().bad_budget * num_images, 6))


def left_out(folder: Path) -> Dict[str, Any]:
    """Indices of the source's records that could not be packed, by split."""
    gone: Dict[str, Any] = {}
    for entry in _entries(folder / place.LEDGER):
        if not entry.get("kept", True):
            gone.setdefault(str(entry["key"]).split(":", 1)[0], set()).add(entry["index"])
    return gone


def _entries(path: Path) -> List[Dict[str, Any]]:
    """The lines of a list; one that is damaged counts for nothing."""
    if not path.is_file():
        return []
    entries = []
    for line in path.read_bytes().splitlines():
        try:
            entry = json.loads(line)
            if type(entry["index"]) is int and isinstance(entry["key"], str):
                entries.append(entry)
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
    return entries


def conclude(path: Path, findings: List[Finding]) -> None:
    """Write the list and say what was found.

    Raises:
        DataError: something is not what was packed.
    """
    damaged = [finding for finding in findings if finding.damaged]
    bad = [finding for finding in findings if not finding.damaged]
    ledger = _write_ledger(path, findings)
    shown = "".join(
        f"\n  {finding.split}:{finding.key!a}: {finding.reason}" for finding in findings[:SHOWN]
    )
    if len(findings) > SHOWN:
        shown += f"\n  ... and {len(findings) - SHOWN} more"
    if damaged:
        raise DataError(
            f"{len(damaged)} images of {str(path)!r} are damaged:{shown}\nAll of them: {ledger}\n"
            "copy it again from where it came, or pack it again"
        )
    if not findings:
        say(f"verified  {path}: every image is as it should be")
        return
    say(f"verified  {path}: {len(bad)} images can't be decoded, all others are as they should be")
    say(f"{shown[1:]}\nAll of them: {ledger}")


def _write_ledger(path: Path, findings: List[Finding]) -> str:
    """Into a pack; beside anything else, which is not ours to write into."""
    ours = place.read_marker(path) is not None
    ledger = path / place.LEDGER if ours else path.with_name(f"{path.name}.{place.LEDGER}")
    # What could not be packed stays in the list; all else was looked at again.
    known = [entry for entry in _entries(ledger) if not entry.get("kept", True)] if ours else []
    entries = known + [
        {
            "key": f"{finding.split}:{finding.key}",
            "index": finding.number,
            "reason": finding.reason,
            "rank": 0,
            "kept": True,
        }
        for finding in findings
    ]
    if not entries:  # nothing to tell: no empty file, and none that tells of what was mended
        with contextlib.suppress(OSError):  # a read-only disk
            ledger.unlink()
        return str(ledger)
    content = b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
    for where in (ledger, Path(ledger.name)):
        try:
            write_whole(where.absolute(), content)
            return str(where)
        except SetupError:
            continue  # a read-only disk; the working folder then
    return "(nowhere: neither its folder nor this one can be written)"
