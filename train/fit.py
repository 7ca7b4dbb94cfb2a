"""`train fit`: puts the parts of a run together, on each rank, and runs it."""

import torch

from train import machine, restart
from train.config import Config
from train.console import say
from train.dist import Group, together
from train.errors import SetupError
from train.memory_errors import memory_errors_explained
from train.model import check_model, check_name
from train.precision import choose_precision
from train.prepare import (
    build_loaders,
    choose_device,
    choose_settings,
    few_to_validate,
    open_data,
    refuse_other_data,
)
from train.run import Run
from train.run_folder import RunFolder
from train.stack_signal import stacks_on_signal


def fit(config: Config, cpus: machine.Measure[int]) -> RunFolder:
    """Train a model; under torchrun as one of its ranks.

    Args:
        config: all settings.
        cpus: usable CPUs of this rank, read before torch was imported (an OpenMP runtime may change
            the affinity).

    Returns:
        The run's folder.

    Raises:
        TrainError: what the user can mend; nothing that was saved is lost.
        Interrupted: a signal; the run was saved.
    """
    with together(config.run.device) as group:
        # An earlier attempt of the same launch may have begun; all ranks do as rank 0.
        return _fit(group.share(restart.gone_on(config) if group.is_first else config), cpus, group)


def _fit(config: Config, cpus: machine.Measure[int], group: Group) -> RunFolder:
    device = group.device(config.run.device) or choose_device(config.run.device)
    # torch counts CPUs, not the quota: more threads would be throttled.
    if torch.get_num_threads() > cpus.value:
        torch.set_num_threads(cpus.value)
    torch.manual_seed(config.run.seed)
    # One image size: pick the fastest kernels once.
    torch.backends.cudnn.benchmark = device.type == "cuda"
    if not config.run.resume:
        check_name(config.model.name)  # a typo is told before a long scan, and before any tuning
    splits = open_data(config)
    refuse_other_data(splits, group)
    few = few_to_validate(len(splits.val), len(splits.classes))
    if few:
        say(f"          {few}", indent=10)
    settings = choose_settings(config, device, cpus, splits, group)
    precision = choose_precision(config.run.precision, device)
    loaders = build_loaders(config, splits, settings, group)
    if not config.run.resume:
        smallest = min(2, config.data.batch_size)
        size = config.data.image_size
        check_model(config.model.name, len(splits.classes), size, smallest)
    folder = _open_folder(config, group)
    try:
        alone = folder.locked(group.is_first)
        with alone, stacks_on_signal(loaders), memory_errors_explained(config):
            run = Run(config, device, splits, settings, precision, folder, loaders, cpus, group)
            return run.go()
    except OSError as error:
        where = f" {error.filename!r}" if error.filename else ""
        raise SetupError(
            f"the system refused{where}: {error.strerror or error}; what was saved before is intact"
        ) from error
    finally:
        loaders.train.close()
        loaders.val.close()


def _open_folder(config: Config, group: Group) -> RunFolder:
    """The run's folder: rank 0 makes it or finds it, and is the only one to write there."""
    path = None
    if group.is_first:
        if config.run.resume:
            folder = RunFolder.open(config.run.resume)
        else:
            folder = RunFolder.create(config)
            restart.sign(folder)
        path = folder.path
    return RunFolder(group.share(path))
