"""A batch that does not come: says which worker is at which sample, and where its code stands.

The run goes on waiting; after `worker.STALL_S` without any batch it ends.
"""

import time
from typing import Any, Callable, List

from train.data import absence
from train.data.watch import Place, Watch, sample_name

NOTE_S = 30.0
"""Seconds until the first note of a batch that does not come; the next one comes after twice the
time, and so on."""

_SHOWN = 4  # workers named in one note
_LINES = 12  # of one stack: the innermost calls

WhereIs = Callable[[Place], str]


class Patience:
    """Waits for one batch, and tells about it.

    Args:
        dataset: knows the samples' names.
        watch: knows where the workers are.
        who: says which thread or process a worker is, and what it does: "process 17, asleep".
        stack: gives the stack of a worker.
        end_s: silence after which the run ends.
    """

    def __init__(
        self, dataset: Any, watch: Watch, who: WhereIs, stack: WhereIs, end_s: float
    ) -> None:
        self._dataset, self._watch, self._who, self._stack = dataset, watch, who, stack
        self._end_s = end_s
        self._begin = self._heard = time.monotonic()
        self._next_s, self._noted = NOTE_S, False

    def left_s(self) -> float:
        """How long to wait now, 0 when the end has come."""
        now = time.monotonic()
        until_end = self._heard + self._end_s - now
        until_note = max(0.01, self._begin + self._next_s - now)
        return max(0.0, min(until_end, until_note, absence.LOOK_S))

    def is_over(self) -> bool:
        """Nothing came for so long that the run ends."""
        return time.monotonic() - self._heard >= self._end_s

    def heard(self) -> None:
        """A batch came, if not yet the one that is waited for."""
        self._heard = time.monotonic()

    def look(self) -> None:
        """Tell, when it is time for that."""
        if self._data_gone():
            self._begin = self._heard = time.monotonic()  # to wait is right, and has its own end
            return
        waited_s = time.monotonic() - self._begin
        if waited_s < self._next_s or self.is_over():
            return
        self._next_s, self._noted = 2 * self._next_s, True
        _say(self._note(waited_s))

    def done(self) -> None:
        """It came."""
        self._data_gone()
        if self._noted:
            _say(f"note: the batch came after {time.monotonic() - self._begin:.0f} s")

    def _data_gone(self) -> bool:
        """Whether workers wait for data that are gone; what has changed is told."""
        away = [place for place in self._watch.places() if place.away]
        if not away:
            self._watch.teller.note(None)
        for place in away[:1]:
            source = getattr(self._dataset, "source", getattr(self._dataset, "dataset", None))
            gone = absence.look(source, place.sample or 0)
            if gone is not None:
                self._watch.teller.note(gone)
        return bool(away)

    def _note(self, waited_s: float) -> str:
        places = self._watch.places()
        at_work = [place for place in places if place.sample is not None]
        stuck = [place for place in at_work if place.since_s > NOTE_S / 2]
        shown = stuck or at_work or places
        lines = [f"note: no batch for {_seconds(waited_s)}; the run waits on"]
        for place in shown[:_SHOWN]:
            lines.append(f"  {self._told(place)}")
            # One that stands between two samples may do so for good: a lock taken before a fork.
            if place in stuck or (not at_work and place.thread):
                lines += [f"  {line}" for line in self._stack(place).splitlines()[:_LINES]]
        if len(shown) > _SHOWN:
            lines.append(f"  and {len(shown) - _SHOWN} more workers")
        if at_work and not stuck:
            lines.append("  none is stuck: they go on from sample to sample, but slowly")
        return "\n".join(lines)

    def _told(self, place: Place) -> str:
        if place.sample is None:
            state = "is at no sample" if place.thread else "has not begun: it still starts"
            return f"worker {place.worker} ({self._who(place)}) {state}"
        doing = "reading" if place.reading else "decoding"
        if getattr(self._dataset, "source", None) is None:
            doing = "making" if place.reading else "collating after"
        name = sample_name(self._dataset, place.sample or 0)
        return (
            f"worker {place.worker} ({self._who(place)}) is {doing} sample {name} "
            f"for {_seconds(place.since_s)}"
        )


def names_of(dataset: Any, watch: Watch) -> str:
    """The samples that all workers are at, for the message that ends a run."""
    found: List[str] = []
    for place in watch.places():
        if place.sample is not None:
            found.append(sample_name(dataset, place.sample))
    return ", ".join(found)


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def _say(text: str) -> None:
    from train.console import say  # late: a worker that is spawned needs no console

    say(text, indent=4, any_rank=True)
