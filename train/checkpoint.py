"""Checkpoints: whole or not there, plain types only, and exact.

A resumed run is bit-equal on the CPU.
"""

import dataclasses
import io
import random
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch
from torch import nn

from train.config import conflicts
from train.errors import CheckpointError
from train.files import write_whole
from train.model import unwrapped

FORMAT = 1


@dataclasses.dataclass
class State:
    """All that changes while a run goes on.

    Attributes:
        model, optimizer, scaler: scaler is None without float16.
        step: optimizer steps taken or skipped.
        skipped_steps: of them skipped, since float16 gradients overflowed.
        epoch: current pass.
        samples_seen: of this epoch, over all ranks; together with the seed all of the loader's
            state.
        train_sums: loss, top-1 and top-5 hits, and samples of this epoch so far, float64 (4,).
        best_top1: best share of right validation answers so far.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: Optional[Any] = None
    step: int = 0
    skipped_steps: int = 0
    epoch: int = 0
    samples_seen: int = 0
    train_sums: torch.Tensor = dataclasses.field(
        default_factory=lambda: torch.zeros(4, dtype=torch.float64)
    )
    best_top1: float = -1.0


@dataclasses.dataclass(frozen=True)
class Identity:
    """What a checkpoint belongs to; compared at resume.

    Attributes:
        config: all settings, flat.
        classes: their names in order.
        num_train, num_val: images.
        lock: hash of the environment's lock, '' outside of one.
    """

    config: Dict[str, Any]
    classes: Tuple[str, ...]
    num_train: int
    num_val: int
    lock: str = ""


def save(path: Path, state: State, identity: Identity, best: Optional[Path] = None) -> None:
    """Write a checkpoint.

    Args:
        path: where to, in one step.
        state: the run.
        identity: what it belongs to.
        best: also keep it under this name.

    Raises:
        SetupError: the disk is full or can't be written; the checkpoint that was there stays.
    """
    content = {
        "format": FORMAT,
        "model": {unwrapped(name): value for name, value in state.model.state_dict().items()},
        "optimizer": state.optimizer.state_dict(),
        "scaler": state.scaler.state_dict() if state.scaler is not None else None,
        "step": state.step,
        "skipped_steps": state.skipped_steps,
        "loader": {
            "seed": identity.config["run.seed"],
            "epoch": state.epoch,
            "samples_seen": state.samples_seen,
        },
        "train_sums": state.train_sums.cpu().tolist(),
        "best_top1": state.best_top1,
        "rng": _rng_state(),
        "config": identity.config,
        "classes": list(identity.classes),
        "num_train": identity.num_train,
        "num_val": identity.num_val,
        "lock": identity.lock,
        "torch": str(torch.__version__),
    }
    # Into memory first: torch.save turns a full disk into an error of its own archive format.
    memory = io.BytesIO()
    torch.save(content, memory)
    write_whole(path, memory.getbuffer(), best)


def load(path: Path) -> Dict[str, Any]:
    """Read a checkpoint; nothing in it can run code.

    Raises:
        CheckpointError: missing, torn, or of another format.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"no checkpoint at {str(path)!r}; was this run ever saved?") from None
    except PermissionError:
        raise CheckpointError(f"cannot read {str(path)!r}: permission denied") from None
    except Exception as error:  # a torn file raises whatever its half makes zip and pickle raise
        raise CheckpointError(
            f"{str(path)!r} is torn or no checkpoint ({type(error).__name__}); "
            "if the folder has another one (best.pt), copy it to last.pt"
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise CheckpointError(
            f"{str(path)!r} has format {found!r}, this version reads format {FORMAT}"
        )
    return content


def check(content: Dict[str, Any], identity: Identity, path: Path) -> List[str]:
    """Compare a checkpoint with the run that wants to go on from it.

    Returns:
        Warnings: another lock, another PyTorch.

    Raises:
        CheckpointError: other settings (the keys are named), other classes, another number of
            images.
    """
    changed = conflicts(content["config"], identity.config)
    if changed:
        raise CheckpointError(
            f"{str(path)!r} was written with other settings; a resumed run can't change what it "
            f"computes. Take these back, or start a new run with --model.weights {path}:\n  "
            + "\n  ".join(changed)
        )
    if tuple(content["classes"]) != tuple(identity.classes):
        raise CheckpointError(
            f"{str(path)!r} has {len(content['classes'])} classes, the data folder has "
            f"{len(identity.classes)}, or they differ in name or order; class numbers would shift"
        )
    for name, now in (("num_train", identity.num_train), ("num_val", identity.num_val)):
        if content[name] != now:
            raise CheckpointError(
                f"the data has changed: {name[4:]} had {content[name]} images and now has {now}, "
                "so the position in the epoch means something else; "
                "start a new run with --model.weights"
            )
    warnings = []
    if content["lock"] != identity.lock:
        warnings.append(
            f"this environment's lock ({identity.lock[:12] or 'none'}) is not the one that the "
            f"checkpoint was written under ({content['lock'][:12] or 'none'}): "
            "results may differ in the last digits"
        )
    if content["torch"] != str(torch.__version__):
        warnings.append(f"PyTorch was {content['torch']} and is {torch.__version__} now")
    return warnings


def restore(content: Dict[str, Any], state: State) -> None:
    """Put a checkpoint's content into the run's state, random generators included."""
    state.model.load_state_dict(content["model"])
    state.optimizer.load_state_dict(content["optimizer"])
    if state.scaler is not None and content["scaler"] is not None:
        state.scaler.load_state_dict(content["scaler"])
    state.step, state.skipped_steps = content["step"], content["skipped_steps"]
    state.epoch, state.samples_seen = content["loader"]["epoch"], content["loader"]["samples_seen"]
    state.train_sums = torch.tensor(content["train_sums"], dtype=torch.float64)
    state.best_top1 = content["best_top1"]
    _set_rng_state(content["rng"])


def _rng_state() -> Dict[str, Any]:
    """Python's, NumPy's and PyTorch's generators as plain lists and tensors.

    With weights_only, torch.load reads no more than that.
    """
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "python": [version, list(words), gauss],
        "numpy": [
            str(name),
            np.asarray(keys).tolist(),
            int(position),
            int(has_gauss),
            float(cached),
        ],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _set_rng_state(rng: Dict[str, Any]) -> None:
    version, words, gauss = rng["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = rng["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(rng["torch"])
    if rng["cuda"] and torch.cuda.is_available() and len(rng["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(rng["cuda"])
