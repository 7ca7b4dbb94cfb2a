"""`train tune`: measure or look up, then the table, the choice, the reason and the YAML."""

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from typing import Any, Callable, Dict, Iterator

import torch

from train import machine
from train.accelerator import Accelerator, ModelAccelerator, SimulatedAccelerator
from train.accelerator_choice import Asked, parse_accelerator
from train.config import Config
from train.console import say
from train.data.sources.splits import Splits
from train.model import check_model, check_name
from train.precision import choose_precision
from train.prepare import choose_device, open_data
from train.signals import StopAtOnce
from train.tune import cache
from train.tune.choose import tuned_settings
from train.tune.known import CHILD_OF, device_name, identity
from train.tune.options import TuneOptions
from train.tune.show import show


def tune(config: Config, options: TuneOptions, cpus: machine.Measure[int]) -> int:
    """Run the command.

    Args:
        config: the settings of the run that is tuned.
        options: of the command itself.
        cpus: usable CPUs, read before torch was imported.

    Returns:
        The exit code.

    Raises:
        TrainError: what the user can mend.
        Interrupted: Ctrl-C or SIGTERM.
    """
    _end_with_the_parent()
    with StopAtOnce() as stop:
        return _tune(config, options, cpus, stop)


def _tune(
    config: Config, options: TuneOptions, cpus: machine.Measure[int], stop: StopAtOnce
) -> int:
    with _output_elsewhere(options.json):
        asked = _resolved(parse_accelerator(options.accelerator), config)
        if torch.get_num_threads() > cpus.value:
            torch.set_num_threads(cpus.value)
        torch.manual_seed(config.run.seed)
        torch.backends.cudnn.benchmark = asked.kind == "cuda"
        if asked.kind != "sim":
            check_name(config.model.name)
        begin = time.perf_counter()
        splits = open_data(config)
        key = cache.key_of(
            config, _name(asked), cpus.value, identity(splits, config), device_name(asked.kind)
        )
        known = None if options.fresh else cache.look_up(key)
        note = f"known for this machine since {known.made}; --fresh measures again" if known else ""
        if known is None:
            left = max(5.0, options.seconds - (time.perf_counter() - begin))
            accelerator = make_accelerator(asked, config, len(splits.classes), splits)
            say(f"tuning    for {accelerator.name}, on {cpus.value} CPU(s) ({cpus.source})")
            known = tuned_settings(
                config, splits.train, accelerator, cpus, left, _progress(begin, stop), splits.kind
            )
            problem = "" if known.doubtful else cache.keep(key, known)
            if problem:
                say(f"warning: the choice can't be kept for the next run: {problem}")
    if options.json:
        found: Dict[str, Any] = {"known": bool(note), **known.to_json()}
        print(json.dumps(found, indent=1))  # noqa: T201
    else:
        show(known, config, note, asked.kind == "sim")
    return 0


def make_accelerator(asked: Asked, config: Config, classes: int, splits: Splits) -> Accelerator:
    """The accelerator that was asked for, with the run's model where it is real.

    Raises:
        TrainError: no such device, no such model, or it does not fit the images.
    """
    if asked.kind == "sim":
        assert asked.images_per_s is not None
        return SimulatedAccelerator(asked.images_per_s)
    device = choose_device(asked.kind)
    smallest = min(2, config.data.batch_size, len(splits.train))
    check_model(config.model.name, classes, config.data.image_size, smallest)
    precision = choose_precision(config.run.precision, device)
    return ModelAccelerator(
        device, config.model.name, classes, precision, config.optim.label_smoothing
    )


def _resolved(asked: Asked, config: Config) -> Asked:
    """auto: what the run would use."""
    if asked.kind != "auto":
        return asked
    return Asked(choose_device(config.run.device).type)


def _name(asked: Asked) -> str:
    return asked.kind if asked.images_per_s is None else f"sim:{asked.images_per_s:g}"


def _progress(begin: float, stop: StopAtOnce) -> Callable[[str], None]:
    def tell(text: str) -> None:
        stop.look()
        say(f"{time.perf_counter() - begin:6.1f} s  {text}", indent=10)

    return tell


@contextlib.contextmanager
def _output_elsewhere(as_json: bool) -> Iterator[None]:
    """With --json what is told meanwhile goes to standard error: output is one JSON object."""
    if not as_json:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _end_with_the_parent() -> None:
    """A tuner that a run has started ends with it, even when the run is killed."""
    parent = os.environ.pop(CHILD_OF, "")
    if parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, sys/prctl.h
        if str(os.getppid()) != parent:  # it ended before
            os._exit(1)
