"""The model, its optimizer and its learning rate."""

import difflib
import math
from typing import Any, Dict, List

import torch
import torchvision
from torch import nn

from train.errors import CheckpointError, ConfigError

MOMENTUM = 0.9
"""Of Nesterov's SGD, as every ImageNet recipe of torchvision has it."""

# What wrappers prepend to the names of weights.
_PREFIXES = ("module.", "_orig_mod.")


def build_model(name: str, num_classes: int) -> nn.Module:
    """Any classifier of torchvision, from scratch.

    Args:
        name: as torchvision.models lists it.
        num_classes: outputs of the last layer.

    Raises:
        ConfigError: no such model; the nearest names are given.
    """
    names = torchvision.models.list_models(module=torchvision.models)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3) or names[:3]
        raise ConfigError(
            f"model.name: torchvision has no classifier {name!r}; did you mean {', '.join(near)}?"
        )
    options: Dict[str, Any] = {}
    if name in ("googlenet", "inception_v3"):  # their second heads would return more than logits
        options = {"aux_logits": False, "init_weights": True}
    return torchvision.models.get_model(name, weights=None, num_classes=num_classes, **options)


def check_model(name: str, num_classes: int, image_size: int, batch: int) -> None:
    """Find out before a run begins whether the model takes such batches.

    Args:
        name: as torchvision.models lists it.
        num_classes: outputs of the last layer.
        image_size: side of the images, pixels.
        batch: images; the smallest batch that training will meet.

    Raises:
        ConfigError: the model's own reason: a fixed image size, too small an image, one image in
            a batch normalisation.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # workers are not yet forked: no thread may exist that they would miss
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            model = build_model(name, num_classes).train()
            model(torch.zeros(batch, 3, image_size, image_size))
    except ConfigError:
        raise
    except (AssertionError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"model.name={name} can't be trained on batches of {batch} image(s) of {image_size} x "
            f"{image_size} pixels: {reason}; change data.image_size, data.batch_size or the model"
        ) from None
    finally:
        torch.set_num_threads(threads)


def load_weights(model: nn.Module, path: str) -> List[str]:
    """Start from weights in a file.

    Args:
        model: gets the weights.
        path: a checkpoint of this package or a plain state dict.

    Returns:
        Names whose shape differs and which start anew: the last layer, for another number of
            classes.

    Raises:
        CheckpointError: no such file, not weights, or weights of another model (names that don't
            match).
    """
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"model.weights: no such file: {path!r}") from None
    except Exception as error:  # torch raises many types for what is no checkpoint
        raise CheckpointError(
            f"model.weights: {path!r} is no file of plain tensors: {type(error).__name__}; "
            "save a state dict with torch.save(model.state_dict(), path)"
        ) from None
    weights = loaded.get("model", loaded) if isinstance(loaded, dict) else None
    if not isinstance(weights, dict) or not all(
        isinstance(value, torch.Tensor) for value in weights.values()
    ):
        raise CheckpointError(f"model.weights: {path!r} holds no state dict")
    weights = {unwrapped(name): value for name, value in weights.items()}
    own = model.state_dict()
    missing, unknown = sorted(set(own) - set(weights)), sorted(set(weights) - set(own))
    if missing or unknown:
        raise CheckpointError(
            f"model.weights: {path!r} is of another model: {len(missing)} of {len(own)} weights "
            f"are missing ({', '.join(missing[:3])}), "
            f"{len(unknown)} are unknown ({', '.join(unknown[:3])}); check model.name"
        )
    differing = [name for name in own if own[name].shape != weights[name].shape]
    model.load_state_dict({**weights, **{name: own[name] for name in differing}})
    return differing


def unwrapped(name: str) -> str:
    """The name of a weight without what DDP and torch.compile prepend."""
    while name.startswith(_PREFIXES):
        name = name.split(".", 1)[1]
    return name


def build_optimizer(model: nn.Module, weight_decay: float) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum.

    Weight decay on weights only, not on biases and normalisation layers.

    Source: He et al., arXiv:1812.01187, section 3.1.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=0.0, momentum=MOMENTUM, nesterov=True)


def learning_rate(step: int, total_steps: int, warmup_steps: int, peak: float) -> float:
    """Linear warm-up, then a cosine to 0; a function of the step alone, so resume needs no state.

    Args:
        step: optimizer step, from 0.
        total_steps: of the whole run.
        warmup_steps: of the rise.
        peak: highest value.

    Source: Goyal et al., arXiv:1706.02677 (warm-up); Loshchilov, Hutter, arXiv:1608.03983 (cosine).
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    share = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return peak * 0.5 * (1.0 + math.cos(math.pi * min(1.0, share)))
