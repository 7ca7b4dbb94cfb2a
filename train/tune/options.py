"""What `train tune` can be asked for."""

import dataclasses
from typing import Any

from train.accelerator_choice import add_accelerator, parse_known_accelerator
from train.errors import ConfigError

DESCRIPTION = """Find the loader's settings for this machine, these data and this model.

  train tune --config configs/folder.yaml --data.path DIR
  train tune --data.path DIR --accelerator sim:2000

It measures what one core delivers and what the accelerator takes, predicts the
fewest workers that keep it busy, confirms that with a few short trials, and
prints the table, the choice, the reason and the YAML. The choice is kept for
this machine, these data and these versions: a run whose data.workers,
data.prefetch or data.workers_kind is auto uses it.

Exit codes: 0 done; 2 something to mend; 130 Ctrl-C.
"""


@dataclasses.dataclass(frozen=True)
class TuneOptions:
    """One tuning.

    Attributes:
        accelerator: auto, cpu, cuda, sim:IMAGES_PER_S.
        seconds: the most that all of it may take.
        fresh: measure again though the choice is known.
        json: print one JSON object and nothing else.
    """

    accelerator: str = "auto"
    seconds: float = 60.0
    fresh: bool = False
    json: bool = False

    def __post_init__(self) -> None:
        """Check the ranges."""
        parse_known_accelerator(self.accelerator)
        if not 5 <= self.seconds <= 3600:
            raise ConfigError(f"--seconds must be 5 to 3600, got {self.seconds}")


def add_options(parser: Any) -> None:
    """Add them to a parser that has the settings of a run already."""
    add_accelerator(parser)
    add = parser.add_argument
    add("--seconds", type=float, default=60.0, help="The most that all of it may take.")
    add("--fresh", action="store_true", help="Measure again though the choice is known.")
    add("--json", action="store_true", help="Print one JSON object and nothing else.")


def from_namespace(chosen: Any) -> TuneOptions:
    """The options from what was parsed.

    Raises:
        ConfigError: a value out of its range.
    """
    return TuneOptions(**{f.name: chosen[f.name] for f in dataclasses.fields(TuneOptions)})
