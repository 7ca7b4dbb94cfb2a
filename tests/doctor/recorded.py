"""Recorded measurements, changed a little for each test."""

import dataclasses

from train.doctor.measurements import Item, Measurements, Run, Stages


def run(images_per_s, accelerator=1000.0, **more):
    """A run beside an accelerator of some speed: what it lacks, it waits for."""
    return Run(images_per_s, max(0.0, 1 - images_per_s / accelerator), **more)


HEALTHY = Measurements(
    accelerator="simulated, 1,000 images/s",
    images=10_000,
    batch_size=64,
    workers=2,
    prefetch=4,
    workers_kind="process",
    cpus=4,
    own=False,
    synthetic=run(1000),
    copied=run(1000),
    cached=run(1000),
    warm=run(1000, cores=1.5),
    alone=Item(0.0012, 0.0011, items=500),
    stages=Stages(read_s=0.00005, decode_s=0.0009, augment_s=0.0001),
    batch_bytes=64 * 224 * 224 * 3,
    record_bytes=100_000.0,
    data_bytes=1_000_000_000,
    memory_bytes=16_000_000_000,
)
"""Our own line, fast enough for its accelerator."""


def like(measured, **changes):
    return dataclasses.replace(measured, **changes)


def own(measured=HEALTHY, **changes):
    """A user's own data set, of which no file is known."""
    return like(measured, own=True, record_bytes=None, data_bytes=None, **changes)


SLOW = like(HEALTHY, warm=run(200, cores=1.9))
"""Making samples is the limit; `alone` and `stages` say why."""

FAULTS = {
    "model": HEALTHY,
    "disk": like(HEALTHY, cold=run(150), data_bytes=60_000_000_000),
    "decode": SLOW,
    "augment": like(SLOW, stages=Stages(0.00005, 0.0002, 0.002)),
    "transport": like(HEALTHY, cached=run(300), warm=run(280)),
    "copy": like(HEALTHY, copied=run(250), cached=run(245), warm=run(240)),
    "lock": own(
        like(SLOW, workers=4, side_by_side=4),
        alone=Item(0.004, 0.004, items=200),
        together=Item(0.016, 0.004, 0.0, 0.0, 0.012, 200, "data.py:9: with self.lock:", 0.9),
    ),
    "batches": like(
        HEALTHY, batch_size=2, warm=run(200), cached=run(210), large=run(900), large_batch=32
    ),
    "threads": own(SLOW, alone=Item(0.004, 0.001, helper_s=0.007, items=200)),
    "noise": like(HEALTHY, accelerator="CPU", synthetic=run(38), cached=run(45), warm=run(47)),
}
"""One pipeline for every verdict there is."""
