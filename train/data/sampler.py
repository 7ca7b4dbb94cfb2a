"""Stop 1 of the line: (seed, epoch, rank) -> indices. Order is arithmetic, so resume is a number.

The state is `{seed, epoch, samples_seen}`, counted over all ranks: restoring it costs O(1) and
works at any world size and any number of workers. The epoch travels with the indices, so persistent
workers see it.
"""

from typing import Dict, Iterator, List, NamedTuple, Optional

import numpy as np

from train.errors import ConfigError


class BatchRequest(NamedTuple):
    """What a worker is asked for: one batch of this rank.

    Attributes:
        epoch: the pass it belongs to.
        samples_seen: samples of that epoch, over all ranks, once this batch is done: where a resume
            goes on.
        indices: int64 (B,), into the source.
        slot: where in the batch ring to write it; -1: into memory of its own.
    """

    epoch: int
    samples_seen: int
    indices: np.ndarray
    slot: int = -1


class Sampler:
    """The order of a data set, batch by batch, for one rank.

    A last batch of a single sample would break batch normalisation. It is not dropped: the batch
    before it gives one sample away, so every sample is seen exactly once an epoch. Only where
    batches are no larger than `min_batch` there is nothing to give: then the tail of that epoch's
    order is left out (`samples_per_epoch` says how many remain).

    Args:
        num_samples: of the data set, >= 1.
        batch_size: of one rank, >= 1.
        seed: of the run.
        shuffle: a new order each epoch; False keeps the order of the source.
        rank, world_size: this process among all.
        min_batch: smallest batch a rank may get: 2 in training (batch normalisation), 1 in
            evaluation.

    Raises:
        ConfigError: fewer samples than ranks x min_batch.
    """

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        seed: int,
        shuffle: bool,
        rank: int = 0,
        world_size: int = 1,
        min_batch: int = 1,
    ):
        if num_samples < world_size * min_batch:
            ranks = f" for {world_size} ranks" if world_size > 1 else ""
            raise ConfigError(
                f"the data set has {num_samples} image(s), training needs at least "
                f"{world_size * min_batch}{ranks}: add images"
            )
        self.num_samples = num_samples
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.rank = rank
        self.world_size = world_size
        # With a batch size of 1, single samples are what the user asked for.
        self.min_batch = min(min_batch, batch_size)
        self._may_be_empty = min_batch == 1

    def order(self, epoch: int) -> np.ndarray:
        """The order of one epoch, the same on every rank: int64 (N,), each index exactly once."""
        if not self.shuffle:
            return np.arange(self.num_samples, dtype=np.int64)
        # Philox is counter-based and keyed: no state is carried from epoch to epoch.
        generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        return generator.permutation(self.num_samples)

    def global_batch_sizes(self, samples_seen: int = 0) -> List[int]:
        """Sizes over all ranks of the batches left in an epoch, from a batch boundary onwards."""
        full = self.batch_size * self.world_size
        # In evaluation a rank may get nothing of the last batch: no sample is left out.
        least = 1 if self._may_be_empty else self.min_batch * self.world_size
        sizes: List[int] = []
        left = self.num_samples - samples_seen
        while left > 0:
            if left < least:
                break  # nothing to give, see the class
            size = min(full, left)
            if 0 < left - size < least <= left - least:
                size = left - least
            sizes.append(size)
            left -= size
        return sizes

    @property
    def samples_per_epoch(self) -> int:
        """Samples that one epoch sees over all ranks: all of them, but for the exception above."""
        return sum(self.global_batch_sizes())

    def batch_sizes(self, samples_seen: int = 0) -> List[int]:
        """Sizes of this rank's batches left in an epoch."""
        return [
            self._share(size).stop - self._share(size).start
            for size in self.global_batch_sizes(samples_seen)
        ]

    def _share(self, size: int) -> slice:
        """This rank's part of a global batch; parts differ by at most one sample."""
        return slice(size * self.rank // self.world_size, size * (self.rank + 1) // self.world_size)

    def requests(
        self, epoch: int, samples_seen: int, epochs: Optional[int]
    ) -> Iterator[BatchRequest]:
        """Requests from a position to the end of the last epoch, no gap in between.

        Args:
            epoch: where to begin.
            samples_seen: of that epoch.
            epochs: where the order ends; None: never.
        """
        while epochs is None or epoch < epochs:
            order = self.order(epoch)
            for size in self.global_batch_sizes(samples_seen):
                part = order[samples_seen : samples_seen + size][self._share(size)]
                yield BatchRequest(epoch, samples_seen + size, part)
                samples_seen += size
            epoch, samples_seen = epoch + 1, 0

    def state(self, epoch: int, samples_seen: int) -> Dict[str, int]:
        """The loader's whole state."""
        return {"seed": self.seed, "epoch": epoch, "samples_seen": samples_seen}
