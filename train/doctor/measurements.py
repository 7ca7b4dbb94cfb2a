"""What an examination measures: numbers alone, that JSON can hold. `verdict.py` reads them."""

import dataclasses
from typing import Any, Dict, NamedTuple, Optional


class Run(NamedTuple):
    """The accelerator fed for some seconds, warm-up left out.

    Attributes:
        images_per_s: images / seconds.
        wait_share: share of the time in which the accelerator had no batch.
        spread: of the speeds of parts of it, (largest - smallest) / median.
        images: how many.
        cores: mean number of busy cores, of this process and its workers.
        first_batch_s: from opening the loader to its first batch.
    """

    images_per_s: float
    wait_share: float
    spread: float = 0.0
    images: int = 0
    cores: float = 0.0
    first_batch_s: float = 0.0

    @property
    def image_s(self) -> float:
        """Seconds an image."""
        return 1.0 / self.images_per_s if self.images_per_s > 0 else float("inf")


class Item(NamedTuple):
    """One sample made by a worker, mean seconds.

    wall = on the CPU + queued for one + blocked.

    Attributes:
        wall_s: by the clock.
        cpu_s: CPU time of the worker's own thread.
        helper_s: CPU time of other threads of the same worker.
        queued_s: it could have run, but every CPU was taken.
        blocked_s: it waited for something else: a disk, a network, a lock.
        items: that were made.
        place: the line of code at which it was most often seen; '' where that is not known.
        place_share: how often, of all looks.
        next_place, next_share: the line that comes next.
    """

    wall_s: float
    cpu_s: float
    helper_s: float = 0.0
    queued_s: float = 0.0
    blocked_s: float = 0.0
    items: int = 0
    place: str = ""
    place_share: float = 0.0
    next_place: str = ""
    next_share: float = 0.0


class Stages(NamedTuple):
    """Where a sample's seconds go, of one worker alone.

    Attributes:
        read_s, decode_s, augment_s: CPU seconds an image; what has no name of its own, such as
            Python code of a user's, counts as decoding.
        collate_s: an image: putting samples together to a batch; 0 where they are written into it.
        lock_s: waiting for locks that were seen as such.
        batch_s: a batch: what a worker does for it beside its samples.
        unnamed_s: the part of `decode_s` that has no name: nothing in it was seen to decode.
    """

    read_s: float = 0.0
    decode_s: float = 0.0
    augment_s: float = 0.0
    collate_s: float = 0.0
    lock_s: float = 0.0
    batch_s: float = 0.0
    unnamed_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Measurements:
    """One pipeline.

    Attributes:
        accelerator: its name.
        images: of the data set.
        batch_size: of the run that is asked about.
        examined_batch: of these runs: smaller where a batch would take long; 0: the same.
        workers, prefetch, workers_kind: as the loader had them.
        cpus: that this process may use.
        own: the data set is a user's own.
        synthetic: one batch that is on the accelerator, again and again.
        copied: batches of the main process, copied.
        cached: batches that are ready, through workers.
        warm: the real loader, data in memory.
        cold: the real loader, data not in memory; None: `cold_note` says why not.
        large: as `warm`, in batches of `large_batch`; None where batches are large.
        alone: one worker.
        together: several at once, `side_by_side` of them; None where there is only one.
        stages: of one worker alone.
        batch_bytes: of one batch of the run on the host.
        record_bytes: mean size as stored; None where it is unknown.
        data_bytes: of the whole data set as stored; None likewise.
        memory_bytes: that the system can keep files in.
        cold_note: for people.
        image_side: short side of a stored image in pixels; None where it is unknown.
        window_side: pixels that the model sees.
        packed: the data are a pack or a container already.
    """

    accelerator: str
    images: int
    batch_size: int
    workers: int
    prefetch: int
    workers_kind: str
    cpus: int
    own: bool
    synthetic: Run
    copied: Run
    cached: Run
    warm: Run
    alone: Item
    stages: Stages
    examined_batch: int = 0
    cold: Optional[Run] = None
    large: Optional[Run] = None
    large_batch: int = 0
    together: Optional[Item] = None
    side_by_side: int = 1
    batch_bytes: int = 0
    record_bytes: Optional[float] = None
    data_bytes: Optional[int] = None
    memory_bytes: int = 0
    cold_note: str = ""
    image_side: Optional[int] = None
    window_side: int = 224
    packed: bool = False

    @property
    def simulated(self) -> bool:
        """The accelerator is none: nothing is trained."""
        return self.accelerator.startswith("simulated")

    @property
    def nothing_decodes(self) -> bool:
        """A user's own data set, whose CPU time mostly goes to code that is no known decoder."""
        return self.own and 2 * self.stages.unnamed_s >= self.stages.decode_s

    @property
    def fits_memory(self) -> bool:
        """From the second pass on the data come from memory."""
        return self.data_bytes is not None and self.data_bytes < 0.8 * self.memory_bytes

    def as_dict(self) -> Dict[str, Any]:
        """Plain types, for JSON."""
        plain: Dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            plain[field.name] = value._asdict() if hasattr(value, "_asdict") else value
        return plain


_PARTS: Dict[str, Any] = {
    **dict.fromkeys(("synthetic", "copied", "cached", "warm", "cold", "large"), Run),
    **dict.fromkeys(("alone", "together"), Item),
    "stages": Stages,
}


def from_dict(plain: Dict[str, Any]) -> Measurements:
    """What `as_dict` gave, again."""
    made = {
        name: _PARTS[name](**value) if name in _PARTS and value is not None else value
        for name, value in plain.items()
    }
    return Measurements(**made)
