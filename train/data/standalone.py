"""A loader in a program of somebody else's: everything that is not said is chosen here.

`train fit` puts the same parts together from a recipe (`train.prepare`).
"""

import dataclasses
import difflib
import logging
import os
from typing import Any, Dict, Literal, Optional, Tuple, Union, get_args, get_origin

import torch

from train import machine
from train.config import DataConfig
from train.data import build_loader
from train.data.device_loader import DeviceLoader
from train.data.settings import LoaderSettings, MachineView, Requested, choose
from train.data.sources.adopt import Adopted, adopt, is_source
from train.data.sources.splits import open_splits
from train.errors import ConfigError, SetupError

log = logging.getLogger("train.data")

SPLIT_SEED = 42
"""What is set aside for validation does not depend on a loader's seed: two loaders of one path
never share an image, whatever their seeds. It is the seed that a run has by default."""


def open_loader(
    data: Any,
    config: Optional[DataConfig],
    train: bool,
    seed: int,
    epochs: Optional[int],
    rank: Optional[int],
    world_size: Optional[int],
    device: Union[str, torch.device, None],
    options: Dict[str, Any],
) -> DeviceLoader:
    """Build a loader from what is said and what the machine offers; see `build_loader`.

    Raises:
        ConfigError: an option that there is not, or a value that it can't have; no ranks to be
            found.
        DataError: the path, or the data set, can't be used.
        SetupError: the device is not there.
    """
    config = with_options(config or DataConfig(), options)
    rank, world_size = ranks(rank, world_size)
    where = device_name(device)
    found = _found(data, config, train)
    settings = settings_for(config, where, own_samples=not is_source(found.data))
    for warning in settings.warnings:
        log.warning("%s", warning)
    host = build_loader(
        found.data, config, settings, train=train, seed=seed, epochs=epochs, rank=rank,
        world_size=world_size,
    )  # fmt: skip
    loader = DeviceLoader(host, where, settings, found.classes, config.bad_budget, found.how)
    log.info("loader of %s", loader)
    return loader


def with_options(config: DataConfig, options: Dict[str, Any]) -> DataConfig:
    """The settings of section `data` with some of them changed.

    Raises:
        ConfigError: there is no such one, or its value is out of its range or of another type.
    """
    fields = {field.name: field.type for field in dataclasses.fields(DataConfig)}
    for name, value in options.items():
        if name not in fields or name == "path":
            near = difflib.get_close_matches(name, [*fields, "train", "epochs", "device"], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"build_loader has no option {name!r}{hint}. It takes the settings of section "
                f"data: {', '.join(key for key in fields if key != 'path')}"
            )
        if not _fits(value, fields[name]):
            raise ConfigError(f"{name} must be {_words(fields[name])}, got {value!r}")
    return dataclasses.replace(config, **options)


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Union:
        return any(_fits(value, one) for one in get_args(kind))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _words(kind: Any) -> str:
    if get_origin(kind) is Union:
        return " or ".join(_words(one) for one in get_args(kind))
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return {int: "a whole number", float: "a number", bool: "True or False"}.get(kind, "a text")


def ranks(rank: Optional[int], world_size: Optional[int]) -> Tuple[int, int]:
    """This process among those that train together: as it was said, else as torch knows it.

    Raises:
        ConfigError: only one of the two was said; or several processes were started, but don't
            know each other yet.
    """
    if (rank is None) != (world_size is None):
        raise ConfigError("rank and world_size belong together: give both, or none")
    if rank is not None and world_size is not None:
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank must be 0 to world_size - 1, got {rank} of {world_size}")
        return rank, world_size
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        return group.get_rank(), group.get_world_size()
    told = os.environ.get("WORLD_SIZE", "1")
    if told.isdigit() and int(told) > 1:
        raise ConfigError(
            f"WORLD_SIZE is {told}, but torch.distributed has not begun, so each rank would train "
            "on all images: call init_process_group (Lightning and Accelerate do) before "
            "build_loader, or give rank= and world_size="
        )
    return 0, 1


def device_name(asked: Union[str, torch.device, None]) -> str:
    """The device as torch names it: "cuda" is this process's current GPU.

    Raises:
        ConfigError: there is no such kind of device.
        SetupError: CUDA was asked for and is not there.
    """
    if asked is None or asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(asked)
    except RuntimeError as error:
        text = str(error).splitlines()[0]
        raise ConfigError(
            f"device must be 'auto', 'cpu', 'cuda' or a torch.device, got {asked!r}: {text}"
        ) from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise SetupError(
            f"device={str(asked)!r}, but PyTorch {torch.__version__} finds no GPU; train info says "
            "what this machine offers; device='cpu' goes without"
        )
    return str(found)


def settings_for(config: DataConfig, device: str, own_samples: bool) -> LoaderSettings:
    """The loader's settings for this machine, as a run without tuning has them.

    Args:
        config: what is asked for.
        device: as torch names it.
        own_samples: samples of a data set's own making; float32 is assumed.
    """
    machine.raise_open_file_limit()
    view = MachineView(
        "cuda" if device.startswith("cuda") else "cpu",
        machine.usable_cpus(),
        machine.memory_limit_bytes(),
        machine.shm_free_bytes(),
        machine.local_ranks().value,
    )
    asked = Requested(config.workers, config.prefetch, config.workers_kind, own_samples)
    size = config.batch_size * (config.image_size**2 * (12 if own_samples else 3) + 8)
    return choose(asked, view, size, size)  # training and validation usually live side by side


def _found(data: Any, config: DataConfig, train: bool) -> Adopted:
    if not isinstance(data, (str, os.PathLike)):
        return adopt(data)
    splits = open_splits(
        os.fspath(data),
        config.val_share,
        SPLIT_SEED,
        config.allow_empty_classes,
        trust=config.trust == "code",
    )
    for note in splits.notes:
        log.log(logging.WARNING if note.startswith("warning") else logging.INFO, "%s", note)
    source = splits.train if train else splits.val
    return Adopted(source, splits.classes, f"the {splits.kind} {splits.root!r}")
