"""The training loop alone: windows, scores, refusals."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from train.checkpoint import State
from train.console import Bar
from train.data.batch import NO_LABEL, Batch
from train.data.prefetch import DeviceBatch
from train.errors import TrainError
from train.loop import evaluate, train_epoch
from train.model import build_optimizer, learning_rate
from train.precision import choose_precision
from train.schedule import Schedule, windows
from train.scores import train_scores

CPU = torch.device("cpu")
PRECISION = choose_precision("fp32", CPU)


def make_batches(sizes, seed=0, classes=3):
    generator = torch.Generator().manual_seed(seed)
    seen, batches = 0, []
    for size in sizes:
        images = torch.randn(size, 3, 4, 4, generator=generator)
        labels = torch.randint(0, classes, (size,), generator=generator)
        seen += size
        host = Batch(torch.empty(0), labels, 0, seen, np.arange(size), ())
        batches.append(DeviceBatch(images, labels, host))
    return batches


def linear(seed=1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 3))


def run(batches, sizes, accumulate, lr=0.1, after_step=lambda: False, model=None):
    model = model or linear()
    state = State(model, build_optimizer(model, 0.0))
    schedule = Schedule(1000, 0, lr, accumulate, 0.0, None)
    train_epoch(
        state, batches, sizes, schedule, PRECISION, CPU, after_step, lambda batch: None, Bar("t", 1)
    )
    return state


def test_windows_cover_every_batch_once():
    assert windows([8, 8, 8, 8, 8, 3], 4) == [[8, 8, 8, 8], [8, 3]]
    assert windows([], 4) == []


def test_the_last_partial_window_equals_one_large_batch():
    """10 batches in windows of 4: the last window of 2 is scaled by its own samples."""
    sizes = [4] * 9 + [2]
    parts = make_batches(sizes)
    small = run(parts, sizes, accumulate=4)
    groups = [parts[0:4], parts[4:8], parts[8:10]]
    joined, joined_sizes, seen = [], [], 0
    for group in groups:
        images = torch.cat([part.images for part in group])
        labels = torch.cat([part.labels for part in group])
        seen += len(labels)
        host = Batch(torch.empty(0), labels, 0, seen, np.arange(len(labels)), ())
        joined.append(DeviceBatch(images, labels, host))
        joined_sizes.append(len(labels))
    large = run(joined, joined_sizes, accumulate=1)
    assert small.step == large.step == 3
    for one, other in zip(small.model.parameters(), large.model.parameters()):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_scores_are_means_over_samples():
    sizes = [4, 4, 2]
    batches = make_batches(sizes)
    state = run(batches, sizes, accumulate=1, lr=1e-12)
    model = linear()
    logits = torch.cat([model(batch.images) for batch in batches])
    labels = torch.cat([batch.labels for batch in batches])
    scores = train_scores(state)
    assert scores.samples == 10
    assert scores.loss == pytest.approx(
        nn.functional.cross_entropy(logits, labels).item(), abs=1e-5
    )
    assert scores.top1 == pytest.approx((logits.argmax(1) == labels).float().mean().item())
    assert scores.top5 == 1.0  # of three classes


def test_evaluation_counts_no_bad_sample():
    batches = make_batches([4, 4])
    batches[0].labels[1] = NO_LABEL
    scores = evaluate(
        linear(), batches, PRECISION, CPU, lambda: None, lambda batch: None, Bar("t", 1)
    )
    kept = torch.cat([batch.labels for batch in batches]) != NO_LABEL
    logits = linear()(torch.cat([batch.images for batch in batches]))[kept]
    labels = torch.cat([batch.labels for batch in batches])[kept]
    assert scores.samples == 7
    assert scores.loss == pytest.approx(
        nn.functional.cross_entropy(logits, labels).item(), abs=1e-6
    )
    assert scores.top1 == pytest.approx((logits.argmax(1) == labels).float().mean().item())


def test_the_epoch_can_be_left_after_a_step():
    sizes = [4] * 5
    state = run(make_batches(sizes), sizes, accumulate=2, after_step=lambda: True)
    assert (state.step, state.samples_seen) == (1, 8)


def test_a_loss_that_is_no_number_ends_the_run():
    sizes = [4, 4]
    batches = make_batches(sizes)
    batches[1].images.fill_(math.nan)
    with pytest.raises(TrainError, match=r"loss is nan at epoch 1, step 2.*lower optim\.lr"):
        run(batches, sizes, accumulate=1)


def test_float16_overflow_at_every_step_ends_the_run():
    class Overflowing:
        """Behaves as a scaler whose every step overflows."""

        scale_now = 2.0**40

        def get_scale(self):
            return self.scale_now

        def scale(self, loss):
            return loss

        def step(self, optimizer):
            pass

        def update(self):
            self.scale_now /= 2

    model = linear()
    state = State(model, build_optimizer(model, 0.0), Overflowing())
    sizes = [2] * 40
    with pytest.raises(TrainError, match="20 steps in a row"):
        train_epoch(
            state,
            make_batches(sizes),
            sizes,
            Schedule(100, 0, 0.1, 1, 0.0, None),
            PRECISION,
            CPU,
            lambda: False,
            lambda batch: None,
            Bar("t", 1),
        )
    assert state.skipped_steps == 20


def test_learning_rate_rises_then_falls():
    rates = [learning_rate(step, 100, 10, 0.5) for step in range(100)]
    assert rates[0] == pytest.approx(0.05)
    assert max(rates) == rates[9] == rates[10] == pytest.approx(0.5)
    assert all(a <= b for a, b in zip(rates[:10], rates[1:10]))
    assert all(a > b for a, b in zip(rates[10:], rates[11:]))
    assert learning_rate(100, 100, 10, 0.5) == pytest.approx(0.0)
    assert learning_rate(0, 100, 0, 0.5) == pytest.approx(0.5)
