"""What a checkpoint holds: plain types only, and all that a resumed run needs to be exact.

A resumed run is bit-equal on the CPU, at the same number of ranks and threads. How it lies on the
disk: `checkpoint_file.py`.
"""

import dataclasses
import random
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch
from torch import nn

from train.config_changes import conflicts
from train.errors import CheckpointError
from train.model import unwrapped


@dataclasses.dataclass
class State:
    """All that changes while a run goes on.

    Attributes:
        model: with its weights.
        optimizer: with its momenta.
        scaler: of the loss; None without float16.
        average: running mean of the model's weights (ema.py), with `optim.ema`; else None.
        step: optimizer steps taken or skipped.
        skipped_steps: of them skipped, since float16 gradients overflowed.
        epoch: current pass.
        samples_seen: of this epoch, over all ranks; together with the seed all of the loader's
            state.
        train_sums: loss, top-1 and top-5 hits, and samples of this epoch so far, of this rank,
            float64 (4,).
        schedule_shift: steps that the learning rate's schedule is ahead of `step`, since a resume
            at another world size changed how many make an epoch.
        best_top1: best share of right validation answers so far.
        in_step: some batches of an optimizer step are done and some are not; nothing can be saved.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: Optional[Any] = None
    average: Optional[nn.Module] = None
    step: int = 0
    skipped_steps: int = 0
    epoch: int = 0
    samples_seen: int = 0
    train_sums: torch.Tensor = dataclasses.field(
        default_factory=lambda: torch.zeros(4, dtype=torch.float64)
    )
    best_top1: float = -1.0
    schedule_shift: int = 0
    in_step: bool = False

    @property
    def evaluated(self) -> nn.Module:
        """What is evaluated: the mean of the weights where there is one, else the model."""
        return self.model if self.average is None else self.average


@dataclasses.dataclass(frozen=True)
class Identity:
    """What a checkpoint belongs to; compared at resume.

    Attributes:
        config: all settings, flat.
        classes: their names in order.
        num_train: training images.
        num_val: validation images.
        lock: hash of the environment's lock, '' outside of one.
    """

    config: Dict[str, Any]
    classes: Tuple[str, ...]
    num_train: int
    num_val: int
    lock: str = ""


_NEEDED = {
    *("model", "optimizer", "scaler", "step", "loader", "best_top1"),
    *("config", "classes", "num_train", "num_val", "lock", "torch"),
}
"""What every checkpoint of a run has, of whatever format."""


def content_of(state: State, identity: Identity, ranks: List[Dict[str, Any]]) -> Dict[str, Any]:
    """All that a run needs to go on, as plain types and tensors.

    Args:
        state: the run.
        identity: what it belongs to.
        ranks: `rank_content` of each.
    """
    return {
        # What was evaluated, whoever reads it; with a mean, what training goes on from is beside.
        "model": _weights(state.evaluated),
        "raw_model": None if state.average is None else _weights(state.model),
        "optimizer": state.optimizer.state_dict(),
        "scaler": state.scaler.state_dict() if state.scaler is not None else None,
        "step": state.step,
        "skipped_steps": state.skipped_steps,
        "schedule_shift": state.schedule_shift,
        "loader": {
            "seed": identity.config["run.seed"],
            "epoch": state.epoch,
            "samples_seen": state.samples_seen,
        },
        "best_top1": state.best_top1,
        "ranks": ranks,
        "config": identity.config,
        "classes": list(identity.classes),
        "num_train": identity.num_train,
        "num_val": identity.num_val,
        "lock": identity.lock,
        "torch": str(torch.__version__),
    }


def _weights(model: nn.Module) -> Dict[str, torch.Tensor]:
    return {unwrapped(name): value for name, value in model.state_dict().items()}


def rank_content(state: State) -> Dict[str, Any]:
    """What differs from rank to rank."""
    return {"train_sums": state.train_sums.cpu().tolist(), "rng": _rng_state()}


def check(content: Dict[str, Any], identity: Identity, path: Path) -> List[str]:
    """Compare a checkpoint with the run that wants to go on from it.

    Returns:
        Warnings: another lock, another PyTorch.

    Raises:
        CheckpointError: no checkpoint of a run; other settings (the keys are named), other classes,
            another number of images.
    """
    missing = sorted(_NEEDED - set(content))
    if missing:
        raise CheckpointError(
            f"{str(path)!r} is no checkpoint of a run: it has no {missing[0]!r}; "
            "take another one of its folder, or start a new run"
        )
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


def restore(content: Dict[str, Any], state: State, rank: int = 0, world_size: int = 1) -> None:
    """Put a checkpoint's content into the run's state, random generators included.

    At another world size the sums so far go to rank 0, and ranks that were not there before start
    generators of their own.
    """
    raw = content.get("raw_model")  # not in checkpoints of before 2026-12
    if state.average is not None:
        state.average.load_state_dict(content["model"])
    state.model.load_state_dict(content["model"] if raw is None else raw)
    state.optimizer.load_state_dict(content["optimizer"])
    if state.scaler is not None and content["scaler"] is not None:
        state.scaler.load_state_dict(content["scaler"])
    state.step, state.skipped_steps = content["step"], content["skipped_steps"]
    state.schedule_shift = content.get("schedule_shift", 0)
    state.epoch, state.samples_seen = content["loader"]["epoch"], content["loader"]["samples_seen"]
    state.best_top1 = content["best_top1"]
    ranks = saved_ranks(content)
    rows = torch.tensor([row["train_sums"] for row in ranks], dtype=torch.float64)
    if len(ranks) != world_size:
        total = rows.cumsum(0)[-1]
        rows = torch.zeros(world_size, 4, dtype=torch.float64)
        rows[0] = total
    state.train_sums = rows[rank].clone()
    if rank < len(ranks):
        _set_rng_state(ranks[rank]["rng"])
    else:
        seed_rank(content["loader"]["seed"], rank, state.step)


def saved_ranks(content: Dict[str, Any]) -> List[Dict[str, Any]]:
    """What each rank had when the checkpoint was written."""
    return content.get("ranks") or [{key: content[key] for key in ("train_sums", "rng")}]


def seed_rank(seed: int, rank: int, step: int = 0) -> None:
    """Let a rank draw numbers of its own (dropout), other ones than rank 0."""
    key = int(np.random.Philox(key=[seed, rank], counter=step).random_raw())
    torch.manual_seed(key % 2**63)


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
        # This rank's device alone: asking another one would take memory there.
        "cuda": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],
    }


def _set_rng_state(rng: Dict[str, Any]) -> None:
    version, words, gauss = rng["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = rng["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(rng["torch"])
    if rng["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state(rng["cuda"][0])
