"""WebDataset shards read from front to back: for shards on a server, and compressed ones.

Shards on a disk are better opened by `open_tar`, which shuffles exactly. Here the order is that of
shuffled shards and a buffer of samples, and it depends on how many workers share the shards.
"""

import random
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

import numpy as np

from train.data import augment
from train.data.batch import Bad
from train.data.sources import Record
from train.data.sources.names import encode
from train.data.sources.pickles import unpickle
from train.data.sources.remote import expand, open_stream
from train.data.sources.tar_members import Member
from train.data.sources.tar_samples import KNOWN, Sample, complete, refusal, split_name, take
from train.errors import BadSample, DataError

NO_INDEX = -1
"""`Bad.sample` of a streamed sample: it has a key and no number."""


class Stream:
    """Samples of shards, one after the other. It pickles, and reads anew at every call.

    Args:
        addresses: of the shards, see `remote.expand`.
        seed: of the run.
        buffer: samples held back to be mixed; 0: in the order of the shards.
        num_classes: how many classes there are; None: not known.
        trust: unpickle, and run `pipe:` addresses.
        timeout_s: longest silence of a server.

    Raises:
        ConfigError: an address that is not allowed.
    """

    def __init__(
        self,
        addresses: Union[str, Sequence[str]],
        seed: int = 0,
        buffer: int = 1000,
        num_classes: Optional[int] = None,
        trust: bool = False,
        timeout_s: float = 60,
    ):
        self.shards = expand(addresses, trust)
        self.seed = seed
        self.buffer = buffer
        self.num_classes = num_classes
        self.trust = trust
        self.timeout_s = timeout_s

    def read(self, epoch: int = 0, part: int = 0, parts: int = 1) -> Iterator[Union[Record, Bad]]:
        """Read one part of the shards.

        Args:
            epoch: the pass; it decides the order.
            part: which part, from 0.
            parts: among how many readers (ranks x workers) the shards are dealt out.

        Yields:
            Samples, and `Bad` for what could not be used: a sample, or the rest of a shard.

        Raises:
            DataError: not one of the shards of this part can be opened.
        """
        order = np.arange(len(self.shards))
        if self.buffer:
            draws = augment.uniform(self.seed, epoch, order, 1)[:, 0]
            order = np.argsort(draws, kind="stable")
        items = self._items([self.shards[index] for index in order[part::parts].tolist()])
        if not self.buffer:
            return items
        return mixed(items, self.buffer, random.Random(f"{self.seed}/{epoch}/{part}/{parts}"))

    def _items(self, shards: List[str]) -> Iterator[Union[Record, Bad]]:
        reading = _Reading(shards, self.timeout_s)
        for group in reading.groups():
            yield from reading.take_problems()
            yield from self._samples(group)
        yield from reading.take_problems()
        if shards and not reading.opened:
            raise DataError(
                f"none of the {len(shards)} shards can be read; the first: {reading.first_problem}"
            )

    def _samples(self, group: Dict[str, Any]) -> Iterator[Union[Record, Bad]]:
        """The samples under one of WebDataset's keys: one, or several where keys have dots."""
        prefix = group["__key__"]
        values: List[bytes] = []
        samples: Dict[str, Sample] = {}
        for ending, data in group.items():
            stem, known, dotted = split_name(f"{prefix}.{ending}")
            if ending.startswith("__") or known not in KNOWN:
                continue
            member = Member(b"", "file", len(values), len(data))
            values.append(data)
            sample = samples.setdefault(stem, Sample(dotted))
            again = take(sample, member, known, lambda at, size: values[at][:size], self.trust)
            if again:
                yield Bad(NO_INDEX, stem, again)
        for key, sample, problem in complete(samples):
            if problem is not None:
                yield Bad(NO_INDEX, key, problem[1])
                continue
            at, _, pickled = sample.image  # type: ignore[misc]
            yield self._record(key, values[at], pickled, sample.label)

    def _record(self, key: str, data: Any, pickled: bool, label: Any) -> Union[Record, Bad]:
        if label < 0 or (self.num_classes is not None and label >= self.num_classes):
            limit = "0 or more" if self.num_classes is None else f"0 to {self.num_classes - 1}"
            return Bad(NO_INDEX, key, f"class {label}, expected {limit}")
        try:
            return Record(unpickle(data)[0] if pickled else data, label, key)
        except BadSample as error:
            return Bad(NO_INDEX, key, str(error))


class _Reading:
    """One pass over some shards, through webdataset's tar reader."""

    def __init__(self, shards: List[str], timeout_s: float):
        self._shards, self._timeout = shards, timeout_s
        self._address = ""
        self._problems: List[Bad] = []
        self.first_problem = ""
        self.opened = 0

    def groups(self) -> Iterator[Dict[str, Any]]:
        """Samples as webdataset gives them: `__key__`, and bytes by ending."""
        from webdataset.tariterators import group_by_keys, tar_file_expander

        files = tar_file_expander(self._streams(), self._note, _is_wanted)
        return group_by_keys(files, lcase=False, handler=self._note)

    def take_problems(self) -> List[Bad]:
        """What went wrong since the last call."""
        problems, self._problems = self._problems, []
        return problems

    def _streams(self) -> Iterator[Dict[str, Any]]:
        for address in self._shards:
            self._address = address
            try:
                stream = open_stream(address, self._timeout)
            except (OSError, ValueError) as error:
                self._note(error)
                continue
            self.opened += 1
            try:
                yield {"url": address, "stream": stream}
            finally:
                stream.close()

    def _note(self, error: Exception) -> bool:
        """The handler of webdataset's readers: True means to go on with the next file or shard."""
        reason = error.strerror if isinstance(error, OSError) else None
        text = str(reason or (error.args[0] if error.args else type(error).__name__))
        self._problems.append(Bad(NO_INDEX, self._address, text.split(" @ <")[0]))
        self.first_problem = self.first_problem or f"{self._address!r}: {text}"
        return True


def mixed(
    items: Iterator[Union[Record, Bad]], size: int, draw: random.Random
) -> Iterator[Union[Record, Bad]]:
    """Hold back `size` records and give them out in random order; what is bad passes at once."""
    held: List[Record] = []
    for item in items:
        if isinstance(item, Bad):
            yield item
        elif len(held) < size:
            held.append(item)
        else:
            at = int(draw.random() * size)
            yield held[at]
            held[at] = item
    while held:
        at = int(draw.random() * len(held))
        held[at], held[-1] = held[-1], held[at]
        yield held.pop()


def _is_wanted(name: str) -> bool:
    return refusal(name, Member(encode(name), "file", 0, 0)) is None
