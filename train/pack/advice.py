"""From a few measured rates to a table and one sentence: what would be faster here."""

from typing import List, NamedTuple, Optional

from train.config import DataConfig
from train.console import say

WORTH = 1.1
"""A change is recommended from this gain on; less is within the noise of so short a look."""


class Row(NamedTuple):
    """What one content would give.

    Attributes:
        name: as it is asked for.
        kept: whether the pixels stay those of the source.
        image_bytes: mean size.
        rate: images/s of one core, from memory.
    """

    name: str
    kept: bool
    image_bytes: float
    rate: float

    def expected(self, cpus: int, disk: Optional[float]) -> float:
        """Images/s of all cores, from a disk of so many bytes/s (None: from memory)."""
        decoded = self.rate * cpus
        return decoded if disk is None else min(decoded, disk / max(1.0, self.image_bytes))


def show(rows: List[Row], cpus: int, disk: Optional[float]) -> None:
    """Print the table and what it recommends."""
    say(f"\nspeed to expect at {DataConfig().image_size} px (a look at a few images):")
    head = f"{'kB/image':>8} {'images/s/core':>13} {f'x {cpus} CPUs':>9} {'cold':>8}"
    say(f"  {'--content':<25} {head}")
    for place, row in enumerate(rows):
        cold = "?" if disk is None else f"{row.expected(cpus, disk):,.0f}"
        say(
            f"  {row.name:<25} {row.image_bytes / 1000:>8.1f} {row.rate:>13,.0f} "
            f"{row.expected(cpus, None):>9,.0f} {cold:>8}{' <- packed' if place == 0 else ''}"
        )
    if disk is None:
        say("  cold (images/s from the disk): not measured, too little data")
    else:
        say("  cold: images/s from the disk, by all CPUs; single images in random order came")
        say(f"  at {disk / 1e6:,.0f} MB/s")
    say(recommendation(rows, cpus, disk))


def recommendation(rows: List[Row], cpus: int, disk: Optional[float]) -> str:
    """One sentence: the fastest content from this disk, if the packed one is not."""
    packed = rows[0]
    now = packed.expected(cpus, disk)
    alike = [row for row in rows[1:] if row.kept or not packed.kept]
    others = [row for row in rows[1:] if row not in alike]
    said = []
    for group, words in ((alike, ""), (others, ", which changes the images")):
        best = max(group, key=lambda row: row.expected(cpus, disk), default=None)
        if best is not None and best.expected(cpus, disk) > WORTH * now:
            gain = best.expected(cpus, disk) / now
            said.append(f"--content {best.name} would be {gain:.1f} x as fast{words}")
    if not said:
        return "recommended: what you have; no other content is faster here"
    if disk is not None and now < 0.9 * packed.expected(cpus, None):
        said.append("the disk is the limit: fewer bytes an image is what helps")
    return "recommended: " + "; ".join(said)
