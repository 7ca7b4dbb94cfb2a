"""The order of an epoch: each index once, for any number of ranks, from any position."""

import itertools

import numpy as np
import pytest

from train.data.sampler import Sampler
from train.errors import ConfigError

SIZES = [2, 3, 7, 8, 9, 16, 17, 63, 64, 65, 129, 1000]
BATCHES = [1, 2, 3, 8, 64]
WORLDS = [1, 2, 3, 4, 8]


def sizes_for(world_size):
    return [size for size in SIZES if size >= 2 * world_size]


def ranks(num_samples, batch_size, world_size, seed=42):
    return [
        Sampler(num_samples, batch_size, seed, True, rank, world_size, min_batch=2)
        for rank in range(world_size)
    ]


def judges(num_samples, batch_size, world_size):
    """Samplers of an evaluation."""
    return [
        Sampler(num_samples, batch_size, 0, False, rank, world_size, whole_batches=True)
        for rank in range(world_size)
    ]


def counted(request):
    """The indices without what only fills the batch."""
    return request.indices[: len(request.indices) - request.padding].tolist()


def epoch(sampler, number=0, samples_seen=0):
    return list(sampler.requests(number, samples_seen, number + 1))


def all_indices(samplers, number=0):
    return [i for sampler in samplers for r in epoch(sampler, number) for i in counted(r)]


@pytest.mark.parametrize("world_size", WORLDS)
@pytest.mark.parametrize("batch_size", BATCHES)
def test_evaluation_sees_each_sample_exactly_once_in_the_same_batches(batch_size, world_size):
    for num_samples in [1, *SIZES]:
        samplers = judges(num_samples, batch_size, world_size)
        found = [epoch(sampler) for sampler in samplers]
        rounds = samplers[0].rounds()
        assert [sampler.rounds() for sampler in samplers] == [rounds] * world_size
        assert all(rounds - 1 <= len(row) <= rounds for row in found)
        dealt = [row[k] for k in range(rounds) for row in found if k < len(row)]
        alone = epoch(judges(num_samples, batch_size, 1)[0])
        assert [(r.samples_seen, r.indices.tolist()) for r in dealt] == [
            (r.samples_seen, r.indices.tolist()) for r in alone
        ]
        assert [i for r in alone for i in r.indices.tolist()] == list(range(num_samples))
        assert all(r.padding == 0 for r in dealt)
        assert [sampler.batch_sizes() for sampler in samplers] == [
            [len(r.indices) for r in row] for row in found
        ]


@pytest.mark.parametrize("world_size", WORLDS)
@pytest.mark.parametrize("batch_size", BATCHES)
def test_training_sees_each_sample_once_and_no_batch_of_one(batch_size, world_size):
    for num_samples in sizes_for(world_size):
        samplers = ranks(num_samples, batch_size, world_size)
        assert sorted(all_indices(samplers)) == list(range(num_samples))
        sizes = [[len(r.indices) for r in epoch(sampler)] for sampler in samplers]
        assert all(min(2, batch_size) <= size <= batch_size for row in sizes for size in row)
        # Or the ranks would wait for each other.
        assert {len(row) for row in sizes} == {samplers[0].rounds()}


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("later_size", [1, 2, 3, 5])
def test_from_any_position_the_rest_is_seen_once_at_any_world_size(world_size, later_size):
    """A tail that is too short for all ranks is filled, and what fills it counts nowhere."""
    before = ranks(45, 4, world_size)
    for number, request in enumerate(epoch(before[0]), 1):
        first = [i for s in before for r in epoch(s)[:number] for i in counted(r)]
        after = ranks(45, 4, later_size)
        rest = [epoch(s, 0, request.samples_seen) for s in after]
        assert len({len(row) for row in rest}) == 1
        assert all(2 <= len(r.indices) <= 4 for row in rest for r in row)
        assert sorted(first + [i for row in rest for r in row for i in counted(r)]) == list(
            range(45)
        )


