"""Which settings of a loader fit: memory, /dev/shm, open files, and what the user has set."""

from typing import Optional

from train import machine
from train.config import Config, kind_of
from train.data.plan import Known, LoaderSettings, MachineView, Requested
from train.data.settings import choose
from train.tune.predict import Candidate
from train.usage import descriptors

FILES_PER_WORKER = 4
FILES_IN_RESERVE = 64
"""Descriptors: a worker's link, its sentinel, what it shares; and those of the rest of the run."""


class Budgets:
    """What of memory, /dev/shm and open files a setting may take, and what the user has set.

    Args:
        config: the run's settings.
        own_samples: the data set is a user's own.
        device_type: cpu or cuda.
        cpus: usable ones.
    """

    def __init__(
        self, config: Config, own_samples: bool, device_type: str, cpus: machine.Measure[int]
    ):
        self.data, self.own_samples = config.data, own_samples
        self.batch_bytes = config.data.batch_size * (config.data.image_size**2 * 3 + 8)
        self.files = machine.raise_open_file_limit().value
        self.open_now = descriptors() or 0
        self.view = MachineView(
            device_type, cpus, machine.memory_limit_bytes(), machine.shm_free_bytes()
        )

    def settings(self, candidate: Optional[Candidate]) -> LoaderSettings:
        """The settings of a run that asks for this candidate; None: for what is left to choose."""
        data = self.data
        known = None
        if candidate is not None:
            depth = candidate.prefetch if candidate.workers else None
            known = Known(candidate.workers, depth, candidate.kind, "")
        asked = Requested(
            data.workers,
            data.prefetch,
            data.workers_kind,
            self.own_samples,
            known,
        )
        return choose(asked, self.view, self.batch_bytes, self.batch_bytes)

    def fits(self, candidate: Candidate) -> bool:
        """Whether it is as the user set it, and nothing of it would be lowered."""
        data = self.data
        if data.workers != "auto" and candidate.workers != data.workers:
            return False
        if candidate.workers == 0:
            return True
        if data.prefetch != "auto" and candidate.prefetch != data.prefetch:
            return False
        if kind_of(data.workers_kind) not in ("auto", candidate.kind):
            return False
        found = self.settings(candidate)
        if (found.workers, found.prefetch) != (candidate.workers, candidate.prefetch):
            return False
        return self._files_fit(candidate)

    def _files_fit(self, candidate: Candidate) -> bool:
        if self.files <= 0:
            return True
        need = 2 * candidate.workers * FILES_PER_WORKER if candidate.kind == "process" else 0
        if self.own_samples:  # a tensor on its way is an open file
            need += 4 * candidate.workers * candidate.prefetch
        return self.open_now + need + FILES_IN_RESERVE <= self.files
