"""The letter: what a person reads after an examination. Text alone, at most 78 columns."""

import textwrap
from typing import List, NamedTuple, Optional, Sequence, Tuple

from train.doctor.evidence import duration, percent
from train.doctor.findings import Finding
from train.doctor.measurements import Measurements, Run
from train.doctor.mend import Mend
from train.doctor.verdict import Verdict

WIDTH = 78
"""Of a terminal of 80: it is not broken again."""

BAR = 22
"""Columns of the longest bar."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Arm(NamedTuple):
    """One side of a trial: medians of several runs.

    Attributes:
        name: what it was.
        images_per_s, wait_share: medians.
        low, high: slowest and fastest run, images/s.
    """

    name: str
    images_per_s: float
    wait_share: float
    low: float
    high: float


def machine_part(findings: Sequence[Finding], looked_at: int) -> List[str]:
    """What was found about the machine."""
    count = len(findings)
    said = "all in order" if not count else f"{count} to know"
    return [f"The machine: {looked_at} things looked at, {said}.", *_findings(findings)]


def data_part(findings: Sequence[Finding]) -> List[str]:
    """What was found about a user's data set."""
    if not findings:
        return ["Your data set: nothing to say against it."]
    count = len(findings)
    return [
        f"Your data set: {count} thing{'' if count == 1 else 's'} to know.",
        *_findings(findings),
    ]


def _findings(findings: Sequence[Finding]) -> List[str]:
    lines: List[str] = []
    for finding in findings:
        mark = "!" if finding.serious else "-"
        lines += _wrapped(f"{finding.what}: {finding.evidence}", f"  {mark} ", "    ")
        if finding.mend:
            lines += _wrapped(finding.mend, "    mend: ", "          ")
    return lines


def runs_part(found: Measurements, why: str = "") -> List[str]:
    """The runs as a table with bars, and a sample's cost by stage.

    Args:
        found: the measurements.
        why: there are so many workers; '' leaves it out.
    """
    size = found.examined_batch or found.batch_size
    workers = f"{found.workers} {found.workers_kind} worker{'' if found.workers == 1 else 's'}"
    if found.workers == 0:
        workers = "no workers"
    title = f"The way of the data to {found.accelerator}: batches of {size}, {workers}."
    lines = _wrapped(title, "", "")
    if why:
        lines += _wrapped(f"({workers}: {why})", "", "")
    if size != found.batch_size:
        lines += _wrapped(
            f"(batches of {size} in place of {found.batch_size}: one of those would take "
            "long; a figure an image is the same)",
            "",
            "",
        )
    runs: List[Tuple[str, Run]] = [
        ("one batch again and again", found.synthetic),
        ("+ copied from memory", found.copied),
        ("+ handed over by workers", found.cached),
        ("+ made, data in memory", found.warm),
    ]
    if found.cold is not None:
        runs.append(("+ data from the disk", found.cold))
    if found.large is not None:
        runs.append((f"batches of {found.large_batch}", found.large))
    most = max(run.images_per_s for _, run in runs)
    lines += ["", f"  {'':<26}{'':<{BAR}} {'images/s':>10} {'spread':>8} {'waits':>7}"]
    for name, run in runs:
        spread = f"{run.spread:.0%}" if run.spread else "?"
        lines.append(
            f"  {name:<26}{bar(run.images_per_s / most)} {run.images_per_s:>10,.0f} "
            f"{spread:>8} {run.wait_share:>7.1%}"
        )
    if any(not run.spread for _, run in runs):
        text = "spread ?: fewer than 10 batches, too few for one"
        lines += _wrapped(text, "  ", "  ")
    if found.cold is None:
        lines += _wrapped(f"data from the disk: {found.cold_note}", "  ", "  ")
    else:
        lines += _wrapped(found.cold_note, "  ", "  ")
    lines += _wrapped(
        f"warm-up is left out; the first batch came after {duration(found.warm.first_batch_s)}",
        "  ",
        "  ",
    )
    return [*lines, "", *_stages(found)]


def _stages(found: Measurements) -> List[str]:
    stages, alone = found.stages, found.alone
    decode_s = stages.decode_s - stages.unnamed_s
    parts = [("read", stages.read_s), ("decode", decode_s), ("augment", stages.augment_s)]
    if found.own:
        parts += [("other code", stages.unnamed_s), ("collate", stages.collate_s)]
    told = ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts if seconds > 0)
    text = f"One image on one core: {duration(alone.wall_s)}. CPU: {told or 'hardly any'}."
    if alone.blocked_s > 0.05 * alone.wall_s:
        text += f" Waiting: {duration(alone.blocked_s)}."
    if alone.queued_s > 0.2 * alone.wall_s:
        text += f" For {duration(alone.queued_s)} other programs had the CPU."
    return _wrapped(text, "", "")


def verdict_part(verdict: Verdict, evidence: Sequence[str], cure: Mend) -> List[str]:
    """The verdict, why, and what to do."""
    sure = ""
    if verdict.cause not in ("model", "noise"):
        sure = " (clear)" if verdict.clear else " (close to the next one)"
    lines = _wrapped(f"Verdict: {verdict.words}{sure}.", "", "")
    for line in evidence:
        lines += _wrapped(line, "  - ", "    ")
    lines += ["", *_wrapped(cure.words, "What to do: ", "  ")]
    # A command is not broken: it is to be copied.
    return [*lines, *(["", f"  {cure.command}"] if cure.command else [])]


def gain_part(before: Arm, after: Arm, rounds: int, note: str = "") -> List[str]:
    """Before and after, side by side."""
    most = max(before.images_per_s, after.images_per_s)
    lines = [f"Tried, {rounds} times each in turn (medians, lowest to highest):", ""]
    for arm in (before, after):
        between = f"{arm.low:,.0f} to {arm.high:,.0f}"
        lines.append(
            f"  {arm.name[:18]:<18} {bar(arm.images_per_s / most)} {arm.images_per_s:>8,.0f} "
            f"{between:>16} {arm.wait_share:>7.1%}"
        )
    ratio = after.images_per_s / before.images_per_s if before.images_per_s else float("inf")
    if after.low > before.high:
        words = f"It gains: {ratio:.2f} x as many images/s"
    elif after.high < before.low:
        words = f"It does not gain here: {ratio:.2f} x as many images/s"
    else:
        words = f"No clear gain: {ratio:.2f} x as many images/s, within the spread of the runs"
    words += (
        f"; the accelerator waits for {percent(after.wait_share)} of the time in place of "
        f"{percent(before.wait_share)}."
    )
    lines += ["", *_wrapped(words, "", "")]
    return [*lines, *(_wrapped(note, "", "") if note else [])]


def bar(share: float, width: int = BAR, plain: Optional[bool] = None) -> str:
    """A bar of a share of the width, in eighths of a column."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    if plain:
        return ("#" * round(eighths / 8)).ljust(width)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def _wrapped(text: str, first: str, other: str) -> List[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=other,
        break_long_words=False,
        break_on_hyphens=False,
    )
