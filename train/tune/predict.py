"""What a setting of the loader would give, by arithmetic on the measured costs.

Three things bound a run: the accelerator's own speed; the cores, which images pass through for so
many CPU seconds each; and the workers, each of which makes one image after the other and waits for
its reads meanwhile. The slowest of the three is the speed. Pure functions: no torch, no files.
"""

import math
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

from train.data.plan import MOST_WORKERS
from train.tune.costs import Costs

MARGIN = 1.05
"""A loader must be able to do so much more than the accelerator takes: batches differ."""

LEAST_WAITING = 0.1
"""Share of a stage's time that must be waiting to count as such; less is other processes' doing."""

SHALLOW = 0.93
"""Speed at prefetch 1, as a share of that at 2: a worker stands still until its batch is fetched
and the next one asked for."""


class Candidate(NamedTuple):
    """One setting of the loader.

    Attributes:
        workers: 0: batches are made in the training process.
        kind: process or thread.
        prefetch: batches that each worker keeps ready; 1 without workers.
    """

    workers: int
    kind: str = "process"
    prefetch: int = 1

    def words(self) -> str:
        """For people: '2 processes x 4'."""
        if self.workers == 0:
            return "no workers"
        kinds = {"process": "processes", "thread": "threads"}
        what = self.kind if self.workers == 1 else kinds[self.kind]
        return f"{self.workers} {what} x {self.prefetch}"


class Prediction(NamedTuple):
    """What a candidate should give.

    Attributes:
        images_per_s: of the run.
        wait_share: share of the time in which the accelerator has no batch.
        cores: busy ones.
        capacity: images/s that the loader alone could deliver.
    """

    images_per_s: float
    wait_share: float
    cores: float
    capacity: float


class Space(NamedTuple):
    """What may be chosen, and what each choice should give.

    Attributes:
        costs: as measured.
        cpus: usable ones.
        competes: the accelerator is the CPU: it works on the cores that the workers want.
        base_prefetch: where the search begins; what is chosen without a measurement.
        fits: whether a candidate is within memory, /dev/shm and open files, and as the user set it.
        kinds: that may be tried, the first one preferred.
        workers, prefetch: where the user set them; else None.
    """

    costs: Costs
    cpus: int
    competes: bool
    base_prefetch: int
    fits: Callable[[Candidate], bool]
    kinds: Sequence[str] = ("process", "thread")
    workers: Optional[int] = None
    prefetch: Optional[int] = None

    def predict(self, candidate: Candidate) -> Prediction:
        """See `predict`."""
        return predict(self.costs, self.cpus, self.competes, candidate)


def predict(costs: Costs, cpus: int, competes: bool, candidate: Candidate) -> Prediction:
    """What a candidate should give on so many CPUs.

    Args:
        costs: as measured, on one core.
        cpus: usable ones.
        competes: the accelerator is the CPU.
        candidate: a setting.
    """
    wall, cpu = image_seconds(costs)
    most, own = costs.ceiling.images_per_s, costs.ceiling.cpu_s
    if candidate.workers == 0:
        # The CPU can't do both at once; a device goes on while the next batch is made.
        capacity = 1.0 / wall
        rate = 1.0 / (wall + 1.0 / most) if competes else min(most, 1.0 / (wall + own))
        wait = wall * rate if competes else 1.0 - rate / most
        return Prediction(rate, wait, rate * (cpu + own), capacity)
    total = cpu + costs.handover.cpu_s + own
    lanes = float(candidate.workers)
    if candidate.kind == "thread":
        lanes = _side_by_side(candidate.workers, costs.two_threads)
    if candidate.prefetch == 1:
        lanes *= SHALLOW
    capacity = min(lanes / wall, cpus / (cpu + costs.handover.cpu_s))
    rate = min(most, lanes / wall, cpus / total)
    # Beside its own workers a CPU is slower, and so can wait less than it would alone.
    could = min(most, cpus / total) if competes else most
    return Prediction(rate, max(0.0, 1.0 - rate / could), rate * total, capacity)


def image_seconds(costs: Costs) -> Tuple[float, float]:
    """Seconds of one image on one core: (by the clock, CPU)."""
    wall, cpu = costs.batch.seconds, costs.batch.cpu_s
    if wall - cpu < LEAST_WAITING * wall:
        wall = cpu
    return max(wall, 1e-9), max(min(cpu, wall), 1e-9)


def _side_by_side(workers: int, two: Optional[float]) -> float:
    """How many of so many threads run at a time, by Amdahl's law from the speed of two."""
    if two is None:
        return 1.0
    if two >= 1.85:
        return float(workers)
    alone = 2.0 / max(1.0, two) - 1.0  # the share that only one thread can be in
    return 1.0 / (alone + (1.0 - alone) / workers)


def worker_counts(space: Space) -> List[int]:
    """Numbers of workers worth a thought, up to what cores and waiting can use."""
    if space.workers is not None:
        return [space.workers]
    wall, cpu = image_seconds(space.costs)
    wanted = MARGIN * min(space.costs.ceiling.images_per_s, space.cpus / cpu) * wall
    most = min(MOST_WORKERS, max(space.cpus + 2, math.ceil(wanted) + 2))
    return list(range(most + 1))


def candidate(space: Space, workers: int, kind: str, prefetch: int) -> Candidate:
    """A candidate in its one spelling: without workers kind and depth mean nothing."""
    return Candidate(workers, kind, prefetch) if workers else Candidate(0, space.kinds[0], 1)


def depths(space: Space) -> List[int]:
    """Prefetch depths to begin with, the first that fits; less where memory is short."""
    if space.prefetch is not None:
        return [space.prefetch]
    return [space.base_prefetch] + [depth for depth in (4, 2, 1) if depth < space.base_prefetch]


def first_candidate(space: Space) -> Optional[Candidate]:
    """Where the trials begin: the fewest workers that should keep the accelerator busy.

    Where none does, or where the accelerator is the CPU: the fewest workers of those that should be
    the fastest. None where nothing fits.
    """
    most = space.costs.ceiling.images_per_s
    fitting = []
    for kind in space.kinds:
        for workers in worker_counts(space):
            for prefetch in depths(space):
                one = candidate(space, workers, kind, prefetch)
                if space.fits(one):
                    fitting.append(one)
                    break
    if not fitting:
        return None
    if not space.competes:
        enough = [one for one in fitting if space.predict(one).capacity >= MARGIN * most]
        enough = [one for one in enough if space.predict(one).wait_share < 0.005]
        if enough:
            return min(enough, key=lambda one: (one.workers, fitting.index(one)))
    fastest = max(space.predict(one).images_per_s for one in fitting)
    near = [one for one in fitting if space.predict(one).images_per_s >= 0.97 * fastest]
    return min(near, key=lambda one: (one.workers, fitting.index(one)))
