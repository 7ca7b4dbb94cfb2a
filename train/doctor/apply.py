"""Try a mend: before and after in turn, several times, so that a busy moment hits both."""

import contextlib
import dataclasses
import io
import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator, List, NamedTuple, Tuple

import numpy as np

from train import machine
from train.data.sources.open import open_sets
from train.doctor import cold as files
from train.doctor import pipeline
from train.doctor.asked import changed
from train.doctor.examine import RUN_S, Examined, Tell
from train.doctor.letter import Arm
from train.doctor.measurements import Run
from train.doctor.mend import Mend
from train.doctor.pipeline import Pace
from train.doctor.subject import Subject, settings_for
from train.errors import TrainError

ROUNDS = 3
LIMIT_S = 6.0

PACKED_IMAGES = 512
PACKED_BYTES = 256 << 20
"""A sample of the data is packed, for the trial: no more than this."""


class Tried(NamedTuple):
    """What a trial gave.

    Attributes:
        before, after: the two sides.
        rounds: how often each was run.
        note: what was tried on.
    """

    before: Arm
    after: Arm
    rounds: int
    note: str


def try_mend(
    examined: Examined, cure: Mend, cold: bool, cpus: machine.Measure[int], tell: Tell
) -> Tried:
    """Measure what a mend gains.

    Args:
        examined: the examination.
        cure: what to try.
        cold: the data are read from the disk in every epoch, so they are here.
        cpus: that may be used.
        tell: told what comes next.

    Raises:
        TrainError: it can't be tried.
    """
    if cure.pack is not None:
        return _try_pack(examined, cure.pack, cold, cpus, tell)
    before = examined.subject
    after = _with_settings(before, cure, cpus)
    names = tuple(_name(before, after))
    indices = examined.cold if cold else examined.warm
    sides = [(side, indices, side.files(indices)) for side in (before, after)]
    arms = _in_turn(examined, sides, cold, tell)
    return Tried(_arm(names[0], arms[0]), _arm(names[1], arms[1]), ROUNDS, "")


def _with_settings(subject: Subject, cure: Mend, cpus: machine.Measure[int]) -> Subject:
    """The same pipeline with the settings that the mend asks for, fitted to this machine."""
    config = changed(subject.config, cure.settings)
    old = subject.settings
    kept = {
        "data.workers": old.workers,
        "data.prefetch": old.prefetch or 1,
        "data.workers_kind": old.workers_kind,
    }
    kept = {key: value for key, value in kept.items() if key not in cure.settings}
    size = config.data.batch_size * config.data.image_size**2 * 3
    # Not `auto`: nothing but what the mend names may change.
    settings = settings_for(changed(config, kept), True, old.pin_memory, cpus, size, subject.own)
    return dataclasses.replace(subject, config=config, settings=settings)


def _name(before: Subject, after: Subject) -> Iterator[str]:
    for side in (before, after):
        words = []
        if before.settings.workers != after.settings.workers:
            count = side.settings.workers
            words.append(f"{count} worker{'' if count == 1 else 's'}")
        if before.settings.prefetch != after.settings.prefetch:
            words.append(f"prefetch {side.settings.prefetch}")
        if before.settings.workers_kind != after.settings.workers_kind:
            words.append({"process": "processes", "thread": "threads"}[side.settings.workers_kind])
        if before.config.data.batch_size != after.config.data.batch_size:
            words.append(f"batches of {side.config.data.batch_size}")
        yield ", ".join(words) or "as it was"


Side = Tuple[Subject, Any, List[str]]


def _in_turn(examined: Examined, sides: List[Side], cold: bool, tell: Tell) -> List[List[Run]]:
    runs: List[List[Run]] = [[] for _ in sides]
    for number in range(ROUNDS):
        for side, (subject, indices, paths) in enumerate(sides):
            tell(f"trial {number + 1} of {ROUNDS}, {'after' if side else 'before'}")
            runs[side].append(_one(examined, subject, indices, paths, cold))
    return runs


def _one(examined: Examined, subject: Subject, indices: Any, paths: List[str], cold: bool) -> Run:
    accelerator = examined.accelerator
    if cold and paths:
        pace = Pace(2 * RUN_S, 1, LIMIT_S)
        return pipeline.cold(subject, indices, accelerator, pace, _forgets(paths))
    flying = pipeline.in_flight(subject)
    return pipeline.warm(subject, indices, accelerator, Pace(RUN_S, flying, LIMIT_S))


def _forgets(paths: List[str]) -> Callable[[], None]:
    return lambda: files.forget(paths)


def _arm(name: str, runs: List[Run]) -> Arm:
    speeds = [run.images_per_s for run in runs]
    wait = statistics.median(run.wait_share for run in runs)
    return Arm(name, statistics.median(speeds), wait, min(speeds), max(speeds))


def _try_pack(
    examined: Examined, pack: Any, cold: bool, cpus: machine.Measure[int], tell: Tell
) -> Tried:
    """Pack a sample of the data into a folder that is removed again."""
    subject = examined.subject
    if os.path.isfile(subject.root) or subject.packed:
        raise TrainError("what is packed already is not packed again for a trial")
    indices = np.union1d(examined.warm, examined.cold)[:PACKED_IMAGES]
    folder = Path(tempfile.mkdtemp(prefix="wellfed-doctor-", dir=_cache()))
    try:
        tell(f"packing {len(indices)} images for a trial")
        kept, stored = _link(subject, indices, folder / "sample")
        _pack(folder / "sample", folder / "packed", pack, cpus)
        packed = open_sets(str(folder / "packed"), allow_empty=True)
        after = dataclasses.replace(subject, data=packed.train, root=str(folder / "packed"))
        everything = np.arange(len(packed.train))
        sides = [(subject, kept, subject.files(kept)), (after, everything, _files(after.root))]
        arms = _in_turn(examined, sides, cold, tell)
        size = files.total_bytes(_files(after.root))
        note = (
            f"On a sample of {len(kept)} images ({stored / 1e6:,.0f} MB, packed {size / 1e6:,.0f} "
            "MB), which was removed again."
        )
        return Tried(_arm("as it is", arms[0]), _arm("packed", arms[1]), ROUNDS, note)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cache() -> str:
    """A folder of the user's for what can be made again."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = os.path.join(folder, "wellfed")
    try:
        os.makedirs(path, exist_ok=True)
    except OSError:
        return tempfile.gettempdir()
    return path


def _link(subject: Subject, indices: np.ndarray, folder: Path) -> Tuple[np.ndarray, int]:
    """Links to the files of some records, one folder a class; gives those that were taken."""
    taken, stored = [], 0
    for index in indices.tolist():
        path = os.path.join(subject.root, os.fsdecode(os.fsencode(subject.data.key(index))))
        if not os.path.isfile(path):
            continue
        label = int(subject.data.labels[index])
        place = folder / f"{label:05}"
        place.mkdir(parents=True, exist_ok=True)
        os.symlink(os.path.abspath(path), place / f"{index:09}{os.path.splitext(path)[1]}")
        taken.append(index)
        stored += os.path.getsize(path)
        if stored > PACKED_BYTES:
            break
    if len(taken) < 2:
        raise TrainError("the images are no files of a folder, so no sample of them was packed")
    return np.array(taken), stored


def _pack(source: Path, target: Path, options: Any, cpus: machine.Measure[int]) -> None:
    from train.pack.options import PackOptions
    from train.pack.run import pack

    with contextlib.redirect_stdout(io.StringIO()):
        pack(PackOptions(str(source), str(target), **options), cpus)


def _files(root: str) -> List[str]:
    return [str(path) for path in Path(root).rglob("*") if path.is_file()]
