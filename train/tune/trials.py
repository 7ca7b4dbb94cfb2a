"""Short trials of loader settings beside the accelerator, within the budgets and the time given."""

import time
from dataclasses import replace
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from train.accelerator import Accelerator
from train.config import Config, kind_of
from train.data import build_loader
from train.trial import WARM_BATCHES, WARM_S, Trial, run_trial
from train.tune.budgets import Budgets
from train.tune.costs import EPOCH, Costs
from train.tune.predict import Candidate, Space, first_candidate, image_seconds
from train.tune.search import next_trial

TRIAL_S = 1.2
"""Measured in each trial, after its warm-up."""

BATCH_S = 0.3
"""Longest that one batch may take in a trial: where it takes longer, trials use smaller batches."""

FEWEST = 8
"""Images of such a smaller batch at least."""

FROM_DISK = 0.1
FEW_IMAGES = 5000
"""Data that come from the disk, by this share, and are so few that some trials read all of them,
are read into memory first: there they are from a run's second epoch on."""

OVERTIME = 3.0
"""A trial that takes so many times as long as expected, past the end of the time, is given up."""


class _OutOfTime(Exception):
    """A trial takes too long."""


class Outcome(NamedTuple):
    """What the trials gave.

    Attributes:
        done: each candidate and its trial, in order.
        first: where they began.
        batch_size: images of a batch in the trials.
        cut_short: why not everything was tried; '' otherwise.
    """

    done: List[Tuple[Candidate, Trial]]
    first: Candidate
    batch_size: int
    cut_short: str


class Trials:
    """Runs them.

    Args:
        config: the run's settings.
        source: what it trains on.
        accelerator: what consumes the batches.
        budgets: what may be tried.
        deadline: no trial begins that would end after it, `time.perf_counter`.
        progress: told what goes on.
    """

    def __init__(
        self,
        config: Config,
        source: Any,
        accelerator: Accelerator,
        budgets: Budgets,
        deadline: float,
        progress: Callable[[str], None],
    ):
        self.config, self.source, self.accelerator = config, source, accelerator
        self.budgets, self.deadline, self.progress = budgets, deadline, progress
        self.done: List[Tuple[Candidate, Trial]] = []

    def all(self, space: Space) -> Optional[Outcome]:
        """Try what the search asks for, until it is content or the time is over.

        None where nothing fits that might be tried.
        """
        first = first_candidate(space)
        if first is None:
            return None
        size = trial_batch_size(space)
        cut_short = ""
        if (space.costs.disk_share or 0.0) > FROM_DISK and len(self.source) <= FEW_IMAGES:
            # Left out: what it reads from the disk, the next one would find in memory.
            self._run(first, size, expected_seconds(space, first, size))
            self.done.clear()
        while True:
            one = next_trial(space, self.done, first)
            if one is None:
                break
            expected = expected_seconds(space, one, size)
            if time.perf_counter() + expected > self.deadline:
                cut_short = "the time was over"
                break
            if not self._run(one, size, expected):
                cut_short = f"{one.words()} took too long"
                break
        return Outcome(self.done, first, size, cut_short)

    def _run(self, one: Candidate, size: int, expected_s: float) -> bool:
        """Try one candidate; False when it took too long."""
        end = max(self.deadline, time.perf_counter() + OVERTIME * expected_s)

        def look(images: int) -> None:
            if time.perf_counter() > end:
                raise _OutOfTime

        data = replace(self.config.data, batch_size=size)
        loader = build_loader(
            self.source, data, self.budgets.settings(one), train=True, seed=self.config.run.seed
        )
        # Each trial reads an order of its own: what the one before has read is in memory.
        loader.load_state_dict(loader.sampler.state(EPOCH + 1 + len(self.done), 0))
        try:
            trial = run_trial(loader, self.accelerator, TRIAL_S, warm_s=WARM_S, after_batch=look)
        except _OutOfTime:
            return False
        finally:
            loader.close()
        self.done.append((one, trial))
        self.progress(
            f"trial {len(self.done)}: {one.words()}: {trial.images_per_s:,.0f} images/s, "
            f"waiting {trial.wait_share:.1%}, {trial.cores:.1f} cores"
        )
        return True


def trial_batch_size(space: Space) -> int:
    """Images of a batch in the trials: the run's, but where one takes long fewer.

    Speed by the image is the same where the loader is the limit, or where a CPU trains. A device
    that could be the limit sees the batches of the run.
    """
    costs, size = space.costs, space.costs.batch_size
    wall = image_seconds(costs)[0]
    step = 1.0 / costs.ceiling.images_per_s if space.competes else 0.0
    near = costs.ceiling.images_per_s < 3 * space.cpus / wall
    if max(wall, step) * size <= BATCH_S or (near and not space.competes):
        return size
    return max(min(FEWEST, size), min(size, round(BATCH_S / max(wall, step))))


def expected_seconds(space: Space, one: Candidate, batch_size: int) -> float:
    """What a trial will take: start, first batch, warm-up, measurement."""
    batch_s = batch_size / space.predict(one).images_per_s
    first = 0.3 + batch_size * image_seconds(space.costs)[0]
    return first + max(WARM_S, WARM_BATCHES * batch_s) + max(TRIAL_S, 3 * batch_s)


def space_of(
    config: Config, costs: Costs, cpus: int, device_type: str, simulated: bool, budgets: Budgets
) -> Space:
    """What may be tried on this machine.

    Args:
        config: the run's settings.
        costs: as measured.
        cpus: usable ones.
        device_type: cpu or cuda.
        simulated: the accelerator is not there, and takes no CPU.
        budgets: what fits.
    """
    data = config.data
    rule = budgets.settings(None)
    kinds: Tuple[str, ...] = ("process", "thread")
    if data.workers_kind != "auto":
        kinds = (kind_of(data.workers_kind),)
    elif budgets.own_samples or costs.two_threads is None:
        kinds = ("process",)  # code of a user's own need not be safe with threads
    return Space(
        costs=costs,
        cpus=cpus,
        competes=device_type == "cpu" and not simulated,
        base_prefetch=4 if simulated else rule.prefetch or (4 if device_type == "cuda" else 2),
        fits=budgets.fits,
        kinds=kinds,
        workers=None if data.workers == "auto" else int(data.workers),
        prefetch=None if data.prefetch == "auto" else int(data.prefetch),
    )
