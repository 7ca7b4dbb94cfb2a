"""How an examination was asked for: the commands of its mends say the same again."""

import dataclasses
import shlex
from typing import Any, Dict, NamedTuple, Optional

from train.config import Config, flatten


class Asked(NamedTuple):
    """How the examination was asked for: its commands say the same again.

    Attributes:
        config: the settings of the run.
        dataset: module:function; None for data.path.
        accelerator: as it was asked for.
    """

    config: Config
    dataset: Optional[str] = None
    accelerator: str = "auto"

    def again(self, command: str, **settings: Any) -> str:
        """A command with the same settings of a run, but for these (`section__key`)."""
        words = ["train", command]
        if command == "doctor" and self.dataset:
            words += ["--dataset", self.dataset]
        if command == "doctor" and self.accelerator != "auto":
            words += ["--accelerator", self.accelerator]
        default = flatten(Config())
        wanted = flatten(changed(self.config, dotted(settings)))
        for key, value in wanted.items():
            if value != default[key] or (key == "data.path" and not self.dataset):
                words += [f"--{key}", "null" if value is None else str(value)]
        return " ".join(shlex.quote(word) for word in words)


def dotted(settings: Dict[str, Any]) -> Dict[str, Any]:
    """`section__key` as `section.key`."""
    return {key.replace("__", "."): value for key, value in settings.items()}


def changed(config: Config, settings: Dict[str, Any]) -> Config:
    """The settings with some changed, as `section.key: value`."""
    for name, value in settings.items():
        section, key = name.split(".")
        part = dataclasses.replace(getattr(config, section), **{key: value})
        config = dataclasses.replace(config, **{section: part})
    return config
