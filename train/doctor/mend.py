"""What mends it: for each verdict some words, and a command where one does it. A pure function."""

import math
import shlex
from typing import Any, Dict, NamedTuple, Optional

from train.data.plan import MOST_WORKERS
from train.doctor.asked import Asked, dotted
from train.doctor.measurements import Measurements
from train.doctor.verdict import SMALL_BATCH, Verdict, busy_threads, parts_of_a_sample

LARGER = 8
"""Small batches are made so many times as large, for a start."""

HIDDEN = 1.25
"""Workers beyond what the mean needs: some samples take longer."""


class Mend(NamedTuple):
    """What to do.

    Attributes:
        words: one sentence or two.
        command: to type; '' where none mends it.
        settings: the same as changes of settings, `section.key`; empty where it is none.
        pack: options of `train pack` as changes, without paths; None where nothing is packed.
    """

    words: str
    command: str
    settings: Dict[str, Any]
    pack: Optional[Dict[str, Any]] = None

    @property
    def can_be_tried(self) -> bool:
        """`--apply` can measure it."""
        return bool(self.settings) or self.pack is not None


def mend(found: Measurements, verdict: Verdict, asked: Asked) -> Mend:
    """The one thing to do about a verdict."""
    return _MENDS[verdict.cause](found, asked)


def _with(asked: Asked, words: str, **settings: Any) -> Mend:
    """A change of settings; a data set of a user's own is examined again, ours is trained on."""
    command = "doctor" if asked.dataset else "fit"
    return Mend(words, asked.again(command, **settings), dotted(settings))


def _code(words: str) -> Mend:
    """A change of the user's own code: there is no command that makes it."""
    return Mend(words, "", {})


def _pack(found: Measurements, asked: Asked, words: str) -> Mend:
    """Pack the data, smaller where the images are far larger than what the model sees."""
    options: Dict[str, Any] = {}
    side, source = math.ceil(found.window_side * 8 / 7), asked.config.data.path
    more = ""
    if found.image_side is not None and found.image_side >= 2 * side:
        options["short_side"] = side
        more = f" --short-side {side}"
        words += (
            f"; images of {found.image_side} pixels become {side}, and without --short-side each "
            "pixel stays"
        )
    packed = source.rstrip("/") + "-packed"
    command = f"train pack {shlex.quote(source)} {shlex.quote(packed)}{more}"
    return Mend(words, command, {}, options)


def _more_workers(found: Measurements, asked: Asked, most: int, why: str) -> Optional[Mend]:
    """More workers, where `most` of them are more than there are by a quarter or so."""
    now = max(1, found.workers)
    needed = math.ceil(now * found.warm.image_s / found.synthetic.image_s * HIDDEN)
    if found.cold is not None and not found.fits_memory:
        slower = max(found.cold.image_s, found.warm.image_s)
        needed = math.ceil(now * slower / found.synthetic.image_s * HIDDEN)
    workers = min(most, MOST_WORKERS, needed)
    if workers <= found.workers:
        return None
    many = f"{found.workers} worker{'' if found.workers == 1 else 's'}" if found.workers else "none"
    return _with(asked, f"{workers} workers in place of {many}: {why}", data__workers=workers)


def _disk(found: Measurements, asked: Asked) -> Mend:
    alone, together = found.alone, found.together
    serial = together is not None and together.blocked_s > 1.5 * max(alone.blocked_s, 1e-6)
    waits = parts_of_a_sample(found)["disk"] >= alone.cpu_s
    if waits and not serial:
        why = "they wait side by side, and waiting takes no CPU"
        more = _more_workers(found, asked, MOST_WORKERS, why)
        if more is not None:
            return more
    if not found.own and not found.packed:
        return _pack(found, asked, "pack the data: few large files in place of many small ones")
    if not found.own:
        return _with(
            asked,
            "these data are packed already: put them on a local disk (SSD, NVMe), or give the "
            "machine more memory; deeper prefetch evens out what varies",
            data__prefetch=2 * max(1, found.prefetch),
        )
    return _code(
        "read less, from a local disk, or keep the data in one packed file that is read by "
        "position (docs/tuning.md, Many small files); then look again",
    )


