"""Whether tune's choice holds against a sweep: pure functions of measured runs."""

import statistics
from typing import List, NamedTuple

WAITING = 0.01
NEAR = 0.05
SAME_CORES = 0.05


class Figures(NamedTuple):
    """One setting's runs.

    Attributes:
        name: of the setting.
        images_per_s, wait_share, cores: medians.
        low, high: of images_per_s.
        runs: how many.
    """

    name: str
    images_per_s: float
    wait_share: float
    cores: float
    low: float
    high: float
    runs: int


def figures(name: str, trials: List) -> Figures:
    """Medians of some trials."""
    speeds = [trial.images_per_s for trial in trials]
    return Figures(
        name,
        statistics.median(speeds),
        statistics.median(trial.wait_share for trial in trials),
        statistics.median(trial.cores for trial in trials),
        min(speeds),
        max(speeds),
        len(trials),
    )


def three_best(sweep: List[Figures]) -> List[Figures]:
    """The sweep's best: where the accelerator hardly waits by cores, else by speed."""
    fed = [one for one in sweep if one.wait_share < WAITING]
    if fed:
        return sorted(fed, key=lambda one: one.cores)[:3]
    return sorted(sweep, key=lambda one: -one.images_per_s)[:3]


def judge(tuned: Figures, best: List[Figures], twins: List[Figures]) -> "tuple[bool, str]":
    """Does the choice hold?

    Args:
        tuned: of tune's choice.
        best: of the sweep's best, measured again beside it.
        twins: of one setting that was measured twice in the same way.

    Returns:
        The verdict and its reason.
    """
    first, second = twins
    if any(one.wait_share < WAITING for one in best):
        slack = max(SAME_CORES * tuned.cores, 0.03, abs(first.cores - second.cores))
        cheaper = [
            one for one in best if one.wait_share < WAITING and one.cores < tuned.cores - slack
        ]
        words = f"the accelerator waits {tuned.wait_share:.2%} at {tuned.cores:.2f} cores"
        if tuned.wait_share >= WAITING:
            return False, f"{words}, though a setting of the sweep feeds it"
        if cheaper:
            return False, f"{words}; {cheaper[0].name} does it with {cheaper[0].cores:.2f}"
        return True, f"{words}, no setting with fewer cores does it"
    fastest = max(best, key=lambda one: one.images_per_s)
    behind = 1 - tuned.images_per_s / fastest.images_per_s
    spread = abs(first.images_per_s - second.images_per_s) / fastest.images_per_s
    where = f"{behind:.1%} behind" if behind > 0 else f"{-behind:.1%} ahead of"
    words = f"{where} the sweep's best; one setting run twice: {spread:.1%} apart"
    return behind <= max(NEAR, spread), words
