"""What consumes the batches: the CPU, a CUDA device, or a simulated one of a fixed speed.

`train bench`, `tune` and `doctor` judge a loader by how long its consumer waits for it. Each
accelerator answers to the same five words:

```
for batch in clock.batches(accelerator.take(loader)):   on the device, or on its way there
    accelerator.step(batch)                             issue the work of one step
    clock.computed()
timing = clock.finish()                                 clock = accelerator.clock()
```

A model is trained for real, on weights that are thrown away.
"""

from typing import Iterable, Iterator, Union

import torch
import torch.nn.functional as F

from train.data.batch import NO_LABEL, Batch
from train.data.prefetch import DeviceBatch, DevicePrefetcher
from train.precision import Precision
from train.simulated import SimulatedClock, SimulatedDevice
from train.timing import WaitClock


class ModelAccelerator:
    """A real device and a real model, freshly made; its training is thrown away.

    Make it after the loader's workers have started, where they are forked.

    Args:
        device: cpu or cuda.
        model: name of a classifier of torchvision.
        classes: outputs of its last layer.
        precision: as the run has it; its scaler is not used.
        label_smoothing: as the run has it.

    Attributes:
        name: for people.
        device: where batches go.
    """

    def __init__(
        self,
        device: torch.device,
        model: str,
        classes: int,
        precision: Precision,
        label_smoothing: float = 0.1,
    ):
        # Late: it imports torchvision, three seconds that a simulated device does without.
        from train.model import build_model, build_optimizer

        self.device, self.precision, self.label_smoothing = device, precision, label_smoothing
        self.name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        with torch.random.fork_rng(devices=[]):  # what follows draws what it would have drawn
            made = build_model(model, classes).train()
        self.model = made.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = build_optimizer(self.model, 1e-4)
        for group in self.optimizer.param_groups:
            group["lr"] = 1e-4  # whatever the data: numbers stay numbers

    def clock(self) -> WaitClock:
        """A clock for the batches from here on."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return WaitClock(self.device)

    def take(self, loader: Iterable[Batch], ahead: bool = True) -> Iterator[DeviceBatch]:
        """The loader's batches where the model is.

        Args:
            loader: gives `Batch`.
            ahead: copied on a stream of their own, some of them in advance, as in training; False:
                one at a time when it is asked for, as a plain loop does it.
        """
        if ahead:
            return iter(DevicePrefetcher(loader, self.device))
        return self._one_by_one(loader)

    def _one_by_one(self, loader: Iterable[Batch]) -> Iterator[DeviceBatch]:
        for batch in loader:
            images, labels = batch.images.to(self.device), batch.labels.to(self.device)
            yield DeviceBatch(images, labels, batch)

    def step(self, batch: DeviceBatch) -> None:
        """Forward, backward and optimizer step of one batch."""
        with self.precision.autocast(self.device):
            logits = self.model(batch.images)
            loss = F.cross_entropy(
                logits, batch.labels, ignore_index=NO_LABEL, label_smoothing=self.label_smoothing
            )
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class SimulatedAccelerator:
    """A device that takes a fixed time an image, and costs no CPU: as a GPU would.

    Args:
        images_per_s: its speed.

    Attributes:
        name: for people.
        device: where batches stay: the CPU.
    """

    def __init__(self, images_per_s: float):
        self.images_per_s = images_per_s
        self.name = f"simulated, {images_per_s:,.0f} images/s"
        self.device = torch.device("cpu")
        self._simulated = SimulatedDevice(images_per_s)

    def clock(self) -> SimulatedClock:
        """A clock for the batches from here on."""
        return SimulatedClock(self._simulated)

    def take(self, loader: Iterable[Batch], ahead: bool = True) -> Iterator[DeviceBatch]:
        """The loader's batches, copied as `ModelAccelerator.take` does it."""
        return self._simulated.copies(loader, ahead)

    def step(self, batch: DeviceBatch) -> None:
        """Issue the work of one batch; the host waits when it is too far ahead."""
        self._simulated.step(len(batch.labels))


Accelerator = Union[ModelAccelerator, SimulatedAccelerator]
