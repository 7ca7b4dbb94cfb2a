"""Stop 9 of the line: device batch -> loss. One training epoch, one evaluation; nothing else."""

import math
import time
from typing import Callable, Iterable, List, NamedTuple, Optional, Sequence

import torch
import torch.nn.functional as F

from train.checkpoint import State
from train.console import Bar
from train.data.batch import NO_LABEL, Batch
from train.data.prefetch import DeviceBatch
from train.errors import TrainError
from train.model import learning_rate
from train.precision import MAX_SKIPPED_IN_A_ROW, Precision
from train.timing import Timing, WaitClock

REFRESH_S = 1.0
"""Seconds between two looks at the loss: reading it makes the host wait for the device."""


class Schedule(NamedTuple):
    """How long and how fast.

    Attributes:
        total_steps, warmup_steps: optimizer steps of the whole run.
        peak_lr: highest learning rate.
        accumulate: batches per step.
        label_smoothing: share of the target spread over all classes.
        max_steps: stop after so many steps; None: at the end.
    """

    total_steps: int
    warmup_steps: int
    peak_lr: float
    accumulate: int
    label_smoothing: float
    max_steps: Optional[int]


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


def windows(batch_sizes: Sequence[int], accumulate: int) -> List[List[int]]:
    """Group the batches of an epoch into optimizer steps; the last window may be shorter."""
    return [list(batch_sizes[i : i + accumulate]) for i in range(0, len(batch_sizes), accumulate)]


def train_epoch(
    state: State,
    batches: Iterable[DeviceBatch],
    batch_sizes: Sequence[int],
    schedule: Schedule,
    precision: Precision,
    device: torch.device,
    after_step: Callable[[], bool],
    on_batch: Callable[[Batch], None],
    bar: Bar,
) -> Timing:
    """Train to the end of the current epoch.

    Args:
        state: advanced in place: weights, step, samples_seen, train_sums.
        batches: of this epoch, from `state.samples_seen` on.
        batch_sizes: how large they will be; each window's loss is divided by its own number of
            samples.
        schedule: of the run.
        precision: of the run.
        device: where the model is.
        after_step: called when a step is done and the state is whole; True ends the epoch early.
        on_batch: called with each host batch (the ledger of bad samples).
        bar: moved on.

    Raises:
        TrainError: the loss is no longer a number, or float16 overflows at every step.
    """
    state.model.train()
    clock = WaitClock(device)
    stream = iter(clock.batches(batches))
    sums = state.train_sums.to(device)
    skipped_in_a_row, refreshed, begin = 0, 0.0, time.perf_counter()
    for window in windows(batch_sizes, schedule.accumulate):
        lr = learning_rate(
            state.step - state.skipped_steps,
            schedule.total_steps,
            schedule.warmup_steps,
            schedule.peak_lr,
        )
        for group in state.optimizer.param_groups:
            group["lr"] = lr
        for number in range(len(window)):
            batch = next(stream)
            on_batch(batch.host)
            with precision.autocast(device):
                logits = state.model(batch.images)
                losses = F.cross_entropy(
                    logits, batch.labels, reduction="none", label_smoothing=schedule.label_smoothing
                )
                loss = losses.sum() / sum(window)
            (loss if state.scaler is None else state.scaler.scale(loss)).backward()
            sums += _sums(logits.detach(), batch.labels, losses.detach())
            state.samples_seen = batch.host.samples_seen
            bar.advance(len(batch.labels))
            if number < len(window) - 1:
                clock.computed()
        stepped = _step(state)
        clock.computed()
        state.step += 1
        skipped_in_a_row = 0 if stepped else skipped_in_a_row + 1
        if skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise TrainError(
                f"float16 gradients overflowed at {MAX_SKIPPED_IN_A_ROW} steps in a row "
                f"(step {state.step}); "
                "the model diverged: lower optim.lr, or use run.precision=bf16 or fp32"
            )
        if time.perf_counter() - refreshed >= REFRESH_S:
            refreshed = time.perf_counter()
            mean = _scores(sums).loss
            refuse_nan(mean, state)
            share = clock.wait_s / max(1e-9, refreshed - begin)
            bar.advance(0, f"loss {mean:.3f}  waiting {share:.0%}")
        state.train_sums = sums
        if after_step():
            break
    timing = clock.finish()
    state.train_sums = sums.cpu()
    refuse_nan(_scores(state.train_sums).loss, state)
    return timing


def evaluate(
    model: torch.nn.Module,
    batches: Iterable[DeviceBatch],
    precision: Precision,
    device: torch.device,
    check_stop: Callable[[], None],
    on_batch: Callable[[Batch], None],
    bar: Bar,
) -> Scores:
    """Score every validation sample once; bad samples count nowhere.

    Args:
        model: left in evaluation mode.
        batches: one pass.
        precision: of the run.
        device: where the model is.
        check_stop: called before each batch; may raise to leave.
        on_batch: called with each host batch.
        bar: moved on.
    """
    model.eval()
    sums = torch.zeros(4, dtype=torch.float64, device=device)
    with torch.no_grad():
        for batch in batches:
            check_stop()
            on_batch(batch.host)
            with precision.autocast(device):
                logits = model(batch.images)
                losses = F.cross_entropy(
                    logits, batch.labels, reduction="none", ignore_index=NO_LABEL
                )
            sums += _sums(logits, batch.labels, losses)
            bar.advance(len(batch.labels))
    return _scores(sums)


def train_scores(state: State) -> Scores:
    """Means of the current epoch so far."""
    return _scores(state.train_sums)


def _step(state: State) -> bool:
    """One optimizer step; False when float16 gradients overflowed and it was skipped."""
    stepped = True
    if state.scaler is None:
        state.optimizer.step()
    else:
        scale = state.scaler.get_scale()
        state.scaler.step(state.optimizer)
        state.scaler.update()
        stepped = state.scaler.get_scale() >= scale
        state.skipped_steps += 0 if stepped else 1
    state.optimizer.zero_grad(set_to_none=True)
    return stepped


def _sums(logits: torch.Tensor, labels: torch.Tensor, losses: torch.Tensor) -> torch.Tensor:
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


def _scores(sums: torch.Tensor) -> Scores:
    loss, top1, top5, samples = sums.tolist()
    count = max(1.0, samples)
    return Scores(loss / count, top1 / count, top5 / count, int(samples))


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
