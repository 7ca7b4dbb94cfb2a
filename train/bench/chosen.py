"""The settings of our arms: what the tuner chooses, and nothing by hand. The one place of it."""

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Tuple

from train import machine
from train.accelerator import Accelerator
from train.config import Config
from train.data.plan import Known, LoaderSettings, MachineView, Requested
from train.data.settings import choose
from train.tune.choose import tuned_settings
from train.tune.known import reason, to_choose

MOST_TUNE_S, LEAST_TUNE_S = 40.0, 8.0
"""What tuning may take for one arm, about."""

TUNE_TIMES = 8
"""In between: so many times as long as a measurement."""

USUAL_TUNE_S = 15.0
"""What it mostly takes at most: it ends as soon as it has seen enough."""

Chosen = Tuple[Dict[str, Any], List[str]]
"""Fields of `LoaderSettings`, and the reasons as lines."""


def choose_settings(
    config: Config,
    source: Any,
    accelerator: Callable[[], Accelerator],
    kind: str,
    container: str,
    cpus: machine.Measure[int],
    seconds: float,
    progress: Callable[[str], None],
) -> Chosen:
    """Choose for these data and this accelerator, as `train tune` does; measured anew.

    Args:
        config: all settings; what it says of the loader is kept.
        source: the training records.
        accelerator: makes what the loader feeds.
        kind: of it: "cpu", "cuda" or "sim".
        container: of the data.
        cpus: usable ones.
        seconds: of a measurement.
        progress: told what goes on, a line each.
    """
    known: Optional[Known] = None
    reasons = ["as set by data.workers, data.prefetch and data.workers_kind"]
    if to_choose(config):
        most_s = min(MOST_TUNE_S, max(LEAST_TUNE_S, TUNE_TIMES * seconds))
        tuned = tuned_settings(config, source, accelerator(), cpus, most_s, progress, container)
        why = reason(tuned, f"measured in {tuned.seconds:.0f} s")
        known = Known(tuned.workers, tuned.prefetch, tuned.workers_kind, why)
        reasons = [why]
    data = config.data
    batch_bytes = data.batch_size * (data.image_size**2 * 3 + 8)
    machine.raise_open_file_limit()
    settings = choose(
        Requested(data.workers, data.prefetch, data.workers_kind, known=known),
        # A simulated device leaves the CPUs to the loader, as a GPU does.
        MachineView(
            "cpu" if kind == "cpu" else "cuda",
            cpus,
            machine.memory_limit_bytes(),
            machine.shm_free_bytes(),
        ),
        batch_bytes,
    )
    settings = dataclasses.replace(settings, pin_memory=kind == "cuda")
    return as_fields(settings), reasons + settings.warnings


def as_fields(settings: LoaderSettings) -> Dict[str, Any]:
    """The settings as plain values, without their reasons."""
    return {**dataclasses.asdict(settings), "reasons": [], "warnings": []}
