"""Stops 7 and 8 of the line: host batch -> device batch, uint8 -> normalised float, on the device.

Batches cross as uint8: a quarter of the bytes of float32. Shapes: B batch, S image side. Images of
a user's own making, of another type or shape, cross as they are and stay so.
"""

from collections import deque
from typing import Deque, Iterable, Iterator, NamedTuple, Tuple

import torch

from train.data.batch import Batch
from train.data.plan import DEPTH

MEAN = (123.675, 116.28, 103.53)
STD = (58.395, 57.12, 57.375)
"""Mean and standard deviation of ImageNet's channels, in levels of 0 to 255: what torchvision's
published weights were trained with."""


class DeviceBatch(NamedTuple):
    """One batch where the model is.

    Attributes:
        images: float32 (B, 3, S, S), channels_last, normalised, on the device; or a user's own.
        labels: int64 (B,), on the device.
        host: what it was made from.
    """

    images: torch.Tensor
    labels: torch.Tensor
    host: Batch


def normalise(images: torch.Tensor) -> torch.Tensor:
    """uint8 (B, S, S, 3) -> float32 (B, 3, S, S) in channels_last.

    Zero mean and unit variance by channel.

    The permuted view of a (B, S, S, 3) tensor already is channels_last: nothing is moved. Anything
    else than uint8 (B, S, S, 3) is given back as it is.
    """
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[3] != 3:
        return images
    mean = torch.tensor(MEAN, device=images.device).view(1, 3, 1, 1)
    std = torch.tensor(STD, device=images.device).view(1, 3, 1, 1)
    return images.permute(0, 3, 1, 2).to(torch.float32).sub_(mean).div_(std)


class DevicePrefetcher:
    """Batches of a loader on a device, some of them ahead of the consumer.

    With CUDA the copies run on a stream of their own, beside the model's work. Two rules keep that
    right: the copy stream waits for the consumer's stream, so a block that the consumer has freed
    is not written while still being read; and blocks are recorded on both streams, so the allocator
    knows of both. A race of this kind was in the field's most copied prefetcher for years
    (https://github.com/huggingface/pytorch-image-models/pull/2784). A third one keeps the source
    right: a host batch is held until its copy is done, whatever the consumer does with it, so its
    slot in the ring is not written before.

    Args:
        loader: yields `Batch`; an empty one yields nothing here too.
        device: where to.
        depth: batches on their way.
    """

    def __init__(self, loader: Iterable[Batch], device: torch.device, depth: int = DEPTH):
        self.loader, self.device, self.depth = loader, device, depth
        # Made once: a stream an epoch would leave its cached memory behind each time.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._copied: Deque[Tuple[Batch, torch.cuda.Event]] = deque()

    def __iter__(self) -> Iterator[DeviceBatch]:
        if self._stream is None:
            for batch in self.loader:
                images, labels = batch.images.to(self.device), batch.labels.to(self.device)
                yield DeviceBatch(normalise(images), labels, batch)
            return
        yield from self._ahead(self._stream)

    def _ahead(self, stream: "torch.cuda.Stream") -> Iterator[DeviceBatch]:
        queue: Deque[Tuple[Batch, torch.Tensor, torch.Tensor, torch.cuda.Event]] = deque()
        batches = iter(self.loader)
        try:
            wanted = 1  # the first batch is handed out at once, then the queue fills
            while True:
                while len(queue) < wanted:
                    batch = next(batches, None)
                    if batch is None:
                        wanted = 0
                    else:
                        queue.append((batch, *self._copy(batch, stream)))
                if not queue:
                    return
                batch, images, labels, copied = queue.popleft()
                consumer = torch.cuda.current_stream(self.device)
                consumer.wait_event(copied)
                images.record_stream(consumer)
                labels.record_stream(consumer)
                self._copied.append((batch, copied))
                self._let_go(self.depth)
                yield DeviceBatch(normalise(images), labels, batch)
                wanted = min(wanted, 1) * self.depth
        finally:
            close = getattr(batches, "close", None)
            if close is not None:  # a consumer that leaves early ends the loader's pass as well
                close()
            self._copied.extend((batch, copied) for batch, _, _, copied in queue)
            self._let_go(0)

    def _let_go(self, most: int) -> None:
        """Let go of host batches that were copied; wait until no more than `most` are left."""
        while self._copied and (len(self._copied) > most or self._copied[0][1].query()):
            self._copied.popleft()[1].synchronize()

    def _copy(
        self, batch: Batch, stream: "torch.cuda.Stream"
    ) -> Tuple[torch.Tensor, torch.Tensor, "torch.cuda.Event"]:
        """Issue the copy; pinned source and non_blocking, or it would wait for the device."""
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            images = batch.images.to(self.device, non_blocking=True)
            labels = batch.labels.to(self.device, non_blocking=True)
            copied = stream.record_event()
        return images, labels, copied
