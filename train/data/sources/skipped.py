"""What a scan takes for an image by its name, and what it left out."""

import os
from collections import Counter
from typing import List, NamedTuple, Sequence

IMAGE_EXTENSIONS = frozenset(
    (
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".png",
        ".webp",
        ".bmp",
        ".gif",
        ".tif",
        ".tiff",
        ".ppm",
        ".pgm",
        ".pbm",
        ".coef",  # a coefficient record of `train pack`
    )
)
SYSTEM_FOLDERS = frozenset(
    ("__macosx", "@eadir", "lost+found", "$recycle.bin", "system volume information", "__pycache__")
)
MAX_FILE_BYTES = 1 << 30
"""A larger file is no photograph; reading it would take the memory of the whole machine."""


class Skipped(NamedTuple):
    """A file or folder that the scan left out.

    Attributes:
        key: path relative to the data folder.
        reason: hidden_file, unknown_extension, broken_symlink, not_a_file, listed_already,
            no_class.
        detail: for people; '' where the reason says all.
    """

    key: str
    reason: str
    detail: str


def describe_skipped(skipped: Sequence[Skipped], limit: int = 5) -> List[str]:
    """What was left out, one line a reason, for people."""
    lines = []
    counts = Counter(item.reason for item in skipped)
    for reason, count in counts.most_common():
        items = [item for item in skipped if item.reason == reason]
        if reason == "unknown_extension":
            endings = Counter(os.path.splitext(item.key)[1].lower() or "(none)" for item in items)
            names = ", ".join(f"{ending} x {n}" for ending, n in endings.most_common(limit))
        else:
            names = ", ".join(repr(item.key) for item in items[:limit]) + (
                " ..." if count > limit else ""
            )
        line = f"left out {count} x {reason}: {names}"
        if reason == "broken_symlink" and count > 3:
            line += "; perhaps the folder they point to is not mounted here"
        if reason == "pickle":
            line += "; if you trust whoever made them: data.trust=code (train pack: --trust)"
        lines.append(line)
    return lines
