"""From a few measured rates to a table and one sentence: what would be faster here."""

from typing import List, NamedTuple, Optional

from train.config import DataConfig
from train.console import say

WORTH = 1.1
"""A change is recommended from this gain on; less is within the noise of so short a look."""

KEPT, CLOSE, CHANGED = range(3)
"""What becomes of the pixels: the same, the same but for rounding (coefficients), others."""

_WORDS = {
    CLOSE: ", decoded to pixels about half a level from libjpeg-turbo's",
    CHANGED: ", which changes the images",
}


class Data(NamedTuple):
    """What is packed, and where it is read.

    Attributes:
        images: in all.
        disk: bytes/s of records in random order; None: not known.
        memory: bytes in which the system can keep what was read, from the second epoch on.
    """

    images: int
    disk: Optional[float]
    memory: int


class Row(NamedTuple):
    """What one content would give.

    Attributes:
        name: as it is asked for.
        pixels: KEPT, CLOSE or CHANGED.
        image_bytes: mean size.
        rate: images/s of one core, from memory.
    """

    name: str
    pixels: int
    image_bytes: float
    rate: float

    def cold(self, cpus: int, data: Data) -> float:
        """Images/s of all cores when everything comes from the disk."""
        decoded = self.rate * cpus
        return (
            decoded if data.disk is None else min(decoded, data.disk / max(1.0, self.image_bytes))
        )

    def later(self, cpus: int, data: Data) -> float:
        """The same from the second epoch on, when memory holds as much as fits."""
        size = max(1.0, self.image_bytes * data.images)
        missing = max(0.0, 1 - data.memory / size)
        decoded = self.rate * cpus
        if data.disk is None or missing == 0:
            return decoded
        return min(decoded, data.disk / (max(1.0, self.image_bytes) * missing))


def show(rows: List[Row], cpus: int, data: Data, without_coefficients: bool = False) -> None:
    """Print the table and what it recommends.

    Args:
        rows: what was packed first.
        cpus: usable ones.
        data: what is packed.
        without_coefficients: they were not looked at.
    """
    say(f"\nspeed to expect at {DataConfig().image_size} px, images/s (a look at a few images):")
    say(f"  {'':<21} {'':>8} {'from memory':>17} {'1st':>8} {'next':>7}")
    cores = f"{cpus} core{'s' if cpus != 1 else ''}"
    say(f"  {'--content':<21} {'kB each':>8} {'1 core':>7} {cores:>9} {'epoch':>8} {'epochs':>7}")
    for place, row in enumerate(rows):
        cold = "-" if data.disk is None else f"{row.cold(cpus, data):,.0f}"
        say(
            f"  {row.name.replace('--short-side', 'at'):<21} {row.image_bytes / 1000:>8.1f} "
            f"{row.rate:>7,.0f} {row.rate * cpus:>9,.0f} {cold:>8} {row.later(cpus, data):>7,.0f}"
            f"{' <- packed' if place == 0 else ''}"
        )
    if data.disk is None:
        say("  1st epoch, from the disk: not measured (-), too little data")
    else:
        say("  1st epoch: from the disk, by all cores; single images in random order")
        say(f"  came at {data.disk / 1e6:,.0f} MB/s")
    say(f"  next epochs: up to {data.memory / 1e9:,.1f} GB of it from memory")
    times = f"; {cores}: so many times that" if cpus > 1 else ""
    say(f"  1 core: measured by the clock (wall time){times}")
    if without_coefficients:
        say("  coefficients: left out, their kernels are not compiled here yet (15 s, once);")
        say("  train pack SRC OUT --content coefficients has them in its table")
    say(recommendation(rows, cpus, data))


def recommendation(rows: List[Row], cpus: int, data: Data) -> str:
    """One sentence: the fastest content for many epochs, if the packed one is not."""
    packed = rows[0]
    now = best = packed.later(cpus, data)
    said = []
    for pixels in range(packed.pixels, CHANGED + 1):
        group = [row for row in rows[1:] if max(row.pixels, packed.pixels) == pixels]
        found = max(group, key=lambda row: row.later(cpus, data), default=None)
        if found is None or found.later(cpus, data) <= WORTH * best:
            continue
        best = found.later(cpus, data)
        words = _WORDS[pixels] if pixels > packed.pixels else ""
        said.append(f"--content {found.name} would be {best / now:.1f} x as fast{words}")
    if not said:
        return "recommended: what you have; no other content is faster here"
    if now < 0.9 * packed.rate * cpus:
        said.append("the disk is the limit: fewer bytes an image is what helps")
    return "recommended: " + "; ".join(said)
