"""The search: which setting to try next, and which of those that were tried is the best.

Pure functions of the costs and of the trials so far: the same measurements, the same choice.
"""

import statistics
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from train.trial import Trial
from train.tune.predict import Candidate, Space, candidate, depths

ENOUGH = 0.01
"""The accelerator may wait for this share of the time: that is what tuning is for."""

UNEVEN = 0.05
"""Where it waits for less than this, batches that come unevenly may be all: deeper queues help."""

SAME_SPEED = 0.025
"""Speeds this near to each other are the same: then what costs less is chosen."""

SAME_CORES = 0.05
"""Cores this near to each other, as a share, are the same, and so is a difference of 0.03."""


class Summary(NamedTuple):
    """One candidate's trials, medians.

    Attributes:
        runs: how many.
        images_per_s, wait_share, cores, memory_bytes: as in `Trial`.
        spread: largest difference of its speeds, as a share; 0 for one run.
    """

    runs: int
    images_per_s: float
    wait_share: float
    cores: float
    memory_bytes: Optional[int]
    spread: float


Done = Sequence[Tuple[Candidate, Trial]]


def summarise(done: Done) -> Dict[Candidate, Summary]:
    """Medians by candidate, in the order in which they were tried first."""
    runs: Dict[Candidate, List[Trial]] = {}
    for one, trial in done:
        runs.setdefault(one, []).append(trial)
    return {one: _summary(trials) for one, trials in runs.items()}


def _summary(trials: List[Trial]) -> Summary:
    speeds = [trial.images_per_s for trial in trials]
    middle = statistics.median(speeds)
    memory = [trial.memory_bytes for trial in trials if trial.memory_bytes is not None]
    return Summary(
        len(trials),
        middle,
        statistics.median(trial.wait_share for trial in trials),
        statistics.median(trial.cores for trial in trials),
        max(memory) if memory else None,
        (max(speeds) - min(speeds)) / middle if middle > 0 else 0.0,
    )


def pick(measured: Dict[Candidate, Summary], competes: bool) -> Candidate:
    """The best one.

    Those that keep the accelerator waiting for less than ENOUGH: of them the fewest cores, then the
    fewest workers. Where there are none, or where the accelerator is the CPU and so works slower
    the more is done beside it: the fastest, and the cheapest of what is as fast.

    Args:
        measured: at least one.
        competes: the accelerator is the CPU.
    """
    enough = [one for one, found in measured.items() if found.wait_share < ENOUGH]
    if enough and not competes:
        least = min(measured[one].cores for one in enough)
        most = max(least * (1 + SAME_CORES), least + 0.03)
        return min((one for one in enough if measured[one].cores <= most), key=_cheapness)
    fastest = max(found.images_per_s for found in measured.values())
    near = [one for one, found in measured.items() if found.images_per_s >= _near(fastest)]
    return min(near, key=_cheapness)


def _near(fastest: float) -> float:
    return fastest * (1 - SAME_SPEED)


def _cheapness(one: Candidate) -> Tuple[int, bool, int]:
    """Fewer workers; processes before threads, since a crash ends a worker alone; less memory."""
    return one.workers, one.kind == "thread", one.prefetch


def is_enough(found: Summary) -> bool:
    """Whether the accelerator hardly waits."""
    return found.wait_share < ENOUGH


def next_trial(space: Space, done: Done, first: Candidate, most: int = 9) -> Optional[Candidate]:
    """What to try next; None: the choice is clear.

    It begins where the prediction points, walks to the best neighbour while that is better, and at
    the end measures the two best again, in turn, where they are within the noise.

    Args:
        space: what may be tried.
        done: what was tried, in order.
        first: of `first_candidate`.
        most: candidates at most; trials at most half as many more.
    """
    if not done:
        return first
    measured = summarise(done)
    best = pick(measured, space.competes)
    if len(done) >= most + most // 2:
        return None
    doubt = _again(space, measured, best, 2)
    if doubt is not None and _cheaper_rivals(space, measured, best):
        return doubt  # a step upwards that noise may have made is not walked on from
    if len(measured) < most:
        for one in neighbours(space, best, measured[best]):
            if one not in measured and space.fits(one) and _may_win(space, one, best, measured):
                return one
    return _again(space, measured, best, AGAIN)


