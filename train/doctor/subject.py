"""What is examined: our own line over a source, or a user's data set, behind one interface."""

import dataclasses
import os
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

from train import machine
from train.config import Config
from train.data import build_loader
from train.data.batch import Batches, Failure
from train.data.fill import recipe_of
from train.data.generators import seeded
from train.data.loader import Loader
from train.data.sampler import BatchRequest
from train.data.samples import Samples
from train.data.settings import Known, LoaderSettings, MachineView, Requested, choose
from train.data.sources import Subset, file_of
from train.doctor.own_data import Part
from train.errors import DataError

Indices = Union[Sequence[int], np.ndarray]

MOST_FILES = 10_000
"""Files of a container that are looked for; more is a folder of images."""


@dataclasses.dataclass(frozen=True)
class Subject:
    """One pipeline.

    Attributes:
        data: a source, or a map-style data set of a user's own.
        own: it is a user's.
        config: settings of the run; its batch size is that of the examination.
        settings: of the loader.
        classes: numbers of the labels are below it.
        root: folder of the data; '' for a user's own.
        packed: the data are in a container.
    """

    data: Any
    own: bool
    config: Config
    settings: LoaderSettings
    classes: int = 1000
    root: str = ""
    packed: bool = False

    def __len__(self) -> int:
        return len(self.data)

    def part(self, indices: Optional[Indices] = None) -> Any:
        """Some of the data, as a loader takes it."""
        if indices is None:
            return self.data
        return (Part if self.own else Subset)(self.data, np.asarray(indices, dtype=np.int64))

    def loader(
        self,
        indices: Optional[Indices] = None,
        batch_size: Optional[int] = None,
        epochs: Optional[int] = None,
    ) -> Loader:
        """The run's loader over some of the data."""
        data = self.config.data
        if batch_size is not None:
            data = dataclasses.replace(data, batch_size=batch_size)
        return build_loader(
            self.part(indices), data, self.settings, train=True, seed=self.seed, epochs=epochs
        )

    @property
    def seed(self) -> int:
        """Of the run."""
        return self.config.run.seed

    @property
    def batches(self) -> Any:
        """Stop 5 of the line: makes whole batches."""
        if self.own:
            return Samples(self.data, True, self.seed)
        return Batches(self.data, recipe_of(self.config.data, True, self.seed))

    def make(self) -> Callable[[int], Any]:
        """A function that makes one sample, as a worker does; another one each time it is asked."""
        if self.own:
            data = self.data
            return lambda index: data[index]
        whole, calls = self.batches, [0]

        def make(index: int) -> Any:
            calls[0] += 1  # another crop each time
            made = whole.__getitems__(BatchRequest(calls[0], 0, np.array([index])))
            if isinstance(made, Failure):
                raise DataError(made.message)
            return made

        return make

    def seeds(self) -> Any:
        """A context in which the generators are seeded as in a worker."""
        return seeded(self.seed, BatchRequest(0, 0, np.zeros(1, np.int64)))

    def files(self, indices: Indices) -> List[str]:
        """The files that these records lie in; empty for a user's own data set."""
        if self.own:
            return []
        if os.path.isfile(self.root):
            return [self.root]
        found = []
        for index in indices:
            name = file_of(self.data, int(index)) or self.data.key(int(index))
            path = os.path.join(self.root, os.fsdecode(os.fsencode(name)))
            found.append(path if os.path.isfile(path) else "")
        known = [path for path in dict.fromkeys(found) if path]
        return known or _all_files(self.root)


def settings_for(
    config: Config,
    feeds_gpu: bool,
    pins: bool,
    cpus: machine.Measure[int],
    batch_bytes: int,
    own: bool,
    known: Optional[Known] = None,
) -> LoaderSettings:
    """The loader's settings as the run would choose them.

    Args:
        config: of the run.
        feeds_gpu: the accelerator takes no CPU: a GPU, or a simulated one.
        pins: it is CUDA.
        cpus: that may be used.
        batch_bytes: of one batch.
        own: samples of a user's own.
        known: what `train tune` has found.
    """
    data = config.data
    machine.raise_open_file_limit()
    chosen = choose(
        Requested(data.workers, data.prefetch, data.workers_kind, own, known),
        MachineView(
            "cuda" if feeds_gpu else "cpu",
            cpus,
            machine.memory_limit_bytes(),
            machine.shm_free_bytes(),
        ),
        batch_bytes,
    )
    return dataclasses.replace(chosen, pin_memory=pins)


def _all_files(root: str) -> List[str]:
    found: List[str] = []
    for folder, _, names in os.walk(root):
        found += [os.path.join(folder, name) for name in names]
        if len(found) > MOST_FILES:
            return found[:MOST_FILES]
    return found


def halves(count: int, first: int, second: int) -> Tuple[np.ndarray, np.ndarray]:
    """Two sets of indices, spread over a data set; they only meet where it has too few.

    Args:
        count: of the data set.
        first: how many of the one.
        second: how many of the other.
    """
    first, second = min(first, count), min(second, count)
    order = np.random.default_rng(0).permutation(count) if count <= 1 << 22 else None
    if order is None:  # of so many, a draw rarely meets another
        drawn = np.unique(np.random.default_rng(0).integers(0, count, 2 * (first + second)))
        order = np.random.default_rng(1).permutation(drawn)
    later = order[first : first + second]
    if len(later) < second:
        later = order[-second:]
    return np.sort(order[:first]), np.sort(later)
