"""The figures of the articles, and why ours are other ones: beside ours in table and plot."""

BUSY = (0.40, 0.85)
"""GPU use with num_workers=0, and tuned, as they read it from nvidia-smi."""

EPOCH_S = (128.0, 78.0)
"""Seconds an epoch of the same."""

THEIRS = (
    "The articles claim for ResNet-50 on an A100 with an NVMe disk, the data set not named: "
    "GPU use 40 % -> 85 %, an epoch 128 s -> 78 s."
)

DO_NOT_FIT = (
    "Their figures don't fit together: 0.40 x 128 s are 51 busy seconds, 0.85 x 78 s are 66, for "
    "the same work."
)

WHY_EVENTS = (
    "Theirs are nvidia-smi's, which says how much of the time some kernel ran, however small. "
    "Busy means here: the share of the time in which the device had a batch to work on, by CUDA "
    "events, or by the clock of a simulated device."
)

TIMER = (
    "The articles' own measure: torch.utils.benchmark.Timer on next(iter(loader)). Each call makes "
    "a new iterator, so with workers it times their start and the filling of their queues, not "
    "the speed of the loader."
)
