"""The model, its optimizer and its learning rate."""

import difflib
import math
from typing import Any, Dict, List, Tuple, Type

import torch
import torchvision
from torch import nn

from train import own_code
from train.errors import CheckpointError, ConfigError

MOMENTUM = 0.9
"""Of Nesterov's SGD, as every ImageNet recipe of torchvision has it."""

# What wrappers prepend to the names of weights.
_PREFIXES = ("module.", "_orig_mod.")


def build_model(name: str, num_classes: int) -> nn.Module:
    """Any classifier of torchvision, from scratch; or one of a user's own.

    Args:
        name: as torchvision.models lists it; or module:function, which is called with the number
            of classes and returns a module: images, float (B, 3, S, S), to logits (B, classes).
        num_classes: outputs of the last layer.

    Raises:
        ConfigError: no such model; the nearest names are given.
    """
    if ":" in name:
        model = own_code.call("model.name", name, "a model", num_classes)
        if not isinstance(model, nn.Module):
            raise ConfigError(
                f"model.name {name}: what it returns is {own_code.kind(model)}, expected an "
                "nn.Module"
            )
        return model
    check_name(name)
    options: Dict[str, Any] = {}
    if name in ("googlenet", "inception_v3"):  # their second heads would return more than logits
        options = {"aux_logits": False, "init_weights": True}
    return torchvision.models.get_model(name, weights=None, num_classes=num_classes, **options)


def check_name(name: str) -> None:
    """See that there is such a model, before anything that takes time; none is made.

    Args:
        name: see `build_model`.

    Raises:
        ConfigError: there is none; the nearest names are given.
    """
    if ":" in name:
        own_code.find("model.name", name, "a model")
        return
    names = torchvision.models.list_models(module=torchvision.models)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3) or names[:3]
        raise ConfigError(
            f"model.name: torchvision has no classifier {name!r}; did you mean {', '.join(near)}? "
            "One of your own is named module:function"
        )


def check_model(name: str, num_classes: int, image_size: int, batch: int) -> None:
    """Find out before a run begins whether the model takes such batches.

    Args:
        name: see `build_model`.
        num_classes: outputs of the last layer.
        image_size: side of the images, pixels.
        batch: images; the smallest batch that training will meet.

    Raises:
        ConfigError: the model's own reason: a fixed image size, too small an image, one image in
            a batch normalisation. Or what it gives is not one number for each class.
    """
    # Of a user's own model anything may come; torchvision's refuse a size in these ways.
    refusals: Tuple[Type[BaseException], ...] = (AssertionError, RuntimeError, ValueError)
    if ":" in name:
        refusals = (Exception, SystemExit)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # workers are not yet forked: no thread may exist that they would miss
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            model = build_model(name, num_classes).train()
            _refuse_unsized(name, model)
            logits = model(torch.zeros(batch, 3, image_size, image_size))
    except ConfigError:
        raise
    except refusals as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if ":" in name:
            reason = f"{own_code.told(error)}{own_code.place(error)}"
        raise ConfigError(
            f"model.name={name} can't be trained on batches of {batch} image(s) of {image_size} x "
            f"{image_size} pixels: {reason}; change data.image_size, data.batch_size or the model"
        ) from None
    finally:
        torch.set_num_threads(threads)
    shape = tuple(getattr(logits, "shape", ()))
    if shape != (batch, num_classes):
        raise ConfigError(
            f"model.name={name} gives {own_code.kind(logits)} of shape {shape} for {batch} "
            f"image(s), expected logits of shape ({batch}, {num_classes}): one for each class"
        )
    if not any(value.requires_grad for value in model.parameters()):
        raise ConfigError(f"model.name {name}: none of its parameters requires a gradient")


def _refuse_unsized(name: str, model: nn.Module) -> None:
    if any(isinstance(value, nn.parameter.UninitializedParameter) for value in model.parameters()):
        raise ConfigError(
            f"model.name {name}: it has layers whose size isn't known yet (such as LazyLinear); "
            "call it once before you return it: model(torch.zeros(2, 3, size, size))"
        )


def load_weights(model: nn.Module, path: str) -> List[str]:
    """Start from weights in a file.

    Args:
        model: gets the weights.
        path: a checkpoint of this package or a plain state dict.

    Returns:
        Names whose shape differs and which start anew, as those of the last layer do for another
        number of classes.

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
