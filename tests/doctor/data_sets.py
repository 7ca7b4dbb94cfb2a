"""Data sets of a user's own: a sound one, and one for each fault."""

import multiprocessing
import os
import random
import threading
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset


class Sound(Dataset):
    """Random pictures by the seeded generators, a cheap transform, nothing kept."""

    def __init__(self, count=40):
        self.labels = np.arange(count) % 3
        self.file = None

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        if self.file is None:
            self.file = object()  # opened at first use
        image = np.full((8, 8, 3), index, np.uint8)
        if np.random.random() < 0.5:
            image = image[:, ::-1].copy()
        return image + np.uint8(np.random.randint(50)), int(self.labels[index])


class Changed(Sound):
    """Any other way to make a sample.

    Args:
        sample: function of (the data set, index).
        more: attributes.
    """

    def __init__(self, sample, count=40, **more):
        super().__init__(count)
        self.sample = sample
        vars(self).update(more)

    def __getitem__(self, index):
        return self.sample(self, index)


def image(index=0):
    return np.full((8, 8, 3), index, np.uint8)


def sound():
    return Sound()


def without_length():
    return type("Endless", (Sound,), {"__len__": lambda self: _raise(NotImplementedError())})()


def negative_length():
    return type("Negative", (Sound,), {"__len__": lambda self: -3})()


class Mute(Exception):
    """An error whose message can't be made."""

    def __str__(self):
        raise RuntimeError


def _raise(error):
    raise error


def exits():
    raise SystemExit(0)


def leaves_at_once():
    os._exit(0)


def keeps_a_thread():
    threading.Thread(target=time.sleep, args=(120,), name="reader").start()
    raise ValueError("and does not end it")


def has_no_message():
    raise Mute


def paints():
    raise ValueError("two\nlines\x1b[2J")


def one_odd_sample():
    return Changed(lambda self, i: (image() if i != 33 else np.zeros((9, 8, 3), np.uint8), 1))


def one_sample_raises():
    return Changed(lambda self, i: (image(), 1) if i != 33 else _raise(OSError("torn\nfile")))


def labels_beyond_all():
    return Changed(lambda self, i: (np.zeros((32, 32, 3), np.uint8), 10**12))


def looks_up_what_raises():
    return type("Deep", (Sound,), {"__getattr__": lambda self, name: _raise(RuntimeError(name))})()


def subset():
    return Subset(Sound(), list(range(30)))


def slow():
    def sample(data, index):
        time.sleep(0.004)
        return image(index), 0

    return Changed(sample)


def locked():
    def sample(data, index):
        with data.lock:
            time.sleep(0.001)
        return image(index), 0

    return Changed(sample, lock=multiprocessing.Lock())


def own_generator():
    def sample(data, index):
        return image(data.generator.integers(200)), 0

    return Changed(sample, generator=np.random.default_rng(0))


def generator_of_python():
    def sample(data, index):
        return image(data.generator.randrange(200)), 0

    return Changed(sample, generator=random.Random(0))


def growing():
    def sample(data, index):
        data.cache[len(data.cache)] = image(index).tobytes()
        return image(index), 0

    return Changed(sample, cache={})


def counting():
    def sample(data, index):
        data.calls += 1
        return image(data.calls % 200), 0

    return Changed(sample, calls=0)


def threads_of_torch():
    def sample(data, index):
        torch.set_num_threads(4)
        return image(index), 0

    return Changed(sample)


def on_cuda():
    def sample(data, index):
        return torch.ones(3, 8, 8).cuda(), 0

    return Changed(sample)


def asks_cuda():
    def sample(data, index):
        try:
            torch.ones(3).cuda()
        except (AssertionError, RuntimeError):
            pass
        return image(index), 0

    return Changed(sample)


def raising():
    def sample(data, index):
        raise ValueError("no such picture")

    return Changed(sample)


def dying():
    def sample(data, index):
        import os

        os._exit(3)

    return Changed(sample)


def three_parts():
    return Changed(lambda data, index: (image(index), 0, 1))


def uneven():
    return Changed(lambda data, index: (np.zeros((8, 8 + index % 5, 3), np.uint8), 0))


def words():
    return Changed(lambda data, index: ("a picture", 0))


def vectors():
    return Changed(lambda data, index: (np.zeros(5, np.float32), 0))


def doubles():
    return Changed(lambda data, index: (np.zeros((3, 8, 8)), 0))


class Stream(IterableDataset):
    def __iter__(self):
        yield from ()


def a_loader():
    return DataLoader(Sound())


def a_tuple():
    return Sound(), Sound()


def stream():
    return Stream()


def empty():
    return Sound(0)


def a_number():
    return 7


def broken():
    raise OSError("no such disk")


not_a_function = 3
