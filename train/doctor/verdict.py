"""From measurements to one verdict: a pure function, no clock, no files.

Each run has one thing more than the run before, so the difference of their seconds an image is
what that thing costs (the "differential analysis" of DS-Analyzer, arXiv:2007.06775):

```
synthetic                        the accelerator itself
copied   - synthetic             copy to the device
cached   - copied                transport: worker -> main process
warm     - cached                making the samples
cold     - warm                  disk
```

Making the samples is split further by what a worker does with its time: CPU of decoding, CPU of
augmentation, other threads, waiting alone (a disk, a network), waiting because of others (a lock).
What larger batches save is the fixed cost of a batch, wherever it was paid.
"""

import re
from typing import Dict, NamedTuple, Optional, Tuple

from train.doctor.measurements import Item, Measurements, Run

ENOUGH = 0.05
"""The accelerator may wait so long before loading is called the limit: less is within the noise of
runs of seconds."""

CLOSE = 1.5
"""The first cause is called close to the second when it is not so many times as large."""

BUSY_HELPERS = 0.5
"""Other threads of a worker that take this share of its own CPU time are worth a word."""

FIXED_SLACK = 1.5
"""Larger batches can't save more than the fixed cost of a batch as it was measured, times this."""

SMALL_BATCH = 16
"""Larger batches are tried only where they are no larger than this."""

NOISE = 0.15
"""A run that is faster by more than this, and by more than its spread, than one that did less: the
machine changed meanwhile."""

CAUSES: Dict[str, str] = {
    "model": "loading is not your limit: the model is",
    "disk": "the disk, or the network behind it, is your limit",
    "decode": "decoding on the CPU is your limit",
    "augment": "augmentation on the CPU is your limit",
    "transport": "the way from the workers to the main process is your limit",
    "copy": "the copy to the device is your limit",
    "lock": "a lock is your limit: workers wait for each other",
    "batches": "your batches are too small: the fixed cost of each is your limit",
    "threads": "too many threads are your limit: they get in each other's way",
    "noise": "unclear: the figures don't agree, it is too noisy here",
}
"""Every verdict there is, in words; `_in_words` has some of them more exactly."""


class Verdict(NamedTuple):
    """What keeps the accelerator waiting.

    Attributes:
        cause: a key of CAUSES.
        wait_share: share of the time in which the accelerator waits, in the run that counts.
        counts: the run that counts: "warm" where the data fit into memory, else "cold".
        losses: seconds an image, by cause, largest first; without the model's own.
        next_cause: the second largest; None where there is no other.
        ratio: how many times as large the first is as the second.
        first_pass: what the first pass waits for, where the data come from memory afterwards and
            only the first pass waits; else None.
        words: the verdict, in words.
    """

    cause: str
    wait_share: float
    counts: str
    losses: Tuple[Tuple[str, float], ...]
    next_cause: Optional[str]
    ratio: float
    first_pass: Optional[str] = None
    words: str = ""

    @property
    def clear(self) -> bool:
        """No second cause is nearly as large."""
        return self.cause != "noise" and self.ratio >= CLOSE


def judge(found: Measurements) -> Verdict:
    """One verdict."""
    counts, run = _run_that_counts(found)
    losses = _losses(found, run)
    ordered = tuple(sorted(losses.items(), key=lambda entry: -entry[1]))
    first_pass = None
    if _disagree(found, ordered[0][1]):
        words = _in_words(found, "noise")
        return Verdict("noise", run.wait_share, counts, ordered, None, float("inf"), None, words)
    if counts == "warm" and found.cold is not None and found.cold.wait_share >= ENOUGH:
        first_pass = "disk" if _slower(found.cold, found.warm) else None
    if run.wait_share < ENOUGH or ordered[0][1] <= 0:
        words, ratio = _in_words(found, "model"), float("inf")
        return Verdict("model", run.wait_share, counts, ordered, None, ratio, first_pass, words)
    (cause, most), rest = ordered[0], ordered[1:]
    second = rest[0] if rest and rest[0][1] > 0 else None
    ratio = most / second[1] if second else float("inf")
    return Verdict(
        cause,
        run.wait_share,
        counts,
        ordered,
        second[0] if second else None,
        ratio,
        first_pass if cause != "disk" else None,
        _in_words(found, cause),
    )


def _in_words(found: Measurements, cause: str) -> str:
    if cause == "model" and found.simulated:
        speed = found.accelerator.split(", ", 1)[-1]
        return f"loading is not your limit: the loader keeps up with {speed}"
    if cause == "decode" and found.nothing_decodes:
        return "your __getitem__ is your limit"
    return CAUSES[cause]


