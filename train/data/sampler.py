"""Stop 1 of the line: (seed, epoch, rank) -> indices. Order is arithmetic, so resume is a number.

The state is `{seed, epoch, samples_seen}`, counted over all ranks: restoring it costs O(1) and
works at any world size and any number of workers. The epoch travels with the indices, so persistent
workers see it.

Training: each global batch is dealt out to all ranks, so all take the same number of steps.
Evaluation: whole batches are dealt out, so a batch holds the same samples at any world size.
"""

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

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
        padding: so many samples at the end count nowhere: they only keep the batch large enough.
    """

    epoch: int
    samples_seen: int
    indices: np.ndarray
    slot: int = -1
    padding: int = 0


class Sampler:
    """The order of a data set, batch by batch, for one rank.

    Every sample comes exactly once an epoch, at any world size and from any position.

    A batch of a single sample would break batch normalisation. Where the tail of an epoch is that
    short, the batch before it gives samples away. Where that one is no larger itself, or lies
    before the position of a resume, the tail is filled with other samples that count nowhere
    (`BatchRequest.padding`).

    Args:
        num_samples: of the data set, >= 1.
        batch_size: of one rank, >= 1.
        seed: of the run.
        shuffle: a new order each epoch; False keeps the order of the source.
        rank: this process among all, from 0.
        world_size: how many processes train together.
        min_batch: smallest batch a rank may get: 2 in training (batch normalisation).
        whole_batches: for evaluation: batch k goes to rank k % world_size, whole; a rank may get
            none.

    Raises:
        ConfigError: fewer samples than the ranks need.
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
        whole_batches: bool = False,
    ):
        least = 1 if whole_batches else world_size * min_batch
        if num_samples < least:
            ranks = f" for {world_size} ranks" if world_size > 1 else ""
            raise ConfigError(
                f"the data set has {num_samples} image(s), training needs at least "
                f"{least}{ranks}: add images"
            )
        self.num_samples = num_samples
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.rank = rank
        self.world_size = world_size
        # With a batch size of 1, single samples are what the user asked for.
        self.min_batch = min(min_batch, batch_size)
        self.whole_batches = whole_batches

    def order(self, epoch: int) -> np.ndarray:
        """The order of one epoch, the same on every rank: int64 (N,), each index exactly once."""
        if not self.shuffle:
            return np.arange(self.num_samples, dtype=np.int64)
        # Philox is counter-based and keyed: no state is carried from epoch to epoch.
        generator = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        return generator.permutation(self.num_samples)

    def global_batch_sizes(self, samples_seen: int = 0) -> List[int]:
        """Sizes of the batches left in an epoch, over all ranks, from a batch boundary onwards."""
        full = self.batch_size * (1 if self.whole_batches else self.world_size)
        least = 1 if self.whole_batches else self.min_batch * self.world_size
        sizes: List[int] = []
        left = self.num_samples - samples_seen
        while left > 0:
            size = min(full, left)
            if 0 < left - size < least <= left - least:
                size = left - least  # the last one is to be large enough
            sizes.append(size)
            left -= size
        return sizes

    def batch_sizes(self, samples_seen: int = 0) -> List[int]:
        """Samples that count in each of this rank's batches left in an epoch."""
        return [part.stop - part.start for _, part in self._parts(samples_seen)]

    def rounds(self) -> int:
        """Batches of the rank that gets most of them in an epoch."""
        batches = len(self.global_batch_sizes())
        return -(-batches // self.world_size) if self.whole_batches else batches

    def _parts(self, samples_seen: int) -> Iterator[Tuple[int, slice]]:
        """This rank's batches: where each global one ends, and this rank's part of the order."""
        for size in self.global_batch_sizes(samples_seen):
            first, end = samples_seen, samples_seen + size
            if not self.whole_batches:
                # Parts differ by at most one sample.
                begin = first + size * self.rank // self.world_size
                yield end, slice(begin, first + size * (self.rank + 1) // self.world_size)
            elif first // self.batch_size % self.world_size == self.rank:
                yield end, slice(first, end)
            samples_seen = end

    def requests(
        self, epoch: int, samples_seen: int, epochs: Optional[int]
    ) -> Iterator[BatchRequest]:
        """Requests from a position to the end of the last epoch, no gap in between.

        Args:
            epoch: where to begin.
            samples_seen: of that epoch.
            epochs: where the order ends; None: never.
        """
        if not self.batch_sizes():
            return  # more ranks than batches
        while epochs is None or epoch < epochs:
            order = self.order(epoch)
            for end, part in self._parts(samples_seen):
                indices, padding = order[part], 0
                if not self.whole_batches and len(indices) < self.min_batch:
                    padding = self.min_batch - len(indices)
                    indices = np.concatenate([indices, np.roll(order, -end)[:padding]])
                yield BatchRequest(epoch, end, indices, padding=padding)
            epoch, samples_seen = epoch + 1, 0

    def state(self, epoch: int, samples_seen: int) -> Dict[str, int]:
        """The loader's whole state."""
        return {"seed": self.seed, "epoch": epoch, "samples_seen": samples_seen}
