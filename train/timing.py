"""How long a device waited for data, measured and not guessed.

On the CPU: the time in which the loop stood still for a batch. With CUDA the host runs ahead, so
its clock says little; there each batch is framed by two events on the compute stream, and the gap
between the end of one batch's work and the start of the next one's is the time that the device had
nothing to do.
"""

import time
from collections import deque
from typing import Any, Callable, Deque, Iterable, Iterator, NamedTuple, Optional, Tuple, TypeVar

import torch

T = TypeVar("T")
_DRAIN_AT = 1000  # event pairs kept before the oldest, long finished, are read


class Timing(NamedTuple):
    """One pass over a loader.

    Attributes:
        total_s: from the first request for a batch to the end of the last batch's work.
        wait_s: the part of it in which the device had no batch.
        first_batch_s: until the first batch was there, on the host.
    """

    total_s: float
    wait_s: float
    first_batch_s: float

    @property
    def wait_share(self) -> float:
        """wait_s / total_s, 0 for an empty pass."""
        return self.wait_s / self.total_s if self.total_s > 0 else 0.0


class WaitClock:
    """Frames each batch's work.

    ```
    clock = WaitClock(device)
    for batch in clock.batches(loader):
        ...                      # forward, backward, step
        clock.computed()
    timing = clock.finish()
    ```

    Args:
        device: where the work is done.
    """

    def __init__(self, device: torch.device):
        self.cuda = device.type == "cuda"
        self.wait_s = 0.0
        self.first_batch_s = 0.0
        self._begin = time.perf_counter()
        self._count = 0
        self._gaps: Deque[Tuple[Any, Any]] = deque()
        self._last_end: Any = None

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """The same batches, timed."""
        iterator = iter(loader)
        while True:
            asked = time.perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            now = time.perf_counter()
            if self._count == 0:
                self.first_batch_s = now - self._begin
                self.wait_s += self.first_batch_s  # nothing was there to do, on either device
            elif self.cuda:
                self._gaps.append((self._last_end, _event()))
                while len(self._gaps) > _DRAIN_AT:
                    self._drain_one()
            else:
                self.wait_s += now - asked
            self._count += 1
            yield batch

    def computed(self) -> None:
        """Call after the batch's work was issued."""
        if self.cuda:
            self._last_end = _event()

    def finish(self) -> Timing:
        """Wait for the device and sum up."""
        if self.cuda:
            torch.cuda.synchronize()
            while self._gaps:
                self._drain_one()
        return Timing(time.perf_counter() - self._begin, self.wait_s, self.first_batch_s)

    def _drain_one(self) -> None:
        end, start = self._gaps.popleft()
        if end is None:
            return
        start.synchronize()
        self.wait_s += end.elapsed_time(start) / 1000.0


class UtilisationMean:
    """Mean of a reading that is taken now and then, None when there never was one.

    Args:
        read: gives percent or None (`machine.GpuUtilisation.read`).
        every_s: least time between two readings; the driver averages over about as long.
    """

    def __init__(self, read: Callable[[], Optional[float]], every_s: float = 1.0):
        self._read, self._every_s = read, every_s
        self._next, self._sum, self._count = 0.0, 0.0, 0

    def sample(self) -> None:
        """Take a reading when it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every_s
        value = self._read()
        if value is not None:
            self._sum, self._count = self._sum + value, self._count + 1

    def mean(self) -> Optional[float]:
        """The mean since the last call, percent."""
        value = self._sum / self._count if self._count else None
        self._sum, self._count = 0.0, 0
        return value


def _event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
