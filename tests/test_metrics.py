"""The line of an epoch: a stage is named where the device waited for one."""

import types

import pytest
import torch

from train.data.account import Spent
from train.metrics import epoch_line, epoch_row, scalars
from train.scores import Scores
from train.stages import Stages, stage_columns
from train.timing import Timing


def line(wait_s, images=100, **spent):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    state = types.SimpleNamespace(epoch=2, step=30, optimizer=optimizer, skipped_steps=0)
    timing = Timing(10.0, wait_s, 0.01)
    scores = Scores(1.5, 0.4, 0.8, 100)
    stages = Stages(timing, Spent(wait_s=wait_s, **spent), 2, False, False)
    more = {"gpu_util": None, "bad_samples": 0, **stage_columns(stages, images > 0)}
    row = epoch_row(state, scores, scores, timing, images, 10, more)
    assert dict(scalars(row))["loss/train"] == 1.5
    return epoch_line(row, 8)


@pytest.mark.parametrize(
    ("wait_s", "shown"),
    [
        (2.3, "  waiting for data 23.0% (decoding: 1.9 of 2 workers' time)  "),
        (0.05, "  waiting for data 0.5%  "),
    ],
)
def test_the_stage_that_was_short_is_in_the_line(wait_s, shown):
    assert shown in line(wait_s, read_s=0.5, make_s=19.0)


def test_an_epoch_that_was_not_trained_waited_for_nothing():
    assert "waiting" not in line(2.3, images=0, read_s=0.5, make_s=19.0)
