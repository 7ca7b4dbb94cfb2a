"""The one place for metric loggers beside TensorBoard: Weights & Biases, MLflow, your own.

A logger is a context manager. It is given the run's folder and its settings, and yields a function
that is called with each epoch's row, the same row that goes to metrics.jsonl:

```
@contextlib.contextmanager
def weights_and_biases(folder, settings):
    with wandb.init(project="flowers", name=folder.name, config=settings) as run:
        yield lambda row: run.log(numbers(row), step=row["epoch"])
```

Name it in LOGGERS below, and every run has it: by make, on several GPUs, in the container. From a
program of your own: `register(weights_and_biases)`, then `train.__main__.main(["fit", ...])`.

Only rank 0 logs. A logger that can't begin ends the run before its first step, since nothing is
lost yet; later its errors are told once, and the run goes on.
"""

from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, List, Optional

import yaml

from train.console import say
from train.errors import SetupError

Row = Dict[str, Any]
"""An epoch: "epoch" (from 0), "step", "lr", "train_loss", "val_top1", "images_per_s",
"data_wait_share" ... (README, "A run's folder"); None where there is no value."""

Logger = Callable[[Path, Dict[str, Any]], ContextManager[Callable[[Row], None]]]

LOGGERS: List[Logger] = []
"""Loggers of every run of this checkout: write yours above, and its name here."""


def register(logger: Logger) -> None:
    """Add a logger to the runs of this program."""
    if logger not in LOGGERS:
        LOGGERS.append(logger)


def numbers(row: Row) -> Dict[str, float]:
    """The row without texts and what has no value: what a service for metrics takes."""
    return {name: value for name, value in row.items() if isinstance(value, (int, float))}


class Loggers:
    """All loggers of one run.

    Args:
        folder: of the run.
        config: file with its settings, YAML.
    """

    def __init__(self, folder: Path, config: Path):
        self._folder, self._config = folder, config
        self._open: List[ContextManager[Any]] = []
        self._told: Dict[str, Optional[Callable[[Row], None]]] = {}

    def __enter__(self) -> "Loggers":
        if not LOGGERS:
            return self
        settings = yaml.safe_load(self._config.read_text(encoding="utf-8"))
        for logger in list(LOGGERS):
            name = getattr(logger, "__name__", type(logger).__name__)
            try:
                opened = logger(self._folder, settings)
                self._told[name] = opened.__enter__()
            except Exception as error:
                self.__exit__(type(error), error, error.__traceback__)
                raise SetupError(
                    f"the metric logger {name} can't begin: {type(error).__name__}: {error}; mend "
                    "it, or take it out of LOGGERS in train/loggers.py"
                ) from error
            self._open.append(opened)
        return self

    def epoch(self, row: Row) -> None:
        """Hand one epoch to each of them."""
        for name, tell in self._told.items():
            if tell is None:
                continue
            try:
                tell(dict(row))
            except Exception as error:
                self._told[name] = None
                say(
                    f"warning: the metric logger {name} failed and is not called again: "
                    f"{type(error).__name__}: {error}. The run goes on"
                )

    def __exit__(self, *error: Any) -> None:
        while self._open:
            opened = self._open.pop()
            try:
                opened.__exit__(*error)
            except Exception as problem:
                if problem is not error[1]:  # one that was only passed on
                    say(f"warning: a metric logger did not end well: {problem}")
