"""The loader for a training loop of your own: pairs (images, labels) on the device.

Stops 6 to 8 of the line in one object. Shapes: B batch, S image side.
"""

import logging
from typing import Dict, Iterator, Optional, Sequence, Tuple

import torch

from train.data.batch import NO_LABEL, Bad
from train.data.ledger import Ledger
from train.data.loader import Loader
from train.data.plan import LoaderSettings
from train.data.prefetch import DevicePrefetcher, normalise
from train.errors import DataError

log = logging.getLogger("train.data")


class DeviceLoader:
    """Batches of a data set on a device, one epoch per `for`.

    ```
    for images, labels in loader: ...
    ```

    images: float32 (B, 3, S, S), channels_last, normalised by ImageNet's mean and deviation; what a
    data set of your own gives as samples comes as it is. labels: int64 (B,), -1 for what counts
    nowhere: `cross_entropy(..., ignore_index=-1)`.

    In evaluation on several ranks each gets as many batches: where images have run out, one whose
    only label is -1. So a mean over batches is weighed by `(labels >= 0).sum()`.

    Each `for` is one epoch from its beginning, with an order of its own in training, and leaving it
    early ends it. After `load_state_dict` the first one goes on where that state was taken. Workers
    live through all epochs.

    Args:
        host: makes the batches.
        device: where to; its workers start before CUDA does.
        settings: of `host`, each with its reason.
        classes: names; empty where nobody knows them.
        bad_budget: share of the samples that may be bad.
        how: how the images are made, for people.

    Attributes:
        host, settings, classes: as given. `host` alone gives `Batch`: uint8 (B, S, S, 3), in the
            host's memory.
    """

    def __init__(
        self,
        host: Loader,
        device: str,
        settings: LoaderSettings,
        classes: Sequence[str] = (),
        bad_budget: float = 0.001,
        how: str = "",
    ):
        self.host, self.settings, self.classes = host, settings, tuple(classes)
        self.how = how
        self._asked = device
        self._prefetcher: Optional[DevicePrefetcher] = None
        self._ledger = Ledger(None, host.sampler.num_samples, bad_budget)
        self._next = self._at = (0, 0)

    @property
    def device(self) -> torch.device:
        """Where the batches come."""
        if self._asked == "cuda":
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device(self._asked)

    @property
    def epoch(self) -> int:
        """The epoch of the last batch that was handed out."""
        return self._at[0]

    def __len__(self) -> int:
        """Batches of a whole epoch, the same number on every rank."""
        return self.host.sampler.rounds()

    def __iter__(self) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
        self._at = self._next
        self.host.load_state_dict(self._state(self._next))
        self._next = (self._next[0] + 1, 0)  # however this one ends
        if self.host.epochs is None or self._at[0] < self.host.epochs:
            self.host.start()
            if self._prefetcher is None:
                self._prefetcher = DevicePrefetcher(self.host, self.device)
            rounds = self._rounds_left(self._at[1])
            for images, labels, batch in self._prefetcher:
                self._at = (batch.epoch, batch.samples_seen)
                self._note(batch.bad)
                del batch  # its slot is free when the consumer is done with it
                rounds -= 1
                yield images, labels
            for _ in range(rounds):
                yield self._nothing()

    def state_dict(self) -> Dict[str, int]:
        """Where the consumer stands: `{seed, epoch, samples_seen}`; batches ahead don't count."""
        if self._at[1] and not self.host.sampler.batch_sizes(self._at[1]):
            return self._state((self._at[0] + 1, 0))
        return self._state(self._at)

    def load_state_dict(self, state: Dict[str, int]) -> None:
        """Go on from a state, in O(1), with any number of workers and ranks.

        Raises:
            DataError: it is no such state, or of another seed.
        """
        try:
            self.host.load_state_dict(state)
            self._next = self._at = (int(state["epoch"]), int(state["samples_seen"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{state!r} is no state of a loader ({type(error).__name__}: {error}); expected "
                "what its state_dict() gave"
            ) from None

    def set_epoch(self, epoch: int) -> None:
        """Make the next `for` that epoch; not needed, since each one is the next by itself."""
        if epoch != self._next[0]:
            self._next = self._at = (epoch, 0)

    def start(self) -> None:
        """Start the workers now, before threads and CUDA exist."""
        self.host.load_state_dict(self._state(self._next))
        self.host.start()

    def close(self) -> None:
        """Stop the workers; batches that are in use stay valid."""
        self.host.close()

    def __repr__(self) -> str:
        sampler, lines = self.host.sampler, []
        ranks = f", rank {sampler.rank} of {sampler.world_size}" if sampler.world_size > 1 else ""
        lines.append(f"{sampler.num_samples} images in {len(self)} batches an epoch{ranks}")
        lines.append(f"images    {self.how}")
        for setting in self.settings.reasons:
            lines.append(f"{setting.name:<19} {setting.value!s:<8} {setting.reason}")
        return "\n".join(lines)

    def _state(self, place: Tuple[int, int]) -> Dict[str, int]:
        return self.host.sampler.state(*place)

    def _rounds_left(self, samples_seen: int) -> int:
        """Batches of the rank that has most of them left, where whole batches are dealt out."""
        sampler = self.host.sampler
        left = len(sampler.global_batch_sizes(samples_seen))
        return -(-left // sampler.world_size) if sampler.whole_batches else left

    def _nothing(self) -> Tuple[torch.Tensor, torch.Tensor]:
        """A batch of one that counts nowhere: this rank has had its last one, and others not yet.

        A model under DistributedDataParallel meets the other ranks in each forward, in evaluation
        too (it shares its buffers), so all must take as many steps.
        """
        batch = self.host.dataset[0]
        images = normalise(torch.as_tensor(batch.images).to(self.device))
        return images, torch.full((1,), NO_LABEL, dtype=torch.int64, device=self.device)

    def _note(self, bad: Sequence[Bad]) -> None:
        """Bad samples never end a run by themselves and never pass silently."""
        for item in bad:
            if self._ledger.add("data", [item], self.host.sampler.rank):
                log.warning("bad sample %s: %s", ascii(item.key), item.reason)
