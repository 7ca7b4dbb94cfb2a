"""A device that is not there: it takes a fixed time an image and a fixed time a byte copied.

As with CUDA the host only issues work and runs ahead of it, copies go their own way beside the
work, and a batch's work begins when the batch is there and the batch before is done. All that is
arithmetic on the clock; the host sleeps where a real one would wait. So a loader can be judged on a
machine without a GPU, beside a device of any speed, and the device takes no CPU from the loader.
"""

import time
from collections import deque
from typing import Any, Deque, Iterable, Iterator, Tuple

from train.data.batch import Batch
from train.data.plan import DEPTH
from train.data.prefetch import DeviceBatch
from train.timing import Timing

COPY_BYTES_PER_S = 12e9
"""From page-locked memory: what PCIe 3.0 x16 gives of its 15.75 GB/s in practice."""

PAGEABLE_BYTES_PER_S = 4e9
"""From ordinary memory, where the driver copies to a page-locked buffer first; a third, as the
articles have it ("2 to 3 times faster copy")."""

AHEAD = DEPTH
"""Steps that the host may be ahead of the device before it waits."""


class SimulatedDevice:
    """The device's own timeline, in seconds of `time.perf_counter`.

    Args:
        images_per_s: speed of its work.
        now, sleep: the clock, for tests.

    Attributes:
        wait_s: time in which it had nothing to do, since its first batch.
        busy_s: time in which it worked.
        free_at: when all its work is done.
    """

    def __init__(self, images_per_s: float, now: Any = time.perf_counter, sleep: Any = time.sleep):
        self.images_per_s, self._now, self._sleep = images_per_s, now, sleep
        self.wait_s = self.busy_s = 0.0
        self.free_at = 0.0
        self._copied_at = self._copies_free_at = 0.0
        self._ends: Deque[float] = deque()

    def now(self) -> float:
        """Seconds on the clock."""
        return float(self._now())

    def copies(self, loader: Iterable[Batch], ahead: bool) -> Iterator[DeviceBatch]:
        """Copy each batch; from page-locked memory and beside the work, or one at a time.

        A host batch is held until its copy is done, and no longer.
        """
        held: Deque[Tuple[float, Batch]] = deque()
        for batch in loader:
            speed = COPY_BYTES_PER_S if ahead else PAGEABLE_BYTES_PER_S
            begin = max(self.now(), self._copies_free_at)
            done = begin + batch.images.nbytes / speed
            self._copied_at = self._copies_free_at = done
            if ahead:
                held.append((done, batch))
                while held and held[0][0] <= self.now():
                    held.popleft()
            else:
                self._sleep_until(done)
            yield DeviceBatch(batch.images, batch.labels, batch)

    def step(self, images: int) -> None:
        """Issue the work of the batch that was copied last."""
        begin = max(self.now(), self._copied_at, self.free_at)
        if self.free_at > 0.0:
            self.wait_s += begin - self.free_at
        busy = images / self.images_per_s
        self.busy_s += busy
        self.free_at = begin + busy
        self._ends.append(self.free_at)
        while len(self._ends) > AHEAD:
            self._sleep_until(self._ends.popleft())

    def finish(self) -> None:
        """Wait until all work is done."""
        self._ends.clear()
        self._sleep_until(self.free_at)

    def _sleep_until(self, when: float) -> None:
        left = when - self.now()
        if left > 0:
            self._sleep(left)


class SimulatedClock:
    """As `train.timing.WaitClock`, by the device's own timeline."""

    def __init__(self, device: SimulatedDevice):
        self._device = device
        self._begin = device.now()
        self._first_work = max(self._begin, device.free_at)
        # The wait that goes on now is counted when it ends; what lies before is not ours.
        before = self._begin - device.free_at if device.free_at > 0.0 else 0.0
        self._wait_s = device.wait_s + max(0.0, before)
        self.first_batch_s = 0.0
        self._count = 0

    @property
    def wait_s(self) -> float:
        """Seconds in which the device had nothing to do since this clock was made."""
        return self._device.wait_s - self._wait_s

    def batches(self, stream: Iterable[DeviceBatch]) -> Iterator[DeviceBatch]:
        """The same batches, timed."""
        for batch in stream:
            if self._count == 0:
                self.first_batch_s = self._device.now() - self._begin
                if self._device.free_at == 0.0:  # the device waits for its very first batch too
                    self._device.free_at = self._begin
            self._count += 1
            yield batch

    def computed(self) -> None:
        """The batch's work was issued; nothing to note here."""

    def finish(self) -> Timing:
        """Wait for the device and sum up."""
        self._device.finish()
        end = max(self._device.free_at, self._first_work)
        return Timing(end - self._first_work, self.wait_s, self.first_batch_s)
