"""Stop 9 of the line: device batch -> loss. One training epoch, one evaluation; nothing else."""

import itertools
import time
from typing import Callable, Iterable, List, Optional, Sequence

import torch
import torch.nn.functional as F

from train import ema
from train.checkpoint import State
from train.console import Bar
from train.data.batch import NO_LABEL, Batch
from train.data.prefetch import DeviceBatch
from train.dist import ALONE, Group
from train.diverged import Divergence
from train.errors import TrainError
from train.precision import MAX_SKIPPED_IN_A_ROW, Precision
from train.replica import Replica
from train.schedule import Schedule, windows
from train.scores import Scores, scores_of, sums_of
from train.timing import Timing, WaitClock

REFRESH_S = 1.0
"""Seconds between two looks at the loss: reading it makes the host wait for the device."""


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
    replica: Optional[Replica] = None,
    divergence: Optional[Divergence] = None,
) -> Timing:
    """Train to the end of the current epoch.

    Args:
        state: advanced in place: weights and their mean, step, samples_seen, train_sums (this
            rank's share).
        batches: of this epoch, from `state.samples_seen` on.
        batch_sizes: how large they will be, over all ranks; each window's loss is divided by its
            own number of samples.
        schedule: of the run.
        precision: of the run.
        device: where the model is.
        after_step: called when a step is done and the state is whole; True ends the epoch early.
        on_batch: called with each host batch (the ledger of bad samples).
        bar: moved on.
        replica: what computes; None: the model alone.
        divergence: watches the loss; None: one of its own.

    Raises:
        TrainError: the loss is no longer a number, or float16 overflows at every step.
    """
    state.model.train()
    replica = replica or Replica(state.model)
    divergence = divergence or Divergence(device)
    clock = WaitClock(device)
    stream = iter(clock.batches(batches))
    sums = state.train_sums.to(device)
    skipped_in_a_row, refreshed, begin = 0, 0.0, time.perf_counter()
    for window in windows(batch_sizes, schedule.accumulate):
        lr = schedule.lr(state)
        for group in state.optimizer.param_groups:
            group["lr"] = lr
        for number in range(len(window)):
            batch = next(stream)
            state.in_step = True
            on_batch(batch.host)
            with replica.micro_step(last=number == len(window) - 1):
                with precision.autocast(device):
                    logits = replica(batch.images)
                    losses = F.cross_entropy(
                        logits,
                        batch.labels,
                        reduction="none",
                        ignore_index=NO_LABEL,
                        label_smoothing=schedule.label_smoothing,
                    )
                    # The ranks' mean of this is the gradient of one process with all samples.
                    loss = losses.sum() * replica.size / sum(window)
                (loss if state.scaler is None else state.scaler.scale(loss)).backward()
            sums += sums_of(logits.detach(), batch.labels, losses.detach())
            divergence.note(loss.detach(), state.epoch, state.step + 1, batch.host.indices)
            bar.advance(batch.host.samples_seen - state.samples_seen)
            state.samples_seen = batch.host.samples_seen
            if number < len(window) - 1:
                clock.computed()
        stepped = _step(state)
        state.step += 1
        if stepped and state.average is not None:
            ema.update(
                state.average, state.model, schedule.ema or 0.0, state.step - state.skipped_steps
            )
        clock.computed()
        state.in_step = False
        skipped_in_a_row = 0 if stepped else skipped_in_a_row + 1
        if skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise TrainError(
                f"float16 gradients overflowed at {MAX_SKIPPED_IN_A_ROW} steps in a row "
                f"(step {state.step}); "
                "the model diverged: lower optim.lr, or use run.precision=bf16 or fp32"
            )
        if time.perf_counter() - refreshed >= REFRESH_S:
            refreshed = time.perf_counter()
            divergence.look()
            share = clock.wait_s / max(1e-9, refreshed - begin)
            bar.advance(0, f"loss {scores_of(sums).loss:.3f}  waiting {share:.0%}")
        state.train_sums = sums
        if after_step():
            break
    timing = clock.finish()
    state.train_sums = sums.cpu()
    divergence.refuse()
    return timing


def evaluate(
    model: torch.nn.Module,
    batches: Iterable[DeviceBatch],
    precision: Precision,
    device: torch.device,
    check_stop: Callable[[], None],
    on_batch: Callable[[Batch], None],
    bar: Bar,
    group: Group = ALONE,
    rounds: Optional[int] = None,
) -> Scores:
    """Score every validation sample once; bad samples count nowhere.

    Each batch's sums are kept, and added up in the order of the batches, in float64: the scores are
    the same to the last digit whichever rank had which batch.

    Args:
        model: left in evaluation mode.
        batches: one pass over this rank's.
        precision: of the run.
        device: where the model is.
        check_stop: called before each round, by all ranks; may raise to leave.
        on_batch: called with each host batch.
        bar: moved on.
        group: all ranks; in each round each of them has one batch, or none in the last.
        rounds: how many; None: until the batches end.
    """
    model.eval()
    rows: List[torch.Tensor] = []
    stream = iter(batches)
    with torch.no_grad():
        for _ in itertools.count() if rounds is None else range(rounds):
            batch = next(stream, None)
            if batch is None and rounds is None:
                break
            check_stop()
            if batch is None:
                continue
            on_batch(batch.host)
            with precision.autocast(device):
                logits = model(batch.images)
                losses = F.cross_entropy(
                    logits, batch.labels, reduction="none", ignore_index=NO_LABEL
                )
            rows.append(sums_of(logits, batch.labels, losses))
            bar.advance(len(batch.labels) * group.size)
    mine = torch.stack(rows).cpu().tolist() if rows else []
    dealt = itertools.zip_longest(*group.gather(mine))
    sums = torch.zeros(4, dtype=torch.float64)
    for row in (row for deal in dealt for row in deal if row is not None):
        sums += torch.tensor(row, dtype=torch.float64)
    return scores_of(sums)


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
