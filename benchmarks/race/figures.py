"""From single results to the figures of a table: medians, spreads, ratios. Pure functions."""

import statistics
from typing import Dict, List, NamedTuple, Optional, Tuple

from race.arms import LIMIT, PEER


class Row(NamedTuple):
    """What is known of one arm after all rounds.

    Attributes:
        arm: see arms.py.
        runs: how many rounds gave a result.
        images_per_s: median, least, most; None without a result.
        cpu_s_per_1000, first_batch_s, memory_mb: medians.
        kb_an_image: what it reads, on disk, in kB (10^3 bytes).
        output: type and layout of a batch.
        versions: of the arm's packages.
        of_limit, of_best_peer: medians of the ratios within a round; None where there is nothing to
            compare with.
        why_not: why there is no result, or how often it failed.
    """

    arm: object
    runs: int = 0
    images_per_s: Optional[Tuple[float, float, float]] = None
    cpu_s_per_1000: Optional[float] = None
    first_batch_s: Optional[float] = None
    memory_mb: Optional[float] = None
    kb_an_image: Optional[float] = None
    output: str = ""
    versions: Dict[str, str] = {}
    of_limit: Optional[float] = None
    of_best_peer: Optional[float] = None
    why_not: str = ""


def spread(values) -> Tuple[float, float, float]:
    """Median, least and most."""
    return statistics.median(values), min(values), max(values)


def output_of(result) -> str:
    """Type and layout of a batch, such as "uint8 NHWC"."""
    shape = result.get("shape") or []
    layout = ""
    if len(shape) == 4:
        layout = "NHWC" if shape[3] == 3 else "NCHW"
    return f"{result.get('dtype', '')} {layout}".strip()


def _own_mb(result) -> float:
    """Memory that is not a mapped file: whoever maps its data would pay for the page cache."""
    return sum(value for name, value in result["memory_mb"].items() if name != "files")


def _ratio(rates, others) -> Optional[float]:
    """Median over the rounds that both have; what one round slows down slows both."""
    both = sorted(set(rates) & set(others))
    return statistics.median(rates[n] / others[n] for n in both) if both else None


def _rates(results, arm):
    return {
        number: result["images_per_s"]
        for (name, number), (result, _) in results.items()
        if name == arm.name and result
    }


def best_peer(arms, results, like):
    """The fastest peer as it comes, by its median, of the same pictures; None without one.

    Rows that decode JPEG are held against peers that do, rows of raw pixels against raw ones.
    """
    medians = {
        arm: statistics.median(rates.values())
        for arm in arms
        if arm.kind == PEER and (arm.data, arm.raw) == (like.data, like.raw)
        for rates in [_rates(results, arm)]
        if rates
    }
    return max(medians, key=medians.get) if medians else None


def summarise(arms, results, kb_an_image, unavailable) -> List[Row]:
    """One row for every arm, those that could not run included.

    Args:
        arms: in the table's order.
        results: {(name, round): (result or None, reason or None)}.
        kb_an_image: {name: kB}.
        unavailable: {name: reason}.
    """
    rows = []
    for arm in arms:
        if arm.name in unavailable:
            rows.append(Row(arm, why_not=unavailable[arm.name]))
            continue
        mine = {key: value for key, value in results.items() if key[0] == arm.name}
        good = [result for result, _ in mine.values() if result]
        reasons = [why for result, why in mine.values() if not result]
        why_not = f"{len(reasons)} of {len(mine)} rounds failed: {reasons[0]}" if reasons else ""
        if not good:
            rows.append(Row(arm, why_not=why_not or "it did not run"))
            continue
        rates = _rates(results, arm)
        limit = next((one for one in arms if one.kind == LIMIT and one.data == arm.data), None)
        best = best_peer(arms, results, arm)

        def middle(name, good=good):
            return statistics.median(result[name] for result in good)

        rows.append(
            Row(
                arm,
                len(good),
                spread(list(rates.values())),
                middle("cpu_s_per_1000"),
                middle("first_batch_s"),
                statistics.median(_own_mb(result) for result in good),
                kb_an_image.get(arm.name),
                output_of(good[-1]),
                good[-1].get("versions", {}),
                _ratio(rates, _rates(results, limit)) if limit else None,
                _ratio(rates, _rates(results, best)) if best else None,
                why_not,
            )
        )
    return rows
