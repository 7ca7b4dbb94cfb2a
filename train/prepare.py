"""What a run needs before its first step: device, data, settings, loaders, schedule."""

import hashlib
import math
import socket
import time
import warnings
from collections import Counter
from typing import Any, Dict, NamedTuple, Optional

import numpy as np
import torch

from train import machine
from train.config import Config
from train.console import say
from train.data import build_loader
from train.data.decode import describe
from train.data.loader import Loader
from train.data.sampler import Sampler
from train.data.settings import LoaderSettings, MachineView, Requested, choose
from train.data.sources import Source
from train.data.sources.skipped import describe_skipped
from train.data.sources.splits import Splits, open_splits
from train.dist import ALONE, Group
from train.driver import cuda_error_meaning
from train.errors import BadSample, DataError, SetupError
from train.schedule import Schedule
from train.tune.known import known_settings

LOOKED_AT = 16
"""Images whose content is looked at, to say at the start how it is decoded."""

FEW_IMAGES, FEW_A_CLASS = 100, 10
"""With fewer images to validate on, in all or a class, it is said that top-1 is coarse."""

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
    if asked == "cpu":
        return torch.device("cpu")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        is_there = torch.cuda.is_available()  # why it is not, PyTorch says in a warning
    meaning = cuda_error_meaning(" ".join(str(warning.message) for warning in told))
    if asked == "auto" and not is_there:
        if told:
            say(f"warning: no GPU is used: {meaning or told[0].message}")
        return torch.device("cpu")
    if not is_there:
        built = (
            f"this PyTorch is built for CUDA {torch.version.cuda}"
            if torch.version.cuda
            else "a CPU build"
        )
        raise SetupError(
            f"run.device=cuda, but PyTorch {torch.__version__} finds no GPU ({built}); "
            + (f"{meaning}; " if meaning else "")
            + "check nvidia-smi and the driver's version, start containers with --gpus all, "
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
        config.data.trust == "code",
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


def few_to_validate(num_images: int, num_classes: int) -> str:
    """That the scores of so few images tell little; '' where there are enough.

    Args:
        num_images: to validate on.
        num_classes: of the data.
    """
    if not num_images or num_images >= max(FEW_IMAGES, FEW_A_CLASS * num_classes):
        return ""
    each = (
        f"each is {round(100 / num_images, 1):g} points of top-1" if num_images < FEW_IMAGES else ""
    )
    rare = (
        f"about {round(num_images / num_classes, 1):g} a class"
        if num_images < FEW_A_CLASS * num_classes
        else ""
    )
    return (
        f"validation on few images: {num_images}, {', '.join(filter(None, (rare, each)))}. "
        "Small differences tell nothing; more of them, or a larger data.val_share where they are "
        "set aside, tell more"
    )


def refuse_other_data(splits: Splits, group: Group) -> None:
    """See that all ranks found the same images, whatever machine they are on.

    Raises:
        DataError: names the machines and what each has.
    """
    digest = hashlib.blake2b(repr(splits.classes).encode("utf-8", "backslashreplace"))
    for source in (splits.train, splits.val):
        for index in np.linspace(0, len(source) - 1, num=min(LOOKED_AT, len(source))).astype(int):
            digest.update(source.key(int(index)).encode("utf-8", "backslashreplace") + b"\0")
    mine = (len(splits.train), len(splits.val), digest.hexdigest())
    found = group.gather((socket.gethostname(), mine))
    odd = [rank for rank, (_, other) in enumerate(found) if other != found[0][1]]
    if odd:
        lines = "".join(
            f"\n  rank {rank} on {found[rank][0]}: {found[rank][1][0]} training and "
            f"{found[rank][1][1]} validation images, list {found[rank][1][2][:8]}"
            for rank in [0, *odd[:4]]
        )
        raise DataError(
            f"the ranks do not find the same data below {str(splits.root)!r}, so they would train "
            f"on other images than they say; mount or copy the same folder everywhere:{lines}"
        )


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
    config: Config,
    device: torch.device,
    cpus: machine.Measure[int],
    splits: Optional[Splits] = None,
    group: Group = ALONE,
) -> LoaderSettings:
    """The loader's settings for this machine, after raising its limit of open files.

    With `splits`, what is auto is what tuning has found for them; where it pays it is found now, by
    rank 0 for all.
    """
    data = config.data
    known = None
    if splits is not None:
        first = group.is_first
        known = group.share(known_settings(config, splits, device.type, cpus) if first else None)
    batch_bytes = data.batch_size * (data.image_size**2 * 3 + 8)
    machine.raise_open_file_limit()
    return choose(
        Requested(data.workers, data.prefetch, data.workers_kind, known=known),
        MachineView(
            device.type,
            cpus,
            machine.memory_limit_bytes(),
            machine.shm_free_bytes(),
            machine.local_ranks().value,
        ),
        batch_bytes,
        batch_bytes,
    )


def build_loaders(
    config: Config, splits: Splits, settings: LoaderSettings, group: Group = ALONE
) -> Loaders:
    """Both loaders; training ends with the last epoch, validation can be repeated for ever."""
    common: Dict[str, Any] = {
        "config": config.data,
        "settings": settings,
        "seed": config.run.seed,
        "rank": group.rank,
        "world_size": group.size,
    }
    return Loaders(
        build_loader(splits.train, train=True, epochs=config.optim.epochs, **common),
        build_loader(splits.val, train=False, epochs=None, **common),
    )


def images_per_step(config: Config, sampler: Sampler) -> int:
    """Images of one optimizer step on all ranks: what was asked for, never more than there are."""
    asked = config.data.batch_size * sampler.world_size * config.optim.accumulate
    return min(asked, sampler.num_samples)


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
        epochs=optim.epochs,
        ema=optim.ema,
    )
