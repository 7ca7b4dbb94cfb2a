"""From single results to medians, spread, ratios and a verdict. Pure functions."""

from statistics import median
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from train.bench.arms import Arm

FED = 0.97
"""Busy for so much of the time, an accelerator counts as fed."""

GAIN = 1.05
"""Less is no gain: runs of one setting differ by as much."""

HELD = (0.30, 0.55)
"""Shares in which plain keeps a device busy whose speed is 2.5 times plain's: else something else
ran when one of the two was measured."""

FIELDS = (
    "images_per_s",
    "busy_share",
    "wait_share",
    "epoch_s",
    "cores",
    "cpu_s_per_1000",
    "first_batch_s",
    "memory_bytes",
    "others_cores",
)

Result = Dict[str, Any]
"""One measurement of one arm, as child.py gives it."""


class Spread(NamedTuple):
    """A figure over the rounds."""

    middle: float
    least: float
    most: float


class Measured(NamedTuple):
    """What was measured of an arm.

    Attributes:
        arm: which one.
        settings: what its loader was made with.
        notes: on this arm in this run, one sentence each.
        rounds: a result a round; None: there is none.
        why_not: why there is none at all, or not of every round; '' where all is there.
    """

    arm: Arm
    settings: Dict[str, Any]
    notes: List[str]
    rounds: List[Optional[Result]]
    why_not: str = ""


class Row(NamedTuple):
    """One arm in figures.

    Attributes:
        measured: what they come from.
        spread: by field; a field that was not measured is missing.
        times_plain: plain's seconds an epoch over this one's; the median of the rounds.
        of_limit: its images/s over those of the synthetic arm, likewise.
        timer_s: seconds of `next(iter(loader))`.
    """

    measured: Measured
    spread: Dict[str, Spread]
    times_plain: Optional[float]
    of_limit: Optional[float]
    timer_s: Optional[float]

    @property
    def name(self) -> str:
        """Of the arm."""
        return self.measured.arm.name

    def middle(self, field: str) -> Optional[float]:
        """A median; None where there is none."""
        return self.spread[field].middle if field in self.spread else None


def summarise(measured: Sequence[Measured], images_per_epoch: int) -> List[Row]:
    """All arms in figures.

    Args:
        measured: in the table's order.
        images_per_epoch: of the whole data set.
    """
    by_name = {one.arm.name: one.rounds for one in measured}
    rows = []
    for one in measured:
        spread = {}
        for field in FIELDS:
            values = [_value(result, field, images_per_epoch) for result in one.rounds if result]
            known = [value for value in values if value is not None]
            if known:
                spread[field] = Spread(median(known), min(known), max(known))
        timed = [result["timer_s"] for result in one.rounds if result and "timer_s" in result]
        rows.append(
            Row(
                one,
                spread,
                _ratio(one.rounds, by_name.get("plain")),
                _ratio(one.rounds, by_name.get("synthetic")),
                median(timed) if timed else None,
            )
        )
    return rows


def _value(result: Result, field: str, images_per_epoch: int) -> Optional[float]:
    if field == "epoch_s":
        speed = result["images_per_s"]
        return images_per_epoch / speed if speed else None
    value = result.get(field)
    return None if value is None else float(value)


def _ratio(mine: List[Optional[Result]], others: Optional[List[Optional[Result]]]) -> Any:
    """Median over the rounds of the ratio of speeds within a round: a busy moment hits both."""
    pairs = [
        one["images_per_s"] / other["images_per_s"]
        for one, other in zip(mine, others or [])
        if one and other and other["images_per_s"]
    ]
    return median(pairs) if pairs else None


def percent(share: float) -> str:
    """A share for people; 100 only where nothing is missing."""
    value = round(100 * share)
    return f"{min(value, 99) if share < 0.9995 else value} %"


def as_made(busy: float) -> bool:
    """Whether plain keeps a device that was made for it as busy as it should."""
    return HELD[0] <= busy <= HELD[1]


def disagreement(rows: Sequence[Row], alone: Optional[float]) -> str:
    """Why a device that was made 2.5 times as fast as plain is not; '' where nothing speaks for it.

    Args:
        rows: the figures.
        alone: images/s of plain at the calibration; None: the device was not made for it.
    """
    plain = next((row for row in rows if row.name == "plain"), None)
    busy = plain.middle("busy_share") if plain is not None else None
    if alone is None or plain is None or busy is None or as_made(busy):
        return ""
    return (
        f"calibration and race disagree (plain: {alone:,.0f}, then "
        f"{plain.middle('images_per_s') or 0:,.0f} images/s): no verdict; measure again when it is "
        "quiet"
    )


def verdict(rows: Sequence[Row], alone: Optional[float] = None) -> str:
    """What it comes to, in a sentence or two; '' where neither of our arms was measured.

    Args:
        rows: the figures.
        alone: see `disagreement`, which takes the verdict's place.
    """
    doubt = disagreement(rows, alone)
    if doubt:
        return doubt
    by_name = {row.name: row for row in rows if "busy_share" in row.spread}
    best = by_name.get("ours") or by_name.get("packed")
    if best is None:
        return ""
    plain, packed = by_name.get("plain"), by_name.get("packed")
    busy = best.spread["busy_share"].middle
    text = f"{best.name} keeps it {percent(busy)} busy"
    times = best.times_plain
    if plain is not None and times is not None:
        if times >= GAIN:
            text += f"; an epoch takes {times:.1f} x less"
        elif plain.spread["busy_share"].middle >= FED:
            text += ", as the plain loader does: loading is not your limit"
        else:
            text += f"; no gain over the plain loader ({times:.2f} x)"
    if busy >= FED:
        return text + "."
    if packed is not None and packed is not best:
        fed = packed.spread["busy_share"].middle
        if fed > busy + 0.02:
            return text + f". packed keeps it {percent(fed)} busy: train pack is worth it."
    return text + ". Loading is still the limit: train doctor says why."
