"""Our own arms: the loader as a run builds it, over a folder or over what `train pack` wrote."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT)]

from race.measure import BATCH_SIZE, CROP, SIDE, serve  # noqa: E402


def open_loader(path, workers, kind, epochs=None, prefetch="auto"):
    """The training loader over the data in `path`; `kind` is process or thread."""
    from train import machine
    from train.config import DataConfig
    from train.data import build_loader
    from train.data.settings import MachineView, Requested, choose
    from train.data.sources.splits import open_splits

    config = DataConfig(
        path=str(path),
        batch_size=BATCH_SIZE,
        image_size=SIDE,
        crop_min=CROP[0],
        flip=0.5,
        workers=workers,
        workers_kind=kind,
    )
    machine.raise_open_file_limit()
    cpus = machine.usable_cpus()
    view = MachineView("cpu", cpus, machine.memory_limit_bytes(), machine.shm_free_bytes())
    requested = Requested(workers=workers, prefetch=prefetch, workers_kind=kind)
    settings = choose(requested, view, BATCH_SIZE * (SIDE * SIDE * 3 + 8))
    for warning in settings.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    source = open_splits(str(path), 0.1, 0).train
    return build_loader(source, config, settings, train=True, seed=0, epochs=epochs)


def batches(task, kind):
    """Host batches without end."""
    # The pictures' folder is .../train; its parent is what a user would name.
    loader = open_loader(task.packed or task.folder.parent, task.workers, kind)
    while True:
        for batch in loader:
            yield batch.images


def process(task):
    return batches(task, "process")


def thread(task):
    return batches(task, "thread")


if __name__ == "__main__":
    packages = ("torch", "numpy", "simplejpeg", "numba")
    serve({"process": process, "thread": thread}, packages=packages)