def neighbours(space: Space, best: Candidate, found: Summary) -> List[Candidate]:
    """What lies around the best one so far, the most promising first."""
    depth = best.prefetch if best.workers else depths(space)[0]

    def near(workers: int, kind: str = best.kind, prefetch: int = depth) -> Candidate:
        return candidate(space, max(0, workers), kind, prefetch)

    others = [near(best.workers, kind) for kind in space.kinds if kind != best.kind]
    fewer = [near(best.workers - 1)]
    if is_enough(found) and not space.competes:
        return fewer + others
    more = [near(best.workers + 1), near(best.workers + max(2, best.workers // 2))]
    deeper = [near(best.workers, best.kind, 2 * best.prefetch)] if best.workers else []
    if found.wait_share < UNEVEN and not space.competes:
        return deeper + more[:1] + others + fewer + more[1:]
    return more[:1] + fewer + others + deeper + more[1:]


def _may_win(
    space: Space, one: Candidate, best: Candidate, measured: Dict[Candidate, Summary]
) -> bool:
    """Whether a trial is worth its seconds, by the prediction and by what was seen of its kin."""
    now, then = space.predict(best), space.predict(one)
    found = measured[best]
    if one.workers < best.workers:  # it has to be as good, with less
        return then.images_per_s > 0.88 * now.images_per_s
    if one.kind != best.kind:
        return then.images_per_s > 0.9 * now.images_per_s
    if one.prefetch > best.prefetch:  # a first step is tried; a second where the first has helped
        first = depths(space)[0]
        other = measured.get(best._replace(prefetch=first))
        helped = other is not None and other.images_per_s < 0.96 * found.images_per_s
        return one.prefetch == 2 * first or (helped and one.prefetch == 4 * first)
    if one.workers > best.workers + 1:  # a stride: only where a step upwards has helped before
        fewer = [other for other in measured if 0 < other.workers < best.workers]
        helped = all(measured[other].images_per_s < 0.95 * found.images_per_s for other in fewer)
        return bool(fewer) and helped and then.images_per_s > 1.02 * now.images_per_s
    return True


AGAIN = 3
"""Runs of one candidate at most, where the choice is not clear."""


def _again(
    space: Space, measured: Dict[Candidate, Summary], best: Candidate, runs: int
) -> Optional[Candidate]:
    """The next of the two best to measure again; None where the difference is clear."""
    rivals = [one for one in measured if one != best and _unclear(space, measured, best, one)]
    if not rivals:
        once = measured[best].runs < 2
        return best if once and ENOUGH / 2 < measured[best].wait_share < ENOUGH else None
    rival = max(rivals, key=lambda one: measured[one].images_per_s)
    cheaper = _cheaper_rivals(space, measured, best)
    if cheaper:  # whether the less would do is what matters
        rival = min(cheaper, key=_cheapness)
    one = min((best, rival), key=lambda each: measured[each].runs)
    return one if measured[one].runs < runs else None


def _cheaper_rivals(
    space: Space, measured: Dict[Candidate, Summary], best: Candidate
) -> List[Candidate]:
    """What is about as good and takes less: fewer workers, or as many and shallower queues."""
    return [
        one
        for one in measured
        if (one.workers, one.prefetch) < (best.workers, best.prefetch)
        and one.workers * one.prefetch < best.workers * best.prefetch
        and _unclear(space, measured, best, one)
    ]


def _unclear(
    space: Space, measured: Dict[Candidate, Summary], best: Candidate, other: Candidate
) -> bool:
    """Whether noise may have decided between the two."""
    here, there = measured[best], measured[other]
    if is_enough(here) and not space.competes:
        # It has to be cheaper, and to have missed by little; or the other way round.
        cheaper = there.cores < here.cores * (1 - SAME_CORES)
        return cheaper and there.wait_share < 2 * ENOUGH
    noise = max(0.05, here.spread, there.spread)
    return there.images_per_s > here.images_per_s * (1 - noise)
