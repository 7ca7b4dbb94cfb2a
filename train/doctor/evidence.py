"""The verdict's evidence in sentences with numbers. A pure function."""

from typing import Callable, Dict, List

from train.doctor.measurements import Measurements
from train.doctor.verdict import Verdict, busy_threads

PLACE = 48
"""Columns that a line of source may take: with what stands before it, one line of a terminal."""

SHORT: Dict[str, str] = {
    "disk": "the disk",
    "decode": "decoding",
    "augment": "augmentation",
    "transport": "the way to the main process",
    "copy": "the copy to the device",
    "lock": "the lock",
    "batches": "the fixed cost of a batch",
    "threads": "other threads",
}


def evidence(found: Measurements, verdict: Verdict) -> List[str]:
    """Why the verdict is what it is: the general part, then that of its cause."""
    lines = [_waiting(found, verdict)]
    if verdict.cause not in ("model", "noise"):
        lines.append(_cost(found, verdict))
    lines += _OF_CAUSE[verdict.cause](found)
    if found.own and found.alone.place:
        lines += _hottest(found)
    if verdict.first_pass is not None and found.cold is not None:
        lines.append(
            f"the first pass is slower, {found.cold.images_per_s:,.0f} images/s from the disk; "
            "afterwards the data are in memory"
        )
    if verdict.next_cause is not None and not verdict.clear:
        lines.append(
            f"it is close: {_short(found, verdict.next_cause)} costs nearly as much "
            f"(1 : {1 / verdict.ratio:.2f}), so mending one shows the other"
        )
    return lines


def duration(seconds: float) -> str:
    """A time for people, in three digits."""
    if seconds >= 120:
        return f"{seconds / 60:,.0f} min"
    if seconds >= 0.9995:
        return f"{_three(seconds)} s"
    if seconds >= 0.9995e-3:
        return f"{_three(1e3 * seconds)} ms"
    return f"{1e6 * seconds:.0f} µs"


def _three(value: float) -> str:
    """Three digits of a number from 1 to 999: 4.20, 19.1, 500."""
    return f"{value:#.3g}".rstrip(".")


def percent(share: float) -> str:
    """A share for people."""
    return f"{share:.1%}".replace("%", " %") if share < 0.1 else f"{share:.0%}".replace("%", " %")


def _waiting(found: Measurements, verdict: Verdict) -> str:
    run = found.cold if verdict.counts == "cold" and found.cold else found.warm
    text = f"the accelerator waits for {percent(verdict.wait_share)} of the time: it "
    ceiling, gets = found.synthetic.images_per_s, run.images_per_s
    if gets <= ceiling:
        return f"{text}could take {ceiling:,.0f} images/s, and gets {gets:,.0f}"
    text += f"gets {gets:,.0f} images/s; one batch again and again gave {ceiling:,.0f}"
    return text if verdict.cause == "noise" else f"{text}, the same within the noise"


def _cost(found: Measurements, verdict: Verdict) -> str:
    cause, seconds = verdict.losses[0]
    text = (
        f"{_short(found, cause)} makes the accelerator wait {duration(seconds)} an image: "
        f"{duration(seconds * found.images)} of an epoch of {found.images:,} images"
    )
    if verdict.next_cause is not None and verdict.clear:
        text += f"; {_short(found, verdict.next_cause)}, which comes next, 1/{verdict.ratio:.0f}"
        text += " of that"
    return text


def _of_model(found: Measurements) -> List[str]:
    lines = []
    if not found.simulated:
        step = found.synthetic.image_s * found.batch_size
        lines.append(
            f"a step of {found.batch_size} images takes {duration(step)} on a batch that is there"
        )
    else:
        lines.append(
            f"the accelerator is simulated: a device that takes more than "
            f"{found.synthetic.images_per_s:,.0f} images/s may still wait"
        )
    if found.alone.wall_s > 0 and found.workers:
        lines.append(
            f"one worker makes an image in {duration(found.alone.wall_s)}; there "
            f"{'is 1' if found.workers == 1 else f'are {found.workers}'}"
        )
    return lines


def _of_disk(found: Measurements) -> List[str]:
    alone = found.alone
    lines = []
    if alone.blocked_s > alone.cpu_s:
        lines.append(
            f"a sample takes {duration(alone.wall_s)}, of which its worker waits "
            f"{duration(alone.blocked_s)} without the CPU{_at(found, alone.place)}"
        )
    if found.cold is not None:
        speed = ""
        if found.record_bytes:
            speed = f" ({found.record_bytes * found.cold.images_per_s / 1e6:,.0f} MB/s)"
        lines.append(
            f"data in memory: {found.warm.images_per_s:,.0f} images/s; from the disk: "
            f"{found.cold.images_per_s:,.0f}{speed}"
        )
    if found.data_bytes and not found.fits_memory:
        lines.append(
            f"the data have {found.data_bytes / 1e9:,.1f} GB, memory has room for "
            f"{found.memory_bytes / 1e9:,.1f}: every epoch reads from the disk again"
        )
    return lines


