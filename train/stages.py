"""Which stage was short when the device waited for data: a pure function of measured times."""

from typing import Any, Dict, NamedTuple, Optional

from train.data.account import Spent
from train.timing import Timing

NAMED_FROM = 0.01
"""Share of waiting from which a stage is named: below it nothing is short."""

_IDLE_BELOW = 0.5
"""Workers that are busy for less of their time, while batches are waited for, are not slow."""


class Stages(NamedTuple):
    """One pass over a loader.

    Attributes:
        timing: of the device.
        spent: by the loader and its workers meanwhile.
        workers: how many; 0: batches were made in the training process.
        own_samples: a user's data set reads and decodes in one.
        cuda: the device is one; the CPU has nothing to copy.
    """

    timing: Timing
    spent: Spent
    workers: int
    own_samples: bool
    cuda: bool

    @property
    def capacity_s(self) -> float:
        """Seconds that all workers had together."""
        return self.timing.total_s * max(1, self.workers)

    def share(self, seconds: float) -> float:
        """A part of the workers' time, 0 to 1."""
        return min(1.0, seconds / self.capacity_s) if self.capacity_s > 0 else 0.0


def short_stage(stages: Stages) -> Optional[str]:
    """What the device waited for: 'decoding: 1.9 of 2 workers' time'; None when it hardly waited.

    The wait for a first batch, while workers fill their queues, is told as such.
    """
    timing, spent = stages.timing, stages.spent
    if timing.total_s <= 0 or timing.wait_share <= NAMED_FROM:
        return None
    first_s = min(timing.first_batch_s, timing.wait_s)
    late_s = timing.wait_s - first_s
    if late_s / timing.total_s <= NAMED_FROM:
        return "the first batch"
    host_s = max(0.0, spent.wait_s - first_s)
    if host_s < late_s / 2:
        if spent.hand_s > late_s / 2:
            return "taking batches over, in the training process"
        return "copies to the device" if stages.cuda else "turning batches into floats"
    reading, making = "reading", "decoding"
    if stages.own_samples:
        reading, making = "the data set's samples", "collating"
    name, seconds = (reading, spent.read_s)
    if spent.make_s > spent.read_s:
        name, seconds = (making, spent.make_s)
    if stages.workers == 0:
        return f"{name}, by the training process itself: there are no workers"
    busy = stages.share(spent.read_s + spent.make_s)
    if busy < _IDLE_BELOW:
        return f"handing over: workers were busy {busy:.0%} of their time"
    noun = "worker's" if stages.workers == 1 else "workers'"
    return f"{name}: {seconds / timing.total_s:.1f} of {stages.workers} {noun} time"


def stage_columns(stages: Stages, known: bool) -> Dict[str, Any]:
    """The fields of metrics.jsonl about stages.

    Args:
        stages: of the epoch's training.
        known: the epoch was trained, not resumed at its end.

    Returns:
        Shares of the workers' time, by stage: "read_share" and "decode_share", or with a user's own
        data set "sample_share" and "collate_share"; "host_wait_share" and "hand_share" of the
        training process's time; and "short_stage", a text.
    """
    names = (
        ("sample_share", "collate_share") if stages.own_samples else ("read_share", "decode_share")
    )
    row: Dict[str, Any] = dict.fromkeys(
        ("read_share", "decode_share", "sample_share", "collate_share")
    )
    row.update(host_wait_share=None, hand_share=None, short_stage=None)
    total_s, spent = stages.timing.total_s, stages.spent
    if known and total_s > 0:
        row[names[0]], row[names[1]] = stages.share(spent.read_s), stages.share(spent.make_s)
        row["host_wait_share"] = min(1.0, spent.wait_s / total_s)
        row["hand_share"] = min(1.0, spent.hand_s / total_s)
        row["short_stage"] = short_stage(stages)
    return row
