"""Runs inside an arm's own process: takes batches for some seconds, prints one line of JSON.

Standard library alone, Python 3.9 and newer: a peer's environment holds the peer and nothing else.

A peer's `run.py` names its arms and its ways to store the pictures, and calls `serve`:

```
python run.py arm NAME --data FOLDER [--packed PATH] --seconds 2 --workers 2
python run.py pack NAME --data FOLDER --packed PATH
```
"""

import argparse
import json
import os
import platform
import resource
import sys
import time
from importlib import metadata
from pathlib import Path

BATCH_SIZE = 64
SIDE = 224
CROP = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
PASSES = 64
"""How often a data set of files names each of them, so that an epoch is about as long as a real
one: a peer's pause between epochs is not counted sixty times too often."""
WARM_BATCHES = 6
WARM_S = 0.7
STARTED = "BENCH_STARTED"
"""Environment variable: time.monotonic() of the process that started this one."""


class Task:
    """What an arm is to load.

    Attributes:
        folder: the pictures, FOLDER/<class>/<name>.jpg.
        packed: where `pack` of the same peer wrote them; None when the arm reads the files.
        workers: processes or threads, one for each CPU.
    """

    def __init__(self, folder, packed, workers):
        self.folder, self.packed, self.workers = Path(folder), packed, workers

    def files(self):
        """Every picture and its class number, in a fixed order."""
        classes = sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())
        return [
            (str(path), number)
            for number, name in enumerate(classes)
            for path in sorted((self.folder / name).iterdir())
        ]


def _descendants():
    found, left = [], [os.getpid()]
    while left:
        pid = left.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    children = [int(child) for child in file.read().split()]
            except OSError:
                continue
            found += children
            left += children
    return found


def cpu_seconds():
    """CPU time of this process and its children so far, user and system."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    ticks = os.sysconf("SC_CLK_TCK")
    for pid in _descendants():
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(int(value) for value in fields[11:15]) / ticks
    return total


def shm_used_mb():
    """What /dev/shm holds, in MB: batches on their way between processes, which no process maps."""
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        return 0.0
    return (room.f_blocks - room.f_bfree) * room.f_frsize / 1e6


def memory_mb(shm_before=0.0):
    """PSS of this process and its children in MB: anonymous, shared, and mapped files apart.

    What was put into /dev/shm since `shm_before` counts as shared, whether it is mapped or not.
    """
    names = {"Pss_Anon:": "anonymous", "Pss_Shmem:": "shared", "Pss_File:": "files"}
    total = dict.fromkeys(names.values(), 0.0)
    for pid in [os.getpid(), *_descendants()]:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                lines = [line.split() for line in file]
        except OSError:
            continue
        for words in lines:
            if words[0] in names:
                total[names[words[0]]] += int(words[1]) * 1024 / 1e6
    total["shared"] = max(total["shared"], shm_used_mb() - shm_before)
    return {name: round(value, 1) for name, value in total.items()}


def _shape(batch):
    while isinstance(batch, (list, tuple)) and batch:
        batch = batch[0]
    shape = [int(side) for side in getattr(batch, "shape", ())]
    return shape, str(getattr(batch, "dtype", type(batch).__name__)).replace("torch.", "")


def measure(make_batches, seconds, epoch_batches, warm_s=WARM_S):
    """Take batches: the first, some to warm up, then whole epochs for at least `seconds`.

    Args:
        make_batches: called without arguments; gives an endless iterable of batches.
        seconds: the least time to measure.
        epoch_batches: batches of one pass over the pictures. Whole passes, since pictures differ in
            size; the clock stops after `seconds * 3` within a pass all the same.
        warm_s: the least time before the measurement.

    Returns:
        A dictionary that goes into JSON.
    """
    shm = shm_used_mb()
    begin = float(os.environ.get(STARTED) or time.monotonic())
    stream = iter(make_batches())
    batch = next(stream)
    first_batch_s = time.monotonic() - begin
    memory = memory_mb(shm)
    taken, since = 1, time.monotonic()
    while taken < WARM_BATCHES or time.monotonic() - since < warm_s:
        batch = next(stream)
        taken += 1
    cpu, start = cpu_seconds(), time.perf_counter()
    batches, elapsed = 0, 0.0
    while elapsed < seconds or (batches % epoch_batches and elapsed < seconds * 3):
        batch = next(stream)
        batches += 1
        elapsed = time.perf_counter() - start
    cpu = cpu_seconds() - cpu
    shape, dtype = _shape(batch)
    images = batches * (shape[0] if shape else BATCH_SIZE)
    later = memory_mb(shm)
    return {
        "images_per_s": round(images / elapsed, 1),
        "cpu_s_per_1000": round(cpu / images * 1000, 3),
        "first_batch_s": round(first_batch_s, 2),
        "memory_mb": max(memory, later, key=lambda found: sum(found.values())),
        "images": images,
        "seconds": round(elapsed, 3),
        "shape": shape,
        "dtype": dtype,
    }


def versions(packages):
    """Installed versions of these packages, and Python's."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def serve(arms, packs=None, packages=()):
    """Be the program that the measurement starts: run one arm, or store the pictures once.

    Args:
        arms: name -> function(task) that gives an endless iterable of batches.
        packs: name -> function(task) that writes the pictures to `task.packed`.
        packages: names of packages whose versions are reported.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("arm", "pack"))
    parser.add_argument("name")
    parser.add_argument("--data", required=True)
    parser.add_argument("--packed")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    task = Task(options.data, options.packed, options.workers)
    if options.what == "pack":
        (packs or {})[options.name](task)
        return
    epoch_batches = max(1, len(task.files()) // BATCH_SIZE)
    result = measure(lambda: arms[options.name](task), options.seconds, epoch_batches)
    result["versions"] = versions(packages)
    print("\n" + json.dumps(result), flush=True)
    # Peers differ in how long they take to shut down, and some never do; nothing here needs it.
    sys.stderr.flush()
    os._exit(0)
