"""What a run needs before its first step: device, data, settings, loaders, schedule."""

import dataclasses
import math
import time
from collections import Counter
from typing import Any, Dict, List, NamedTuple

import numpy as np
import torch

from train import machine
from train.config import Config
from train.console import say
from train.data import build_loader
from train.data.decode import describe
from train.data.loader import Loader
from train.data.sampler import Sampler
from train.data.settings import LoaderSettings, MachineView, Requested, Setting, choose
from train.data.sources import Source
from train.data.sources.folder import describe_skipped
from train.data.sources.splits import Splits, open_splits
from train.errors import BadSample, SetupError
from train.loop import Schedule
from train.precision import Precision
from train.run_folder import RunFolder

LOOKED_AT = 16
"""Images whose content is looked at, to say at the start how it is decoded."""

IMAGES_PER_LR = 256
"""The linear scaling rule: a peak learning rate of 0.1 for so many images a step."""


class Loaders(NamedTuple):
    """The two loaders of a run."""

    train: Loader
    val: Loader


def choose_device(asked: str) -> torch.device:
    """Turn run.device into a device.

    Raises:
        SetupError: CUDA was asked for and is not there; says why where PyTorch knows.
    """
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = (
            f"this PyTorch is built for CUDA {torch.version.cuda}"
            if torch.version.cuda
            else "a CPU build"
        )
        raise SetupError(
            f"run.device=cuda, but PyTorch {torch.__version__} finds no GPU ({built}); "
            "check nvidia-smi and the driver's version, start containers with --gpus all, "
            "or use run.device=cpu"
        )
    return torch.device("cuda", torch.cuda.current_device())


def open_data(config: Config) -> Splits:
    """Scan the data folder and tell what was found; a slow disk is seen to go on."""
    begin = time.monotonic()

    def progress(count: int) -> None:
        nonlocal begin
        if time.monotonic() - begin > 2.0:
            begin = time.monotonic()
            say(f"scanning {config.data.path}: {count} images so far")

    splits = open_splits(
        config.data.path,
        config.data.val_share,
        config.run.seed,
        config.data.allow_empty_classes,
        progress,
        config.data.trust,
    )
    names = ", ".join(splits.classes[:6]) + (" ..." if len(splits.classes) > 6 else "")
    say(
        f"data      {splits.root}: {len(splits.train)} training and {len(splits.val)} validation "
        f"images, {len(splits.classes)} classes: {names}",
        indent=10,
    )
    for line in splits.notes + describe_skipped(splits.skipped):
        say(f"          {line}", indent=10)
    say(f"decode    {_how_decoded(splits.train, config.data.resize)}", indent=10)
    return splits


def _how_decoded(source: Source, resize: str) -> str:
    """How the records are decoded: their content says, of a few that are spread over the set."""
    ways: Counter[str] = Counter()
    for index in np.linspace(0, len(source) - 1, num=min(LOOKED_AT, len(source))).astype(int):
        try:
            ways[describe(source[int(index)].data, resize)] += 1
        except (BadSample, OSError):
            ways["unreadable"] += 1  # named when its batch is made
    looked = sum(ways.values())
    if len(ways) == 1:
        return f"{next(iter(ways))} (so it is with each of {looked} images looked at)"
    return "; ".join(f"{count} of {looked} {way}" for way, count in ways.most_common(5))


def choose_settings(
    config: Config, device: torch.device, cpus: machine.Measure[int]
) -> LoaderSettings:
    """The loader's settings for this machine, after raising its limit of open files."""
    data = config.data
    batch_bytes = data.batch_size * (data.image_size**2 * 3 + 8)
    machine.raise_open_file_limit()
    return choose(
        Requested(data.workers, data.prefetch, data.start_method, data.workers_kind),
        MachineView(device.type, cpus, machine.memory_limit_bytes(), machine.shm_free_bytes()),
        batch_bytes,
        batch_bytes,
    )


def build_loaders(config: Config, splits: Splits, settings: LoaderSettings) -> Loaders:
    """Both loaders; training ends with the last epoch, validation can be repeated for ever."""
    common: Dict[str, Any] = {"config": config.data, "settings": settings, "seed": config.run.seed}
    return Loaders(
        build_loader(splits.train, train=True, epochs=config.optim.epochs, **common),
        build_loader(splits.val, train=False, epochs=None, **common),
    )


def images_per_step(config: Config, sampler: Sampler) -> int:
    """Images of one optimizer step: what was asked for, but never more than there are."""
    return min(config.data.batch_size * config.optim.accumulate, sampler.samples_per_epoch)


def plan_schedule(config: Config, sampler: Sampler) -> Schedule:
    """Steps and learning rate of the whole run."""
    optim = config.optim
    per_epoch = math.ceil(len(sampler.batch_sizes()) / optim.accumulate)
    images = images_per_step(config, sampler)
    return Schedule(
        total_steps=per_epoch * optim.epochs,
        warmup_steps=round(per_epoch * min(optim.warmup_epochs, optim.epochs)),
        peak_lr=0.1 * images / IMAGES_PER_LR if optim.lr == "auto" else float(optim.lr),
        accumulate=optim.accumulate,
        label_smoothing=optim.label_smoothing,
        max_steps=config.run.max_steps,
    )


def explain(
    config: Config,
    device: torch.device,
    precision: Precision,
    schedule: Schedule,
    cpus: machine.Measure[int],
    sampler: Sampler,
) -> List[Setting]:
    """What was chosen beside the loader's settings, each with its reason."""
    images = images_per_step(config, sampler)
    why_lr = "set by optim.lr"
    if config.optim.lr == "auto":
        why_lr = f"0.1 per {IMAGES_PER_LR} images, {images} a step"
    why_device = "set by run.device"
    if config.run.device == "auto":
        why_device = "a GPU is there" if device.type == "cuda" else "PyTorch finds no GPU"
    threads = f"of PyTorch, within {cpus.value} usable CPUs ({cpus.source})"
    return [
        Setting("device", str(device), why_device),
        Setting("precision", precision.name, precision.reason),
        Setting("threads", torch.get_num_threads(), threads),
        Setting("peak learning rate", round(schedule.peak_lr, 6), why_lr),
        Setting(
            "steps", schedule.total_steps, f"optimizer steps in {config.optim.epochs} epoch(s)"
        ),
    ]


def announce(
    folder: RunFolder,
    settings: List[Setting],
    warnings: List[str],
    num_train: int,
    loaders: Loaders,
) -> None:
    """Print every number that was chosen, with its reason, and keep them in the run's folder."""
    say(f"run       {folder.path}")
    left_out = num_train - loaders.train.sampler.samples_per_epoch
    if left_out:
        say(
            f"          {left_out} image(s) of each epoch's order are left out: "
            "a last batch of 1 can't be normalised"
        )
    for setting in settings:
        say(f"{setting.name:<19} {setting.value!s:<8} {setting.reason}", indent=29)
    for warning in warnings:
        say(f"warning: {warning}")
    folder.write_json("settings.json", [dataclasses.asdict(setting) for setting in settings])
    folder.write_json("machine.json", [dataclasses.asdict(row) for row in machine.describe()])
