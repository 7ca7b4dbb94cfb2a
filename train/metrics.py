"""What is known after an epoch: one row for files and plots, one line for people."""

import time
from typing import Any, Dict, Iterator, Tuple

from train.checkpoint import State
from train.scores import Scores
from train.timing import Timing

_SCALARS = {
    "lr": "lr",
    "train_loss": "loss/train",
    "val_loss": "loss/val",
    "train_top1": "top1/train",
    "val_top1": "top1/val",
    "images_per_s": "loader/images_per_s",
    "data_wait_share": "loader/data_wait_share",
}


def epoch_row(
    state: State,
    train: Scores,
    val: Scores,
    timing: Timing,
    images: int,
    classes: int,
    more: Dict[str, Any],
) -> Dict[str, Any]:
    """One row of metrics.jsonl.

    Args:
        state: the run at the end of the epoch's training.
        train: means of the training batches, with augmentation and label smoothing.
        val: means over the validation set.
        timing: of the training batches.
        images: trained on since the run was (re)started; 0 when the epoch's training was resumed at
            its end: then there is no speed to report.
        classes: of the data set; among five or fewer the best five are always right, so top-5 says
            nothing and is left out.
        more: further fields, those of `stages.stage_columns` among them.
    """
    known = images > 0 and timing.total_s > 0
    return {
        "epoch": state.epoch,
        "step": state.step,
        "lr": state.optimizer.param_groups[0]["lr"],
        "train_loss": train.loss,
        "train_top1": train.top1,
        "train_top5": train.top5 if classes > 5 else None,
        "val_loss": val.loss,
        "val_top1": val.top1,
        "val_top5": val.top5 if classes > 5 else None,
        "val_samples": val.samples,
        "images_per_s": images / timing.total_s if known else None,
        "data_wait_share": timing.wait_share if known else None,
        "first_batch_s": timing.first_batch_s if known else None,
        "skipped_steps": state.skipped_steps,
        **more,
        "time": time.time(),
    }


def scalars(row: Dict[str, Any]) -> Iterator[Tuple[str, float]]:
    """The row's curves, by their names in TensorBoard."""
    for name, tag in _SCALARS.items():
        if row[name] is not None:
            yield tag, row[name]


def epoch_line(row: Dict[str, Any], epochs: int) -> str:
    """One epoch for people."""
    parts = [
        f"epoch {row['epoch'] + 1}/{epochs}",
        f"loss {_loss(row['train_loss'])}",
        f"top-1 {row['train_top1']:.1%}",
        f"val loss {_loss(row['val_loss'])}",
        f"val top-1 {row['val_top1']:.1%}",
    ]
    if row["val_top5"] is not None:
        parts.append(f"val top-5 {row['val_top5']:.1%}")
    if row["images_per_s"] is not None:
        short = f" ({row['short_stage']})" if row.get("short_stage") else ""
        parts += [
            f"{row['images_per_s']:.0f} images/s",
            f"waiting for data {row['data_wait_share']:.1%}{short}",
            f"first batch {row['first_batch_s']:.2f} s",
        ]
    if row["gpu_util"] is not None:
        parts.append(f"GPU {row['gpu_util']:.0f} %")
    if row["bad_samples"]:
        parts.append(f"bad {row['bad_samples']}")
    if row["skipped_steps"]:
        parts.append(f"skipped steps {row['skipped_steps']}")
    return "  ".join(parts)


def _loss(value: float) -> str:
    return f"{value:.3f}" if value < 1e4 else f"{value:.1e}"
