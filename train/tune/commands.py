"""The commands that say a run's settings again: to train with what tuning found, to tune for it."""

import shlex
from typing import Any, Dict, List

from train.config import Config, flatten

FOR_TUNING = ("data.", "model.", "run.precision", "run.device")
"""Settings that change how fast a batch is made or taken."""


def arguments_of(config: Config) -> List[str]:
    """What to type for these settings: those that differ from the defaults."""
    default = flatten(Config())
    words = []
    for key, value in flatten(config).items():
        if value != default[key]:
            words += [f"--{key}", "null" if value is None else str(value)]
    return words


def fit_command(config: Config) -> str:
    """The run that these settings are of."""
    return shlex.join(["train", "fit", *arguments_of(config)])


def tune_command(config: Config) -> str:
    """The tuning that such a run would use."""
    words = arguments_of(config)
    pairs = zip(words[::2], words[1::2])
    kept = [word for pair in pairs if pair[0][2:].startswith(FOR_TUNING) for word in pair]
    return shlex.join(["train", "tune", *kept])


def near_words(differs: Dict[str, Any], config: Config) -> str:
    """That something is known of other settings, and how to know of these; '' where nothing is.

    Args:
        differs: of `cache.nearest`.
        config: of the run.
    """
    if not differs:
        return ""
    ours = flatten(config)
    there = ", ".join(f"{name} {value}" for name, value in differs.items())
    here = ", ".join(str(ours[name]) for name in differs)
    return (
        f"Tuned ones are known for {there} alone, and this run has {here}; "
        f"to find its own: {tune_command(config)}"
    )
