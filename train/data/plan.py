"""What the choice of the loader's settings is made of: wishes, machine, plan, result.

Types alone: `settings.py` chooses, `reasons.py` finds the words. No torch here, no files.
"""

import sys
from dataclasses import dataclass
from typing import List, NamedTuple, Optional, Union

from train.config import kind_of
from train.machine import Measure

Auto = Union[int, str]  # a number or "auto"

CPU_PERCENT = 80  # the rest launches the kernels; 70 to 90 is usual
MOST_WORKERS = 16  # more cost memory and scheduling, and rarely make anything faster
MOST_WORKERS_ON_CPU = 4  # there the training itself wants the CPUs
MEASURED_KIND = "process"  # at 1 and 2 workers both are as fast, see docs/log.md
MEASURED_WHY = (
    "as fast as threads where it was measured; a library that crashes ends a worker, not the run"
)

HELD = 2  # batches that a loader holds beside its queues: one on its way, one in use
DEPTH = 2  # batches on their way to a CUDA device: one is copied while another is used, one spare


def held(cuda: bool) -> int:
    """Batches in host memory beside those that workers make.

    With CUDA also what is on its way to the device, and what was copied but can't yet be known as
    such.
    """
    return HELD + 2 * DEPTH if cuda else HELD


@dataclass(frozen=True)
class Known:
    """What `train tune` has found for this machine and these data: what "auto" then means.

    `reason`: how it is known, and what it gave.
    """

    workers: int
    prefetch: Optional[int]
    workers_kind: str
    reason: str


@dataclass(frozen=True)
class Requested:
    """What the config asks for: `data.workers`, `data.prefetch` and so on.

    `workers_kind`: also how processes start: "fork", "forkserver" or "spawn".
    `own_samples`: the data set gives samples of its own making, which are collated by torch.
    `known`: what tuning has found; None: the rules below hold.
    """

    workers: Auto = "auto"
    prefetch: Auto = "auto"
    workers_kind: str = "auto"
    own_samples: bool = False
    known: Optional[Known] = None

    @property
    def kind(self) -> str:
        """auto, process or thread."""
        return kind_of(self.workers_kind)


@dataclass(frozen=True)
class MachineView:
    """What the choice depends on.

    Args:
        device_type: "cpu" or "cuda".
        cpus: usable CPUs of this rank.
        memory_bytes: memory limit of all ranks of this machine; 0 when unknown.
        shm_free_bytes: free /dev/shm, for all ranks of this machine; only tensors of a user's own
            samples pass through it.
        local_ranks: training processes on this machine; memory is shared evenly.
        platform: as `sys.platform`.
    """

    device_type: str
    cpus: Measure[int]
    memory_bytes: Measure[int]
    shm_free_bytes: Measure[int]
    local_ranks: int = 1
    platform: str = sys.platform


@dataclass(frozen=True)
class Setting:
    """One chosen value and its reason, as it is printed and written to settings.json."""

    name: str
    value: Union[int, float, bool, str, None]
    reason: str


@dataclass(frozen=True)
class LoaderSettings:
    """What the loaders are built with; prefetch is None without workers, as torch wants it."""

    workers: int
    prefetch: Optional[int]
    eval_workers: int
    eval_prefetch: Optional[int]
    pin_memory: bool
    start_method: str
    reasons: List[Setting]
    warnings: List[str]
    workers_kind: str = "process"


class Sizes(NamedTuple):
    """Bytes of one batch; evaluation 0 when there is none."""

    train: int
    evaluation: int


@dataclass(frozen=True)
class Plan:
    """Numbers that are held against the budget."""

    workers: int
    eval_workers: int
    prefetch: int
    held: int = HELD

    def in_flight(self) -> Sizes:
        """Batches of training and of evaluation: both loaders stay alive, so both count."""
        return Sizes(
            self.workers * self.prefetch + self.held if self.workers else 0,
            self.eval_workers * self.prefetch + self.held if self.eval_workers else 0,
        )

    def need_bytes(self, sizes: Sizes) -> int:
        """Bytes of all batches in flight."""
        count = self.in_flight()
        return count.train * sizes.train + count.evaluation * sizes.evaluation


class Budget(NamedTuple):
    """Bytes that the batches of all ranks may take, of what, and how to get more of it."""

    limit_bytes: int
    percent: int
    words: str
    remedy: str


class Choice(NamedTuple):
    """What the reasons and warnings are told from.

    `shm_words`: how small /dev/shm is, where it could not hold the batches and need not.
    """

    requested: Requested
    machine: MachineView
    wanted: Plan
    plan: Plan
    shortage: str
    has_eval: bool
    kind: str
    method: str
    shm_words: str = ""
