"""What is said when a pack is done."""

import os
from pathlib import Path
from typing import Any, Dict, List

from train.console import say
from train.machine import bytes_text
from train.pack.findings import allowed_bad
from train.pack.target import LEDGER

_WAYS = {
    "kept": "kept byte for byte",
    "windows": "made decodable in parts, without loss",
    "coefficients": "made coefficient records: the file loses nothing; decoded pixels differ by "
    "about half a level from libjpeg-turbo's",
    "encoded": "encoded as JPEG",
    "raw": "decoded to pixels",
}
_AS_RECORD = "encoded as coefficients"


def describe(dst: Path, marker: Dict[str, Any], rate: float) -> None:
    """Sizes, counts, what was kept and why.

    Args:
        dst: the pack.
        marker: what it says of itself.
        rate: images/s of the packing; 0: nothing was packed in this process.
    """
    counts, records = marker["counts"], marker["records"]
    before, after = counts.get("before_bytes", 0), folder_bytes(dst)
    growth = f", {100 * (after / before - 1):+.1f} %" if before else ""
    speed = f" at {rate:,.0f} images/s" if rate else ""
    parts = " and ".join(f"{number} {split}" for split, number in records.items())
    say(f"packed    {dst}: {parts} images{speed}")
    say(f"size      {bytes_text(before)} of images before, {bytes_text(after)} now{growth}")
    for line in ways(marker):
        say(f"          {line}", indent=10)
    bad, left_out = counts.get("bad", 0), counts.get("left_out", 0)
    if bad:
        say(f"warning: {bad} images can't be decoded; they were kept as they are: {dst / LEDGER}")
    if left_out:
        say(f"warning: {left_out} images could not be read and were left out: {dst / LEDGER}")
    allowed = allowed_bad(sum(records.values()))
    if bad > allowed:
        say(f"warning: training will stop at more than {allowed} bad images (data.bad_budget)")


def ways(marker: Dict[str, Any]) -> List[str]:
    """How many images were made in which way, and why some were not."""
    counts, options = marker["counts"], marker["options"]
    lines = []
    for way, words in _WAYS.items():
        number = counts.get(way, 0)
        if not number or (way == "kept" and options["content"] == "original"):
            continue
        if way == "encoded":
            words = _WAYS["encoded"] if options["content"] != "coefficients" else _AS_RECORD
            words += f" of quality {options['quality']}, colour {':'.join(marker['subsampling'])}"
        lines.append(f"{number} {words}")
    for reason, number in counts.get("reasons", {}).items():
        lines.append(f"kept: {number} x {reason}")
    return lines


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder."""
    total = 0
    for path, _, names in os.walk(folder):
        total += sum(os.lstat(os.path.join(path, name)).st_size for name in names)
    return total
