"""Which stage was short: exact answers for recorded times."""

import pytest

from train.data.account import Spent
from train.stages import Stages, short_stage, stage_columns
from train.timing import Timing


def stages(device_s, first_s=0.0, workers=2, own=False, cuda=True, **spent):
    """A pass of 100 s; the host waits as long as the device unless told."""
    spent.setdefault("wait_s", device_s)
    return Stages(Timing(100.0, device_s, first_s), Spent(**spent), workers, own, cuda)


@pytest.mark.parametrize(
    ("measured", "named"),
    [
        (stages(0.9, read_s=10, make_s=190), None),
        (stages(1.0, read_s=10, make_s=190), None),
        (stages(23, read_s=10, make_s=188), "decoding: 1.9 of 2 workers' time"),
        (stages(23, read_s=150, make_s=40), "reading: 1.5 of 2 workers' time"),
        (stages(23, workers=1, read_s=1, make_s=98), "decoding: 1.0 of 1 worker's time"),
        (
            stages(23, own=True, read_s=150, make_s=4),
            "the data set's samples: 1.5 of 2 workers' time",
        ),
        (stages(23, own=True, read_s=4, make_s=150), "collating: 1.5 of 2 workers' time"),
        (
            stages(45, workers=0, read_s=5, make_s=40),
            "decoding, by the training process itself: there are no workers",
        ),
        (stages(8, first_s=7.5, read_s=1, make_s=50), "the first batch"),
        (stages(8, first_s=9.0, read_s=1, make_s=50), "the first batch"),
        (stages(28, first_s=8, read_s=1, make_s=180), "decoding: 1.8 of 2 workers' time"),
        (
            stages(20, read_s=1, make_s=60),
            "handing over: workers were busy 30% of their time",
        ),
        (stages(20, wait_s=1, read_s=1, make_s=190), "copies to the device"),
        (stages(20, cuda=False, wait_s=1, make_s=190), "turning batches into floats"),
        (
            stages(20, wait_s=1, hand_s=15, read_s=1, make_s=190),
            "taking batches over, in the training process",
        ),
        (Stages(Timing(0, 0, 0), Spent(), 2, False, False), None),
    ],
)
def test_the_stage_that_was_short_is_named(measured, named):
    assert short_stage(measured) == named


def test_columns_are_shares():
    row = stage_columns(stages(23, read_s=10, make_s=188, hand_s=2), True)
    assert row == {
        "read_share": 0.05,
        "decode_share": 0.94,
        "sample_share": None,
        "collate_share": None,
        "host_wait_share": 0.23,
        "hand_share": 0.02,
        "short_stage": "decoding: 1.9 of 2 workers' time",
    }
    own = stage_columns(stages(23, own=True, read_s=300, make_s=2), True)
    assert (own["sample_share"], own["collate_share"], own["read_share"]) == (1.0, 0.01, None)


@pytest.mark.parametrize("known", [True, False])
def test_an_epoch_without_training_has_no_shares(known):
    row = stage_columns(Stages(Timing(0, 0, 0), Spent(), 2, False, False), known)
    assert set(row.values()) == {None}
