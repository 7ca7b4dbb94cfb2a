"""Batches from shards that are streamed: the same recipe, in the order of `Stream`.

Which crop a sample gets depends on (seed, epoch, key), not on who reads it.
"""

import hashlib
from typing import Dict, Iterator, List, Union

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

from train.data.batch import Bad, Batch, Batches, Failure, Recipe
from train.data.sampler import BatchRequest
from train.data.sources import Record
from train.data.sources.names import encode
from train.data.sources.stream import Stream
from train.errors import ConfigError

_BY_KEY = 1 << 62


class StreamBatches(IterableDataset):
    """A data set that yields whole batches.

    For a DataLoader with `batch_size=None, collate_fn=identity`. Ranks may get different numbers of
    samples, as shards are dealt out whole.

    Args:
        stream: where the samples come from.
        recipe: what happens to every image.
        batch_size: B; the last batch of a worker may be smaller.
        rank, world_size: of this process.

    Attributes:
        epoch: the pass; set it before iterating. Workers must not be persistent, or they would go
            on with the old one.

    Raises:
        ConfigError: fewer shards than ranks.
    """

    def __init__(
        self, stream: Stream, recipe: Recipe, batch_size: int, rank: int = 0, world_size: int = 1
    ):
        if len(stream.shards) < world_size:
            raise ConfigError(
                f"{len(stream.shards)} shards can't be dealt out to {world_size} ranks; "
                "make smaller shards"
            )
        self.stream, self.recipe, self.batch_size = stream, recipe, batch_size
        self.rank, self.world_size = rank, world_size
        self.epoch = 0

    def __iter__(self) -> Iterator[Union[Batch, Failure]]:
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        part = number * self.world_size + self.rank
        records: List[Record] = []
        bad: List[Bad] = []
        seen = 0
        for item in self.stream.read(self.epoch, part, workers * self.world_size):
            if isinstance(item, Bad):
                bad.append(item)
                continue
            records.append(item)
            if len(records) == self.batch_size:
                seen += len(records)
                yield self._batch(records, bad, seen)
                records, bad = [], []
        if records or bad:
            yield self._batch(records, bad, seen + len(records))

    def _batch(self, records: List[Record], bad: List[Bad], seen: int) -> Union[Batch, Failure]:
        source = _Records(records)
        batch = Batches(source, self.recipe).__getitems__(
            BatchRequest(self.epoch, seen, source.indices)
        )
        if isinstance(batch, Failure):
            return batch
        return batch._replace(bad=(*bad, *(item._replace(sample=-1) for item in batch.bad)))


def identity(batch: Union[Batch, Failure]) -> Union[Batch, Failure]:
    """Collate nothing: a batch is made already."""
    return batch


class _Records:
    """The records of one batch as a source: under numbers made of their keys, and from 0."""

    def __init__(self, records: List[Record]):
        self._records: Dict[int, Record] = dict(enumerate(records))
        self._count = len(records)
        numbers = []
        for record in records:
            digest = hashlib.blake2b(encode(record.key), digest_size=8).digest()
            number = int.from_bytes(digest, "little") >> 2 | _BY_KEY
            while number in self._records:  # two samples of one key
                number += 1
            self._records[number] = record
            numbers.append(number)
        self.indices = np.array(numbers, dtype=np.int64)
        self.labels = np.array([record.label for record in records], dtype=np.int64)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Record:
        return self._records[index]

    def key(self, index: int) -> str:
        """Name one record."""
        return self._records[index].key
