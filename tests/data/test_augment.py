"""Crops and flips: inside the picture, well spread, a function of (seed, epoch, index) alone."""

import numpy as np
import pytest

from train.data.augment import DRAWS, eval_box, train_box, train_flip, uniform

SIZES = [(1, 1), (1, 2), (2, 1), (1, 2000), (2000, 1), (8191, 3), (3, 8191), (64, 48), (4000, 3000)]

# uniform(42, 1, [0, 7], 3), as first measured
GOLDEN = [0.0173425160003865, 0.5224147588106418, 0.9149115596919831]
GOLDEN += [0.9471902693457871, 0.39785273966288814, 0.6858230138462489]


def inside(box, width, height):
    return (
        box.width >= 1
        and box.height >= 1
        and 0 <= box.x <= width - box.width
        and 0 <= box.y <= height - box.height
    )


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("crop_min", [1e-6, 0.08, 1.0])
def test_each_crop_lies_inside_the_picture(width, height, crop_min):
    draws = uniform(1, 2, np.arange(300))
    assert all(inside(train_box(row, width, height, crop_min), width, height) for row in draws)
    assert inside(eval_box(width, height), width, height)


@pytest.mark.parametrize("value", [0.0, np.nextafter(1.0, 0.0)])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_crops_at_the_ends_of_the_draws_lie_inside(value, width, height):
    box = train_box(np.full(DRAWS, value), width, height, 0.08)
    assert inside(box, width, height)


def test_crops_have_the_asked_area_and_ratio():
    boxes = [train_box(row, 800, 600, 0.08) for row in uniform(0, 0, np.arange(4000))]
    areas = np.array([box.width * box.height / 480_000 for box in boxes])
    ratios = np.array([box.width / box.height for box in boxes])
    assert areas.min() >= 0.078
    assert areas.min() < 0.1
    assert areas.max() > 0.9
    assert ratios.min() >= 0.74
    assert ratios.max() <= 1.35
    assert abs(np.log(ratios).mean()) < 0.05
    xs = np.array([box.x / max(1, 800 - box.width) for box in boxes])
    assert abs(xs.mean() - 0.5) < 0.03


def test_a_very_long_picture_gives_its_largest_allowed_centre():
    box = train_box(np.full(DRAWS, 0.9), 8000, 3, 0.08)
    assert (box.width, box.height, box.y) == (4, 3, 0)
    assert box.x == (8000 - 4) // 2
    box = train_box(np.full(DRAWS, 0.9), 3, 8000, 0.08)
    assert (box.width, box.height, box.x) == (3, 4, 0)


def test_the_whole_picture_is_cropped_with_crop_min_one():
    box = train_box(np.full(DRAWS, 0.5), 100, 100, 1.0)
    assert box == (0, 0, 100, 100)


def test_evaluation_takes_the_central_square():
    assert eval_box(256, 256) == (16, 16, 224, 224)
    assert eval_box(400, 256) == (88, 16, 224, 224)
    assert eval_box(1, 1) == (0, 0, 1, 1)


def test_draws_are_uniform_and_independent():
    draws = uniform(42, 0, np.arange(5000), 8)
    assert draws.dtype == np.float64
    assert draws.shape == (5000, 8)
    assert draws.min() >= 0
    assert draws.max() < 1
    counts, _ = np.histogram(draws, bins=20, range=(0, 1))
    expected = draws.size / 20
    assert ((counts - expected) ** 2 / expected).sum() < 60  # chi square, 19 degrees: 1 in 10^5
    first = draws[:, 0]
    pairs = [(first[:-1], first[1:]), (first, draws[:, 1]), (draws[:, 6], draws[:, 7])]
    pairs += [(first, uniform(42, 1, np.arange(5000), 1)[:, 0])]
    pairs += [(first, uniform(43, 0, np.arange(5000), 1)[:, 0])]
    for a, b in pairs:
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.06
    assert len(np.unique(draws)) == draws.size


def test_draws_differ_by_epoch_and_are_the_same_in_each_run():
    """Crop boxes of the first pictures in three epochs, twice."""
    runs = [[uniform(42, number, np.arange(5)) for number in range(3)] for _ in range(2)]
    boxes = [
        [[train_box(row, 640, 480, 0.08) for row in draws] for draws in epochs] for epochs in runs
    ]
    assert boxes[0] == boxes[1]
    for index in range(5):
        assert len({boxes[0][number][index] for number in range(3)}) == 3


def test_draws_do_not_depend_on_the_rest_of_the_batch():
    whole = uniform(7, 3, np.arange(100))
    some = np.array([99, 3, 50])
    assert np.array_equal(uniform(7, 3, some), whole[some])
    assert np.array_equal(uniform(7, 3, some[:1], 4), whole[99:, :4])
    assert uniform(7, 3, np.zeros(0, dtype=np.int64)).shape == (0, DRAWS)


def test_large_seeds_epochs_and_indices_are_fine():
    draws = uniform(2**63 - 1, 10**9, np.array([0, 2**62]))
    assert np.isfinite(draws).all()
    assert not np.array_equal(draws[0], draws[1])


def test_the_golden_numbers_of_seed_42():
    """They must never change: a resumed run would see other crops."""
    found = uniform(42, 1, np.array([0, 7]), 3).ravel().tolist()
    assert found == pytest.approx(GOLDEN, abs=1e-15)


def test_flips_come_as_often_as_asked():
    draws = uniform(1, 1, np.arange(4000))
    for probability in (0.0, 0.25, 0.5, 1.0):
        share = np.mean([train_flip(row, probability) for row in draws])
        assert abs(share - probability) < 0.03
        assert probability not in (0.0, 1.0) or share == probability
