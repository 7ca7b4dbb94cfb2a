"""Data sets with a fault: waiting is made by sleeping, work by real work of the CPU."""

import fcntl
import io
import os
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from PIL import Image

from train.data.sources import Record

SIDE = 32
IMAGE = np.zeros((SIDE, SIDE, 3), np.uint8)


def burn(seconds):
    """Python code that takes so much CPU, however busy the machine is."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))


class Samples:
    """A data set of a user's own: small images and their labels."""

    def __init__(self, count=2000):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self._make(index), index % 10

    def _make(self, index):
        return IMAGE


class SlowRead(Samples):
    """Every sample waits for its storage."""

    def __init__(self, seconds, work_s=0.0):
        super().__init__()
        self.seconds, self.work_s = seconds, work_s

    def _make(self, index):
        time.sleep(self.seconds)
        burn(self.work_s)
        return IMAGE


class PythonDecode(Samples):
    """A format of the user's own, unpacked by Python code."""

    def _make(self, index):
        return self._unpack(index)

    def _unpack(self, index):
        burn(0.006)
        return IMAGE


class PillowDecode(Samples):
    """Large JPEGs, decoded by Pillow and scaled down without much care."""

    def __init__(self):
        super().__init__()
        self.data = photograph(900)

    def _make(self, index):
        image = Image.open(io.BytesIO(self.data)).convert("RGB")
        return np.asarray(image)[::28, ::28].copy()[:SIDE, :SIDE]


class Transformed(Samples):
    """A cheap sample and a transform, as torchvision's data sets have it."""

    def __init__(self, transform):
        super().__init__()
        self.transform = transform

    def _make(self, index):
        return self.transform(Image.fromarray(IMAGE))


class PythonAugment(Samples):
    """Augmentation written in Python."""

    def _make(self, index):
        return self._augment(IMAGE)

    def _augment(self, image):
        burn(0.006)
        return image[:, ::-1].copy()


def sharpen(image):
    """A transform that is a function."""
    burn(0.006)
    return np.asarray(image).copy()


class Locked(Samples):
    """One lock for all workers, held while a sample is made."""

    def __init__(self, lock):
        super().__init__()
        self.lock = lock

    def _make(self, index):
        with self.lock:
            burn(0.004)
        return IMAGE


class FileLocked(Samples):
    """The same by a lock of the file system."""

    def __init__(self):
        super().__init__()
        self.path = os.path.join(tempfile.gettempdir(), f"doctor-faults-{os.getpid()}.lock")
        self.file = None

    def _make(self, index):
        if self.file is None:
            self.file = open(self.path, "w")  # noqa: SIM115  it stays open
        fcntl.flock(self.file, fcntl.LOCK_EX)
        try:
            burn(0.004)
        finally:
            fcntl.flock(self.file, fcntl.LOCK_UN)
        return IMAGE


class PythonWork(Samples):
    """Python code, which threads can't run side by side."""

    def _make(self, index):
        burn(0.004)
        return IMAGE


class TorchThreads(Samples):
    """Work of PyTorch, with more threads than there are CPUs."""

    def __init__(self):
        super().__init__()
        self.matrix = np.ones((700, 700), np.float32)

    def _make(self, index):
        torch.set_num_threads(16)
        matrix = torch.from_numpy(self.matrix)
        matrix @ matrix
        return IMAGE


class PoolThreads(Samples):
    """A pool of threads in each worker."""

    def __init__(self):
        super().__init__()
        self.pool, self.data = None, os.urandom(60_000)

    def _make(self, index):
        if self.pool is None:
            self.pool = ThreadPoolExecutor(12)
        list(self.pool.map(zlib.compress, [self.data] * 12))
        return IMAGE


class MemorySource:
    """A source of our own line, in memory.

    Args:
        data: one encoded image.
        wait_s: seconds that each record takes to come.
        bytes_per_s: of its storage; None: as fast as memory.
    """

    def __init__(self, data, wait_s=0.0, bytes_per_s=None, count=2000):
        self.data, self.wait_s, self.bytes_per_s = data, wait_s, bytes_per_s
        self.labels = np.arange(count, dtype=np.int64) % 10

    def __len__(self):
        return len(self.labels)

    def key(self, index):
        """Its name."""
        return f"{index}.jpg"

    def __getitem__(self, index):
        wait_s = self.wait_s
        if self.bytes_per_s:
            wait_s += len(self.data) / self.bytes_per_s
        if wait_s:
            time.sleep(wait_s)
        return Record(self.data, int(self.labels[index]), self.key(index))


def photograph(side):
    """A JPEG with smooth parts and fine ones."""
    y, x = np.mgrid[0:side, 0:side]
    planes = [127 + 90 * np.sin(a * x + b * y) for a, b in ((0.05, 0.02), (0.01, 0.2), (0.3, 0.1))]
    noise = np.random.default_rng(0).normal(0, 12, (side, side, 3))
    pixels = np.clip(np.stack(planes, 2) + noise, 0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=92)
    return stream.getvalue()