def _of_cpu(found: Measurements) -> List[str]:
    stages = found.stages
    parts = [
        ("reading", stages.read_s),
        ("decoding", stages.decode_s - stages.unnamed_s),
        ("augmentation", stages.augment_s),
        ("other code of __getitem__", stages.unnamed_s),
    ]
    told = ", ".join(f"{name} {duration(seconds)}" for name, seconds in parts if seconds > 0)
    lines = [
        f"making an image takes {duration(stages.read_s + stages.decode_s + stages.augment_s)} of "
        f"one core ({told or 'hardly any'})"
    ]
    many = f"{found.workers} worker{'' if found.workers == 1 else 's'} and "
    if found.workers:
        lines[0] += f"; the wait above is what {many[:-5]} can't hide of it"
    lines.append(
        f"{many if found.workers else ''}the main process kept {found.warm.cores:.1f} of "
        f"{found.cpus} CPUs busy"
    )
    if found.image_side and found.image_side >= 2 * found.window_side:
        lines.append(
            f"images have {found.image_side} pixels on the short side, the model sees "
            f"{found.window_side}"
        )
    return lines


def _of_transport(found: Measurements) -> List[str]:
    return [
        f"batches that were ready came through the workers at {found.cached.images_per_s:,.0f} "
        f"images/s, and from the main process at {found.copied.images_per_s:,.0f}",
        f"a batch has {found.batch_bytes / 1e6:,.1f} MB; putting samples together takes "
        f"{duration(found.stages.collate_s)} an image",
    ]


def _of_copy(found: Measurements) -> List[str]:
    return [
        f"batches of the main process, copied: {found.copied.images_per_s:,.0f} images/s; a batch "
        f"that is there: {found.synthetic.images_per_s:,.0f}",
        f"a batch has {found.batch_bytes / 1e6:,.1f} MB",
    ]


def _of_lock(found: Measurements) -> List[str]:
    alone, beside = found.alone, found.together
    lines = []
    if beside is not None:
        kind = "threads" if found.workers_kind == "thread" else "workers"
        lines.append(
            f"one worker alone waits {duration(alone.blocked_s)} a sample; of "
            f"{found.side_by_side} {kind} at once each waits {duration(beside.blocked_s)}"
            f"{_at(found, beside.place, always=True)}"
        )
    if found.workers_kind == "thread":
        lines.append("threads of one process take turns: Python's own lock lets one run at a time")
    return lines


def _of_batches(found: Measurements) -> List[str]:
    if found.large is None:
        return []
    return [
        f"batches of {found.large_batch}: {found.large.images_per_s:,.0f} images/s; of "
        f"{found.batch_size}: {found.warm.images_per_s:,.0f}"
    ]


def _of_threads(found: Measurements) -> List[str]:
    alone = found.alone
    return [
        f"while a worker makes a sample ({duration(alone.cpu_s)} CPU), other threads of it take "
        f"{duration(alone.helper_s)}{_at(found, alone.place)}",
        f"{busy_threads(found):.1f} busy threads x {found.workers} worker(s), {found.cpus} CPU(s)",
    ]


def _of_noise(found: Measurements) -> List[str]:
    runs = (found.synthetic, found.copied, found.cached, found.warm)
    speeds = ", ".join(f"{run.images_per_s:,.0f}" for run in runs)
    return [
        f"each run does more than the one before and can't be faster, but for noise: {speeds} "
        "images/s"
    ]


def _short(found: Measurements, cause: str) -> str:
    return "your __getitem__" if cause == "decode" and found.nothing_decodes else SHORT[cause]


def _at(found: Measurements, place: str, always: bool = False) -> str:
    """The line of source; of a user's own data that of one worker alone is told by itself."""
    return f", most often at {_cut(place)}" if place and (always or not found.own) else ""


def _hottest(found: Measurements) -> List[str]:
    """The two lines of a user's own at which one worker was seen most often."""
    alone = found.alone
    lines = [f"{percent(alone.place_share)} of a worker's time: {_cut(alone.place)}"]
    if alone.next_place:
        lines.append(f"{percent(alone.next_share)}: {_cut(alone.next_place)}")
    return lines


def _cut(place: str) -> str:
    return place if len(place) <= PLACE else place[: PLACE - 4].rstrip() + " ..."


_OF_CAUSE: Dict[str, Callable[[Measurements], List[str]]] = {
    "model": _of_model,
    "disk": _of_disk,
    "decode": _of_cpu,
    "augment": _of_cpu,
    "transport": _of_transport,
    "copy": _of_copy,
    "lock": _of_lock,
    "batches": _of_batches,
    "threads": _of_threads,
    "noise": _of_noise,
}
