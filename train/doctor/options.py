"""What `train doctor` can be asked for."""

import dataclasses
import os
from typing import Any, Optional

from train.accelerator_choice import add_accelerator, parse_known_accelerator
from train.errors import ConfigError

DESCRIPTION = """Say what keeps the accelerator waiting, and what mends it.

  train doctor                                      the machine alone
  train doctor --data.path DIR                      and the way of the data
  train doctor --data.path DIR --apply              measure what the mend gains
  train doctor --dataset mypkg.data:make_dataset    a data set of your own

First the machine, each finding with its mend. Then the way of the data by
differences: synthetic batches, cached batches, data in memory, data from the
disk. One verdict: disk, CPU decode, CPU augmentation, transport, copy to the
device, or the model itself; its evidence, and where one mends it, a command.

Exit codes: 0 done; 2 something to mend in what was asked; 130 Ctrl-C.
"""


@dataclasses.dataclass(frozen=True)
class DoctorOptions:
    """One examination.

    Attributes:
        accelerator: auto, cpu, cuda, sim:IMAGES_PER_S.
        dataset: module:function that makes a data set of your own; None: data.path.
        apply: measure the gain of the mend.
        json: print one JSON object and nothing else.
    """

    accelerator: str = "auto"
    dataset: Optional[str] = None
    apply: bool = False
    json: bool = False

    def __post_init__(self) -> None:
        """Check what can be checked at once."""
        parse_known_accelerator(self.accelerator)
        if self.dataset is not None and self.dataset.count(":") != 1:
            raise ConfigError(f"--dataset must be module:function, got {self.dataset!r}")
        if self.dataset is not None:
            _check_module(*self.dataset.split(":"))


def _check_module(module: str, function: str) -> None:
    """It is a module, not the path of its file."""
    if "/" not in module and not module.endswith(".py"):
        return
    folder, name = os.path.split(module[:-3] if module.endswith(".py") else module)
    started = f", started in {folder}" if folder else ""
    raise ConfigError(
        f"--dataset names a module as it is imported, not its file: write {name}:{function}"
        f"{started} (or with PYTHONPATH={folder or '.'})"
    )


def add_options(parser: Any) -> None:
    """Add them to a parser that has the settings of a run already."""
    add_accelerator(parser)
    add = parser.add_argument
    add(
        "--dataset",
        type=Optional[str],
        default=None,
        help="module:function that returns a map-style data set of your own. The module must be "
        "importable from the current folder: mypkg.data for mypkg/data.py here, or by PYTHONPATH.",
    )
    add("--apply", action="store_true", help="Apply the mend and measure what it gains.")
    add("--json", action="store_true", help="Print one JSON object and nothing else.")


def from_namespace(chosen: Any) -> DoctorOptions:
    """The options from what was parsed.

    Raises:
        ConfigError: a value out of its range.
    """
    return DoctorOptions(**{f.name: chosen[f.name] for f in dataclasses.fields(DoctorOptions)})
