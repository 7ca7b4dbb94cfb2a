"""The random generators of Python, NumPy and PyTorch, for users' transforms that draw from them."""

import contextlib
import random
import threading
from typing import Iterator

import numpy as np
import torch

from train.data import augment
from train.data.sampler import BatchRequest


@contextlib.contextmanager
def seeded(seed: int, request: BatchRequest) -> Iterator[None]:
    """Seed Python's, NumPy's and PyTorch's generators by the batch, and put them back after.

    The seed is a function of (seed, epoch, batch).

    Our own line draws nothing from them. A transform of yours that does gets the same numbers
    whichever worker runs it, other numbers in every epoch and on every rank, and leaves the model's
    numbers alone. Threads other than the main one leave the generators alone: all threads share
    them, so what one of them seeds another would draw.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first = request.indices[:1] if len(request.indices) else np.zeros(1, dtype=np.int64)
    number = int(augment.uniform(seed, request.epoch, first, 1)[0, 0] * 2**32)
    saved = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(number)
    np.random.seed(number)
    # The CPU's alone: torch.manual_seed would seed the GPUs too, and they could not be put back.
    torch.default_generator.manual_seed(number)
    try:
        yield
    finally:
        random.setstate(saved[0])
        np.random.set_state(saved[1])
        torch.set_rng_state(saved[2])
