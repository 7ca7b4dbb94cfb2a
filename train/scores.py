"""Loss and right answers: sums of a batch, means over an epoch and all ranks."""

import math
from typing import NamedTuple

import torch

from train.checkpoint import State
from train.data.batch import NO_LABEL
from train.dist import ALONE, Group
from train.errors import TrainError


class Scores(NamedTuple):
    """Means over the samples that count.

    Attributes:
        loss: cross entropy.
        top1, top5: share of right answers among the best one, the best five.
        samples: how many counted.
    """

    loss: float
    top1: float
    top5: float
    samples: int


def sums_of(logits: torch.Tensor, labels: torch.Tensor, losses: torch.Tensor) -> torch.Tensor:
    """Loss, top-1 hits, top-5 hits and count of one batch, float64 (4,).

    It does not wait for the device.
    """
    counts = labels != NO_LABEL
    best = logits.topk(min(5, logits.shape[1]), dim=1).indices
    # A diverged model's NaNs would all "hit" class 0.
    hits = (best == labels.unsqueeze(1)) & logits.isfinite().all(dim=1, keepdim=True)
    return torch.stack(
        [
            losses.double().sum(),
            hits[:, 0].sum().double(),
            hits.any(dim=1).sum().double(),
            counts.sum().double(),
        ]
    )


def scores_of(sums: torch.Tensor) -> Scores:
    """Means from such sums, float64 (4,)."""
    loss, top1, top5, samples = sums.tolist()
    count = max(1.0, samples)
    return Scores(loss / count, top1 / count, top5 / count, int(samples))


def train_scores(state: State, group: Group = ALONE) -> Scores:
    """Means of the current epoch so far, over all ranks."""
    sums = torch.zeros(4, dtype=torch.float64)
    for row in group.gather(state.train_sums.tolist()):
        sums += torch.tensor(row, dtype=torch.float64)
    return scores_of(sums)


def refuse_nan(loss: float, state: State, what: str = "training") -> None:
    """Stop a run whose loss is no longer a number, before such weights are saved.

    Raises:
        TrainError: says at which step and what to lower.
    """
    if not math.isfinite(loss):
        raise TrainError(
            f"the {what} loss is {loss} at epoch {state.epoch + 1}, step {state.step}: the model "
            "diverged; lower optim.lr or raise optim.warmup_epochs. What was saved before is intact"
        )