def test_only_a_tail_that_nobody_can_feed_is_filled():
    assert [r.padding for r in epoch(Sampler(65, 2, 0, True, min_batch=2))] == [0] * 32 + [1]
    assert sum(r.padding for s in ranks(65, 8, 2) for r in epoch(s)) == 0
    filled = [r for s in ranks(7, 3, 2) for r in epoch(s)]
    assert [(len(r.indices), r.padding) for r in filled] == [(3, 0), (2, 2), (3, 0), (2, 1)]


def test_more_ranks_than_evaluation_batches():
    samplers = judges(5, 4, 4)
    assert [sampler.batch_sizes() for sampler in samplers] == [[4], [1], [], []]
    assert list(samplers[3].requests(0, 0, None)) == []  # not a search without end


def test_the_batch_before_a_last_single_sample_gives_one_away():
    assert Sampler(65, 16, 0, True, min_batch=2).batch_sizes() == [16, 16, 16, 15, 2]
    assert judges(65, 16, 1)[0].batch_sizes() == [16, 16, 16, 16, 1]
    assert Sampler(64, 16, 0, True, min_batch=2).batch_sizes() == [16] * 4
    assert Sampler(5, 1, 0, True, min_batch=2).batch_sizes() == [1] * 5  # the user's own wish


@pytest.mark.parametrize(
    ("num_samples", "batch_size", "world_size"),
    [(64, 8, 1), (65, 8, 1), (65, 64, 1), (129, 8, 2), (1000, 64, 3), (17, 3, 4), (9, 1, 2)],
)
def test_from_each_batch_onwards_the_rest_is_the_same(num_samples, batch_size, world_size):
    for sampler in ranks(num_samples, batch_size, world_size):
        whole = epoch(sampler, 3)
        assert [len(counted(r)) for r in whole] == sampler.batch_sizes()
        for number, request in enumerate(whole, 1):
            rest = epoch(sampler, 3, request.samples_seen)
            assert sampler.batch_sizes(request.samples_seen) == sampler.batch_sizes()[number:]
            assert len(rest) == len(whole) - number
            for expected, found in zip(whole[number:], rest):
                assert expected[:2] == found[:2]
                assert np.array_equal(expected.indices, found.indices)


def test_each_epoch_has_its_own_order_and_each_seed_too():
    a, same, other = Sampler(500, 10, 1, True), Sampler(500, 10, 1, True), Sampler(500, 10, 2, True)
    orders = [a.order(number).tolist() for number in range(4)]
    assert len({tuple(order) for order in orders}) == 4
    assert orders == [same.order(number).tolist() for number in range(4)]
    assert orders[0] != other.order(0).tolist()
    assert all(sorted(order) == list(range(500)) for order in orders)
    assert Sampler(5, 1, 2**63 - 1, True).order(0).size == 5


def test_without_shuffling_the_order_is_that_of_the_source():
    sampler = Sampler(9, 4, 7, False)
    assert [sampler.order(number).tolist() for number in (0, 5)] == [list(range(9))] * 2


def test_neighbours_in_an_order_are_far_apart_in_the_source():
    order = Sampler(10_000, 10, 3, True).order(0)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.05
    assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.05


def test_requests_go_on_from_epoch_to_epoch_without_a_gap():
    requests = list(Sampler(10, 4, 0, True, min_batch=2).requests(1, 8, 3))
    assert [(r.epoch, r.samples_seen) for r in requests] == [(1, 10), (2, 4), (2, 8), (2, 10)]
    endless = Sampler(10, 4, 0, True).requests(0, 0, None)
    assert [r.epoch for r in itertools.islice(endless, 7)] == [0, 0, 0, 1, 1, 1, 2]


def test_too_few_samples_for_the_ranks_is_an_error():
    with pytest.raises(ConfigError, match="training needs at least 4 for 2 ranks"):
        Sampler(3, 8, 0, True, world_size=2, min_batch=2)
    with pytest.raises(ConfigError, match="at least 2: add images"):
        Sampler(1, 8, 0, True, min_batch=2)


def test_the_state_is_three_numbers():
    assert Sampler(5, 2, 9, True).state(3, 4) == {"seed": 9, "epoch": 3, "samples_seen": 4}
