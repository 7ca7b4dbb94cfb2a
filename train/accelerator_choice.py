"""What `--accelerator` may say. No torch here: help and errors come at once."""

import re
from typing import Any, NamedTuple, Optional

from train.errors import ConfigError

_SIMULATED = re.compile(r"sim(?::(\d+(?:\.\d+)?))?")

SLOWEST, FASTEST = 1, 10_000_000
"""Images a second of a simulated device."""


class Asked(NamedTuple):
    """What `--accelerator` said.

    Attributes:
        kind: "auto", "cpu", "cuda" or "sim".
        images_per_s: of a simulated one; None: the command chooses.
    """

    kind: str
    images_per_s: Optional[float] = None


def parse_accelerator(text: str) -> Asked:
    """Read `auto`, `cpu`, `cuda`, `sim` or `sim:IMAGES_PER_S`.

    Raises:
        ConfigError: anything else.
    """
    if text in ("auto", "cpu", "cuda"):
        return Asked(text)
    found = _SIMULATED.fullmatch(text)
    speed = float(found.group(1)) if found and found.group(1) else None
    if not found or speed == 0:
        raise ConfigError(
            f"--accelerator must be auto, cpu, cuda, sim or sim:IMAGES_PER_S, got {text!r}; "
            "sim:1000 is a simulated device that trains on 1000 images a second"
        )
    if speed is not None and not SLOWEST <= speed <= FASTEST:
        raise ConfigError(
            f"--accelerator {text[:40]}: a simulated device trains on {SLOWEST} to {FASTEST:,} "
            "images a second (a slower one would not end a step while you wait)"
        )
    return Asked("sim", speed)


def parse_known_accelerator(text: str) -> Asked:
    """The same for a command that can't choose the speed of a simulated one.

    Raises:
        ConfigError: also `sim` without a speed.
    """
    asked = parse_accelerator(text)
    if asked.kind == "sim" and asked.images_per_s is None:
        raise ConfigError("--accelerator sim needs a speed here: sim:IMAGES_PER_S")
    return asked


def add_accelerator(parser: Any) -> None:
    """Add `--accelerator` to the options of such a command."""
    parser.add_argument(
        "--accelerator",
        type=str,
        default="auto",
        help="What the loader feeds: cpu or cuda (the run's model, trained for real, thrown "
        "away), sim:IMAGES_PER_S (a simulated device of that speed). auto: cuda where it is.",
    )
