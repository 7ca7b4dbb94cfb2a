"""What reading samples does to a data set and to its worker. To be run in a child process.

`dynamic_checks.py` judges it.
"""

import hashlib
import os
import pickle
import sys
import threading
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import torch

from train.data.generators import seeded
from train.data.sampler import BatchRequest

SAMPLES = 6
"""Read for the checks, twice each."""

HASHED_BYTES = 64 << 20
"""Attributes whose pickle is larger are not compared: it would take long."""


class Observed(NamedTuple):
    """What one worker saw.

    Attributes:
        first, second: hashes of the same sample, read twice in a row.
        repeated: hashes of samples read twice under the same seed, in pairs.
        changed: attributes that changed by reading, after the first sample.
        generators: those of them that hold a random generator.
        grown_bytes: by how much their pickles grew, for each sample.
        cv2_threads, torch_threads: after reading; 1 is what a worker is given, 0: not loaded.
        threads: Python threads that reading has left running.
        asked_cuda: it has used CUDA, or tried to.
        opened: files that were opened.
        float64: images are float64.
        image_dtype: of the images.
    """

    first: str
    second: str
    repeated: Tuple[Tuple[str, str], ...]
    changed: Tuple[str, ...]
    grown_bytes: float
    cv2_threads: int
    torch_threads: int
    threads: int
    asked_cuda: bool
    opened: Tuple[str, ...]
    image_dtype: str
    generators: Tuple[str, ...] = ()


def observe(dataset: Any, indices: Sequence[int], seed: int) -> Observed:
    """Read samples and look at what that does. To be run in a worker process.

    Args:
        dataset: it.
        indices: some samples.
        seed: of this worker; two workers get two.
    """
    opened = record_opened()
    asked_cuda = _watch_cuda()
    threads = threading.active_count()
    with _seeds(seed, 0):
        sample = dataset[indices[0]]  # opens what is opened at first use
        first = digest(dataset[indices[0]])
        second = digest(dataset[indices[0]])
    before, repeated = _state(dataset), []
    for number, index in enumerate(indices):
        pair = []
        for _ in range(2):
            with _seeds(seed, number):
                pair.append(digest(dataset[index]))
        repeated.append((pair[0], pair[1]))
    changed, grown = _compare(before, _state(dataset))
    image = sample[0] if isinstance(sample, (tuple, list)) else sample
    cv2 = sys.modules.get("cv2")
    return Observed(
        first,
        second,
        tuple(repeated),
        tuple(changed),
        grown / (2 * len(indices)),
        int(cv2.getNumThreads()) if cv2 is not None else 0,
        torch.get_num_threads(),
        threading.active_count() - threads,
        bool(asked_cuda),
        tuple(dict.fromkeys(opened)),
        str(getattr(image, "dtype", type(image).__name__)).replace("torch.", ""),
        tuple(name for name in changed if before.get(name, ("", 0, False))[2]),
    )


def record_opened() -> List[str]:
    """A list that gets the path of each file that is opened for reading from now on.

    To be used in a child alone: a hook can't be taken back. Libraries in C may open files unseen.
    """
    opened: List[str] = []
    sys.addaudithook(lambda event, what: _note(opened, event, what))
    return opened


def _note(opened: List[str], event: str, what: Any) -> None:
    if event != "open" or len(opened) >= 10_000:
        return
    path, mode = what[0], what[1]
    reads = mode is None or not set(str(mode)) & set("wax+")
    if isinstance(path, (str, bytes)) and reads:
        name = os.fsdecode(path)
        if not name.endswith((".py", ".pyc", ".so")) and not name.startswith(("/proc", "/sys")):
            opened.append(os.path.abspath(name))


def _seeds(seed: int, number: int) -> Any:
    return seeded(seed, BatchRequest(0, 0, np.array([number])))


def _watch_cuda() -> List[bool]:
    """A list that gets an entry when somebody wants CUDA."""
    asked: List[bool] = []
    begin = torch.cuda._lazy_init

    def noted(*arguments: Any, **named: Any) -> Any:
        asked.append(True)
        return begin(*arguments, **named)

    torch.cuda._lazy_init = noted
    return asked


def digest(value: Any) -> str:
    """A hash of a sample's content."""
    return hashlib.blake2b(_bytes(value), digest_size=12).hexdigest()


def _bytes(value: Any) -> bytes:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().contiguous()
        if value.dtype == torch.bfloat16:
            value = value.float()
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    if isinstance(value, (tuple, list)):
        return b"".join(_bytes(one) for one in value)
    return pickle.dumps(value)


_GENERATORS = (b"numpy.random", b"RandomState", b"torch._C\x94\x8c\tGenerator", b"\x06Random")
"""What the pickle of a random generator holds."""

State = Dict[str, Tuple[str, int, bool]]


def _state(dataset: Any) -> State:
    """Each attribute's pickle: hash, size, whether a generator is in it.

    What doesn't pickle is left out.
    """
    found: State = {}
    for name, value in list(getattr(dataset, "__dict__", {}).items()):
        if isinstance(value, np.ndarray) and value.nbytes > HASHED_BYTES:
            continue
        if isinstance(value, torch.Tensor) and value.nbytes > HASHED_BYTES:
            continue
        try:
            data = pickle.dumps(value)
        except Exception:
            continue
        draws = any(word in data for word in _GENERATORS)
        found[name] = (hashlib.blake2b(data, digest_size=12).hexdigest(), len(data), draws)
    return found


def _compare(before: State, after: State) -> Tuple[List[str], float]:
    changed = [name for name, state in after.items() if before.get(name) != state]
    grown = sum(after[name][1] - before.get(name, ("", 0, False))[1] for name in changed)
    return changed, float(grown)
