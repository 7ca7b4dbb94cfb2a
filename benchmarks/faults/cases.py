"""Twenty pipelines of eight kinds of trouble, and the accelerator that each feeds."""

import multiprocessing

import numpy as np
from torchvision import transforms

from faults.data_sets import (
    FileLocked,
    Locked,
    MemorySource,
    PillowDecode,
    PoolThreads,
    PythonAugment,
    PythonDecode,
    PythonWork,
    Samples,
    SlowRead,
    TorchThreads,
    Transformed,
    photograph,
    sharpen,
)


def case(fault, name, make, speed, workers=2, batch=32, kind="process", own=True):
    return {
        "fault": fault,
        "name": name,
        "make": make,
        "speed": speed,
        "workers": workers,
        "batch": batch,
        "kind": kind,
        "own": own,
    }


BLUR = transforms.Compose([transforms.Resize(192), transforms.GaussianBlur(31), np.array])

CASES = [
    case("disk", "own: 10 ms a read", lambda: SlowRead(0.010), 1500),
    case("disk", "own: 25 ms a read, 1 ms work", lambda: SlowRead(0.025, 0.001), 1500, 1),
    case(
        "disk",
        "line: 15 ms a record",
        lambda: MemorySource(photograph(64), 0.015),
        1500,
        own=False,
    ),
    case(
        "disk",
        "line: 0.3 MB/s",
        lambda: MemorySource(photograph(64), bytes_per_s=0.3e6),
        1500,
        own=False,
    ),
    case("decode", "own: Python code", PythonDecode, 2000),
    case("decode", "own: Pillow, 900 px", PillowDecode, 2000),
    case(
        "decode",
        "line: 1,400 px",
        lambda: MemorySource(photograph(1400)),
        3000,
        1,
        own=False,
    ),
    case("augment", "own: torchvision", lambda: Transformed(BLUR), 2000),
    case("augment", "own: Python code", PythonAugment, 2000),
    case("augment", "own: a function", lambda: Transformed(sharpen), 2000, 1),
    case("lock", "own: multiprocessing.Lock", lambda: Locked(multiprocessing.Lock()), 2000, 8),
    case("lock", "own: flock", FileLocked, 2000, 8),
    case("lock", "own: Python in threads", PythonWork, 2000, 8, kind="thread"),
    case("batches", "own: batches of 1", Samples, 50_000, 1, batch=1),
    case("batches", "own: batches of 2, threads", Samples, 200_000, 1, batch=2, kind="thread"),
    case("threads", "own: PyTorch, 16 threads", TorchThreads, 20_000),
    case("threads", "own: a pool of 12", PoolThreads, 20_000),
    case("model", "own: a slow model", Samples, 30, batch=4),
    case(
        "model",
        "line: a slow model",
        lambda: MemorySource(photograph(64)),
        40,
        batch=4,
        own=False,
    ),
    case("model", "own: nothing", lambda: SlowRead(0.0005), 150, batch=16),
]