def _disagree(found: Measurements, largest: float) -> bool:
    """A run was faster than one that did less, by more than noise and enough to change the verdict.

    Args:
        found: the measurements.
        largest: of the losses, seconds an image.
    """
    runs = (found.synthetic, found.copied, found.cached, found.warm)
    for later, run in enumerate(runs):
        for before in runs[:later]:
            slack = max(NOISE, before.spread, run.spread)
            lead = before.image_s - run.image_s
            if run.images_per_s > before.images_per_s * (1 + slack) and lead > largest / 2:
                return True
    return False


def _run_that_counts(found: Measurements) -> Tuple[str, Run]:
    """What is in memory is read from there in every epoch but the first."""
    if found.cold is None or found.fits_memory:
        return "warm", found.warm
    # A cold run that was not slower says nothing against the warm one, which ran longer.
    return ("cold", found.cold) if _slower(found.cold, found.warm) else ("warm", found.warm)


def _slower(one: Run, other: Run) -> bool:
    return one.image_s > other.image_s * (1 + max(ENOUGH, min(0.3, other.spread / 2)))


def _losses(found: Measurements, run: Run) -> Dict[str, float]:
    """Seconds an image that each cause costs."""
    copy = max(0.0, found.copied.image_s - found.synthetic.image_s)
    below = max(found.copied.image_s, found.synthetic.image_s)
    # The real loader does all that the one with ready batches does: more than its time is noise.
    handed = min(found.cached.image_s, max(run.image_s, found.warm.image_s))
    transport = max(0.0, handed - below)
    losses = {"copy": copy, "transport": transport, "disk": 0.0}
    making = max(0.0, found.warm.image_s - max(below, handed))
    parts = parts_of_a_sample(found)
    whole = sum(parts.values())
    for cause, seconds in parts.items():
        share = seconds / whole if whole > 0 else 0.0
        losses[cause] = losses.get(cause, 0.0) + making * share
    losses["disk"] += max(0.0, run.image_s - found.warm.image_s)
    if found.large is not None:
        total = sum(losses.values())
        saved = min(total, max(0.0, found.warm.image_s - found.large.image_s))
        # No more than what batches that are ready cost, and what a worker does for each batch.
        fixed = copy + transport + found.stages.batch_s / max(1, found.batch_size)
        saved = min(saved, FIXED_SLACK * fixed)
        if total > 0:
            losses = {cause: seconds * (1 - saved / total) for cause, seconds in losses.items()}
        losses["batches"] = saved
    return losses


def parts_of_a_sample(found: Measurements) -> Dict[str, float]:
    """What a worker's seconds for one sample go to, by cause.

    Waiting that one worker alone has is for a disk. What comes on top when others work beside it
    is for a lock, Python's own between threads, or one in the data set; or for a disk that serves
    one after the other.
    """
    alone, stages = found.alone, found.stages
    lock, disk = stages.lock_s, max(0.0, alone.blocked_s - stages.lock_s)
    if found.together is not None:
        grown = max(0.0, found.together.blocked_s - alone.blocked_s)
        if _for_a_lock(found, found.together):
            lock += grown
        else:
            disk += grown
    cpu = stages.read_s + stages.decode_s + stages.augment_s
    augment = alone.cpu_s * (stages.augment_s / cpu if cpu > 0 else 0.0)
    decode = max(0.0, alone.cpu_s - augment)
    threads = 0.0
    if oversubscribed(found):
        threads = alone.helper_s + disk + lock  # what it waits for is its own threads
        disk = lock = 0.0
    elif alone.cpu_s > 0:  # they help; what they do is the sample's own work
        scale = 1 + alone.helper_s / alone.cpu_s
        augment, decode = augment * scale, decode * scale
    return {
        "disk": disk,
        "lock": lock,
        "threads": threads,
        "augment": augment,
        "decode": decode,
        "transport": stages.collate_s,
    }


def _for_a_lock(found: Measurements, together: Item) -> bool:
    """Whether workers side by side wait for each other, and not for a disk that is busy."""
    if found.workers_kind == "process" and not found.own:
        return False  # our own line has no lock that processes share
    if re.search("lock|acquire", together.place, re.IGNORECASE):
        return True
    return found.alone.blocked_s < found.alone.cpu_s  # what mostly computes waits for no disk


def busy_threads(found: Measurements) -> float:
    """Threads that one worker keeps busy while it is on the CPU."""
    alone = found.alone
    return 1 + alone.helper_s / alone.cpu_s if alone.cpu_s > 0 else 1.0


def oversubscribed(found: Measurements) -> bool:
    """Workers have busy threads of their own, and together more of them than there are CPUs."""
    threads = busy_threads(found)
    return threads >= 1 + BUSY_HELPERS and threads * max(1, found.workers) > found.cpus
