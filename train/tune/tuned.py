"""What tuning found: the settings, why, and everything that it was decided from. JSON and back."""

import dataclasses
from typing import (
    Any,
    Dict,
    List,
    NamedTuple,
    Optional,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from train.tune.costs import Costs
from train.tune.predict import Candidate, Prediction
from train.tune.search import Summary

LIMITS = {
    "accelerator": "as few cores as keep the accelerator fed",
    "data": "the data are the limit",
    "cores": "training and loading share the cores",
}
"""What bounds the speed, and how that is told."""

_HUGE = 2**63


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        candidate: the setting.
        predicted: by the costs.
        measured: by trials; None: none was needed, or there was no time.
        chosen: it is the one.
    """

    candidate: Candidate
    predicted: Prediction
    measured: Optional[Summary]
    chosen: bool = False


@dataclasses.dataclass(frozen=True)
class Tuned:
    """The result of `choose.tuned_settings`.

    Attributes:
        workers: of the training loader.
        prefetch: batches each keeps ready; None without workers.
        workers_kind: process or thread.
        limit: "accelerator": it hardly waits; "data": it waits though nothing more helps; "cores":
            it is the CPU, and shares the cores with the workers.
        reasons: why, in plain words, one line each.
        rows: what was tried, cheapest first.
        recommendation: what else would help, with its figure; None: nothing known.
        command: the command for it.
        predicted, measured: of the chosen setting; measured None: by prediction alone.
        costs: of each stage.
        cpus: usable ones.
        accelerator: its name.
        seconds: that tuning took.
        made: date of the measurement, ISO 8601.
        disturbed: other programs took a good part of the cores meanwhile.
        doubtful: they took more than half of them: it is not kept.
    """

    workers: int
    prefetch: Optional[int]
    workers_kind: str
    limit: str
    reasons: List[str]
    rows: List[Row]
    recommendation: Optional[str]
    command: Optional[str]
    predicted: Prediction
    measured: Optional[Summary]
    costs: Costs
    cpus: int
    accelerator: str
    seconds: float
    made: str
    disturbed: bool = False
    doubtful: bool = False

    @property
    def wait_share(self) -> float:
        """Share of the time in which the accelerator waits, as measured, else as predicted."""
        return (self.measured or self.predicted).wait_share

    @property
    def images_per_s(self) -> float:
        """Speed, as measured, else as predicted."""
        return (self.measured or self.predicted).images_per_s

    def to_json(self) -> Dict[str, Any]:
        """Plain types alone."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: _plain(value) for name, value in found.items()}

    @staticmethod
    def from_json(found: Dict[str, Any]) -> "Tuned":
        """The reverse.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is no such thing.
        """
        names = [field.name for field in dataclasses.fields(Tuned)]
        tuned: Tuned = _made(Tuned, {name: found[name] for name in names})
        if not (_is_count(tuned.workers, 0) and tuned.workers_kind in ("process", "thread")):
            raise ValueError("no settings of a loader")
        if tuned.workers and not _is_count(tuned.prefetch, 1):
            raise ValueError("no prefetch depth")
        if tuned.limit not in LIMITS:
            raise ValueError("no limit that is known")
        if not all(row.candidate.kind in ("process", "thread") for row in tuned.rows):
            raise ValueError("no kind of workers")
        return tuned


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= 4096


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(one) for name, one in value._asdict().items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def _made(kind: Any, found: Dict[str, Any]) -> Any:
    """An object of what JSON has for its fields."""
    hints = get_type_hints(kind)
    return kind(**{name: _fitting(hints[name], value) for name, value in found.items()})


def _fitting(hint: Any, value: Any) -> Any:
    """The value, if it is of the type that its field has; a damaged file may hold anything."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Union:  # Optional
        return None if value is None else _fitting(inner[0], value)
    if origin is list and isinstance(value, list):
        return [_fitting(inner[0], one) for one in value]
    if hasattr(hint, "_fields"):
        return _made(hint, value)
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if abs(value) < _HUGE or value == float("inf"):
            return value
    elif type(value) is hint and (hint is not int or abs(value) < _HUGE):
        return value
    raise ValueError(f"{str(value)[:40]} is no {hint}")
