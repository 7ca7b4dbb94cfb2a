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


def ranks(num_samples, batch_size, world_size, shuffle=True, min_batch=2, seed=42):
    return [
        Sampler(num_samples, batch_size, seed, shuffle, rank, world_size, min_batch)
        for rank in range(world_size)
    ]


def epoch(sampler, number=0, samples_seen=0):
    return list(sampler.requests(number, samples_seen, number + 1))


def all_indices(samplers, number=0):
    return [int(i) for sampler in samplers for r in epoch(sampler, number) for i in r.indices]


@pytest.mark.parametrize("world_size", WORLDS)
@pytest.mark.parametrize("batch_size", BATCHES)
def test_evaluation_sees_each_sample_exactly_once(batch_size, world_size):
    for num_samples in sizes_for(world_size):
        samplers = ranks(num_samples, batch_size, world_size, shuffle=False, min_batch=1)
        assert sorted(all_indices(samplers)) == list(range(num_samples))
        assert samplers[0].samples_per_epoch == num_samples
        sizes = [len(r.indices) for sampler in samplers for r in epoch(sampler)]
        assert max(sizes) <= batch_size
        if world_size == 1:
            assert all_indices(samplers) == list(range(num_samples))


@pytest.mark.parametrize("world_size", WORLDS)
@pytest.mark.parametrize("batch_size", BATCHES)
def test_training_sees_each_sample_once_and_no_batch_of_one(batch_size, world_size):
    for num_samples in sizes_for(world_size):
        samplers = ranks(num_samples, batch_size, world_size)
        seen = all_indices(samplers)
        assert len(set(seen)) == len(seen) == samplers[0].samples_per_epoch
        sizes = [[len(r.indices) for r in epoch(sampler)] for sampler in samplers]
        assert all(min(2, batch_size) <= size <= batch_size for row in sizes for size in row)
        assert len({len(row) for row in sizes}) == 1  # or the ranks would wait for each other
        lost = num_samples - len(seen)
        if world_size == 1:
            assert lost == (1 if batch_size == 2 and num_samples % 2 else 0)
        # A remainder that can't give each rank two samples, nor be spread over the batch before.
        assert lost < 2 * world_size


@pytest.mark.parametrize(
    ("num_samples", "batch_size", "world_size"), [(7, 3, 2), (10, 3, 3), (13, 3, 4)]
)
def test_no_more_is_left_out_than_must_be(num_samples, batch_size, world_size):
    """One full batch fits, and the one sample that remains can't be a batch of its own."""
    assert ranks(num_samples, batch_size, world_size)[0].samples_per_epoch == num_samples - 1


def test_the_batch_before_a_last_single_sample_gives_one_away():
    assert Sampler(65, 16, 0, True, min_batch=2).batch_sizes() == [16, 16, 16, 15, 2]
    assert Sampler(65, 16, 0, False, min_batch=1).batch_sizes() == [16, 16, 16, 16, 1]
    assert Sampler(64, 16, 0, True, min_batch=2).batch_sizes() == [16] * 4
    assert Sampler(5, 1, 0, True, min_batch=2).batch_sizes() == [1] * 5  # the user's own wish


@pytest.mark.parametrize(
    ("num_samples", "batch_size", "world_size"),
    [(64, 8, 1), (65, 8, 1), (65, 64, 1), (129, 8, 2), (1000, 64, 3), (17, 3, 4), (9, 1, 2)],
)
def test_from_each_batch_onwards_the_rest_is_the_same(num_samples, batch_size, world_size):
    for sampler in ranks(num_samples, batch_size, world_size):
        whole = epoch(sampler, 3)
        assert [len(r.indices) for r in whole] == sampler.batch_sizes()
        for number, request in enumerate(whole, 1):
            rest = epoch(sampler, 3, request.samples_seen)
            assert sampler.batch_sizes(request.samples_seen) == sampler.batch_sizes()[number:]
            assert len(rest) == len(whole) - number
            for expected, found in zip(whole[number:], rest):
                assert expected[:2] == found[:2]
                assert np.array_equal(expected.indices, found.indices)


def test_a_run_resumed_with_other_ranks_sees_the_rest_once():
    before = ranks(101, 4, 4)
    first = [i for sampler in before for r in epoch(sampler)[:3] for i in r.indices.tolist()]
    seen = epoch(before[0])[2].samples_seen
    after = ranks(101, 8, 3)
    rest = [i for s in after for r in epoch(s, 0, seen) for i in r.indices.tolist()]
    assert sorted(first + rest) == list(range(101))


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