def _decode(found: Measurements, asked: Asked) -> Mend:
    more = _more_workers(found, asked, found.cpus, "there are CPUs that nobody uses")
    if more is not None and not _is_busy(found):
        return more
    if not found.own and not found.packed:
        return _pack(found, asked, "pack the data once, and each epoch decodes less")
    if not found.own:
        return _pack(found, asked, "pack them again, smaller or as pixels that need no decoding")
    if found.nothing_decodes:
        return _code(
            "do less in __getitem__, at the lines above: what is the same in every epoch once, "
            "beforehand (docs/tuning.md, Many small files); then look again"
        )
    return _code(
        "decode once, beforehand, and keep what comes out (docs/tuning.md, Many small files); in "
        "__getitem__ only what changes from epoch to epoch; then look again",
    )


def _is_busy(found: Measurements) -> bool:
    """The CPUs are taken already: another worker would only take turns with the others."""
    alone = found.alone
    others = alone.queued_s > 0.3 * alone.wall_s  # other programs have them
    return others or found.warm.cores >= found.cpus - 0.5


def _augment(found: Measurements, asked: Asked) -> Mend:
    more = _more_workers(found, asked, found.cpus, "there are CPUs that nobody uses")
    if more is not None and not _is_busy(found):
        return more
    if not found.own:
        return _pack(found, asked, "smaller images are scaled faster")
    return _code(
        "do what is the same in every epoch (resize, normalise) once, beforehand, and the rest on "
        "the device, a whole batch at a time (docs/tuning.md, Settings); then look again",
    )


def _transport(found: Measurements, asked: Asked) -> Mend:
    if found.workers_kind == "process" and not found.own:
        words = "threads in place of processes: nothing has to be handed over"
        return _with(asked, words, data__workers_kind="thread")
    return _code(
        f"hand over less: a batch is {found.batch_bytes / 1e6:,.1f} MB. Return uint8 (h, w, 3) in "
        "place of float: a quarter of the bytes, normalised on the device; then look again",
    )


def _copy(found: Measurements, asked: Asked) -> Mend:
    if found.own:
        return _code(
            f"copy less: a batch is {found.batch_bytes / 1e6:,.1f} MB. Return uint8 (h, w, 3) in "
            "place of float: a quarter of the bytes, normalised on the device; then look again",
        )
    return Mend(
        "the batches are uint8 and page-locked already, so it is the bus: see that the GPU sits in "
        "a slot of full width (nvidia-smi -q, Link Width), and that no other program copies",
        "nvidia-smi -q -d UTILIZATION",
        {},
    )


def _lock(found: Measurements, asked: Asked) -> Mend:
    if found.workers_kind == "thread":
        words = "processes in place of threads: each has an interpreter, and a lock, of its own"
        return _with(asked, words, data__workers_kind="process")
    return _code(
        "take the lock out of __getitem__, or hold it for the few lines that need it: a worker has "
        "its own copy of everything that it opens itself; then look again",
    )


def _batches(found: Measurements, asked: Asked) -> Mend:
    size = found.large_batch or LARGER * found.batch_size
    words = f"batches of {size} in place of {found.batch_size}; the learning rate follows"
    return _with(asked, words, data__batch_size=size)


def _threads(found: Measurements, asked: Asked) -> Mend:
    threads = busy_threads(found)
    workers = max(1, int(found.cpus / threads))
    if workers < found.workers:
        words = (
            f"one thread a library in each worker (torch.set_num_threads(1), "
            f"cv2.setNumThreads(0), no pool in __getitem__); until then {workers} worker"
            f"{'' if workers == 1 else 's'} in place of {found.workers}"
        )
        return _with(asked, words, data__workers=workers)
    return _code(
        "one thread a library in each worker: torch.set_num_threads(1), cv2.setNumThreads(0), no "
        "pool of threads in __getitem__; then look again",
    )


def _model(found: Measurements, asked: Asked) -> Mend:
    if found.batch_size <= SMALL_BATCH and found.large is not None:
        gain = found.large.images_per_s / found.warm.images_per_s
        if gain > 1.1:
            size = found.large_batch
            words = f"no loader makes it faster; batches of {size} do, by {gain - 1:.0%}"
            return _with(asked, words.replace("%", " %"), data__batch_size=size)
    words = (
        "leave the loader as it is. A larger batch, mixed precision (run.precision) or a smaller "
        "model is what makes it faster"
    )
    if found.simulated:
        words = "nothing; the loader is fast enough for such a device"
    return Mend(words, "", {})


def _noise(found: Measurements, asked: Asked) -> Mend:
    return Mend("examine again when the machine is quiet; `htop` says who is busy", "", {})


_MENDS = {
    "model": _model,
    "disk": _disk,
    "decode": _decode,
    "augment": _augment,
    "transport": _transport,
    "copy": _copy,
    "lock": _lock,
    "batches": _batches,
    "threads": _threads,
    "noise": _noise,
}
