"""What a run says before its first step: every number that was chosen, with its reason."""

import dataclasses
from typing import List

import torch

from train import machine
from train.config import Config
from train.console import say
from train.data.sampler import Sampler
from train.data.settings import Setting
from train.precision import Precision
from train.prepare import IMAGES_PER_LR, images_per_step
from train.run_folder import RunFolder
from train.schedule import Schedule


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
    ranks = []
    if sampler.world_size > 1:
        why = f"{config.data.batch_size} images a batch on each, {images} an optimizer step"
        ranks = [Setting("ranks", sampler.world_size, why)]
    threads = f"of PyTorch, within {cpus.value} usable CPUs ({cpus.source})"
    mean = []
    if config.optim.ema is not None:
        why = "set by optim.ema; the mean of the weights is evaluated, and best.pt holds it"
        mean = [Setting("EMA decay", config.optim.ema, why)]
    return [
        *ranks,
        Setting("device", str(device), why_device),
        Setting("precision", precision.name, precision.reason),
        Setting("threads", torch.get_num_threads(), threads),
        Setting("peak learning rate", round(schedule.peak_lr, 6), why_lr),
        Setting(
            "steps", schedule.total_steps, f"optimizer steps in {config.optim.epochs} epoch(s)"
        ),
        *mean,
    ]


def announce(
    folder: RunFolder,
    settings: List[Setting],
    warnings: List[str],
    data: str,
) -> None:
    """Print every number that was chosen, with its reason, and keep them in the run's folder."""
    say(f"run       {folder.path}")
    for setting in settings:
        value = "none" if setting.value is None else setting.value
        say(f"{setting.name:<19} {value!s:<8} {setting.reason}", indent=29)
    for warning in warnings:
        say(f"warning: {warning}")
    folder.write_json("settings.json", [dataclasses.asdict(setting) for setting in settings])
    rows = machine.describe(data)
    folder.write_json("machine.json", [dataclasses.asdict(row) for row in rows])
