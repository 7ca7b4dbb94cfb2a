"""The search on machines made of numbers: what it tries, what it picks, how long it takes."""

import pytest
from worlds import World, costs, space

from train.tune.predict import Candidate, first_candidate
from train.tune.search import Summary, next_trial, pick, summarise


def _search(where, world, most=20):
    """Run it to its end: (choice, trials)."""
    done, first = [], first_candidate(where)
    while True:
        one = next_trial(where, done, first)
        if one is None:
            return pick(summarise(done), where.competes), done
        assert where.fits(one)
        done.append((one, world.trial(one)))
        assert len(done) <= most, [each for each, _ in done]


def _decoding(one, core_ms=2.0, cpus=2):
    """A loader that decodes: a core each, as many as there are."""
    return 1000 / core_ms * (min(one.workers, cpus) if one.workers else 1)


@pytest.mark.parametrize("seed", range(20))
def test_decoding_on_two_cores_takes_two_workers(seed):
    found = costs(batch_ms=2.0, accelerator=5000.0)
    choice, done = _search(space(found), World(_decoding, 5000.0, noise=0.015, seed=seed))
    assert choice.workers in (2, 3)
    assert _decoding(choice) == 1000
    assert len(done) <= 13


def test_without_noise_few_trials_are_enough():
    found = costs(batch_ms=2.0, accelerator=5000.0)

    def speed(one):  # anything else is clearly slower
        return (
            {2: 1000.0, 3: 900.0}.get(one.workers, 500.0)
            - 60 * (one.kind == "thread")
            - (60 * (one.prefetch > 4))
        )

    choice, done = _search(space(found), World(speed, 5000.0))
    assert choice == Candidate(2, "process", 4)
    assert len(done) <= 5


def test_a_prediction_that_was_too_low_is_walked_away_from():
    found = costs(batch_ms=2.0, accelerator=1e5)  # says: 2 cores, so 2 workers

    def speed(one):  # it waits for something that the costs did not show
        return 300.0 * min(max(1, one.workers), 6)

    choice, _ = _search(space(found), World(speed, 1e5))
    assert choice.workers in (6, 7)


def test_a_prediction_that_was_too_high_is_walked_back_from():
    found = costs(batch_ms=0.5, waiting_ms=9.5, accelerator=600.0)  # says: 7 workers

    def speed(one):
        return 150.0 * max(1, one.workers)

    choice, done = _search(space(found), World(speed, 600.0, core_ms=0.5))
    assert choice.workers <= 6
    assert all(trial.wait_share < 0.01 for one, trial in done if one == choice)


def test_where_the_accelerator_is_the_limit_the_fewest_cores_win():
    found = costs(batch_ms=0.5, accelerator=1000.0)
    choice, done = _search(space(found), World(lambda one: 1900.0, 1000.0, core_ms=0.5))
    assert choice.workers == 0
    assert len(done) <= 3


@pytest.mark.parametrize("seed", range(10))
def test_a_worker_too_few_is_seen(seed):
    found = costs(batch_ms=2.0, accelerator=950.0)
    world = World(lambda one: _decoding(one, 2.0, 4), 950.0, noise=0.01, seed=seed)
    choice, _ = _search(space(found, cpus=4), world)
    assert choice == Candidate(2, "process", 4) or choice.workers in (2, 3)


def test_threads_win_only_where_they_are_faster():
    found = costs(batch_ms=2.0, accelerator=1e5, two_threads=1.9)

    def speed(one, gain):
        return _decoding(one) * (gain if one.kind == "thread" else 1.0)

    choice, _ = _search(space(found), World(lambda one: speed(one, 1.1), 1e5))
    assert choice.kind == "thread"
    choice, _ = _search(space(found), World(lambda one: speed(one, 1.01), 1e5))
    assert choice.kind == "process"


def test_threads_that_hold_each_other_up_are_not_tried():
    found = costs(batch_ms=2.0, accelerator=1e5, two_threads=1.02)
    _, done = _search(space(found, cpus=4), World(lambda one: _decoding(one, 2.0, 4), 1e5))
    assert all(one.kind == "process" for one, _ in done)


def test_deeper_queues_are_found_where_batches_come_unevenly():
    found = costs(batch_ms=1.0, accelerator=950.0)

    def speed(one):
        if one.workers == 0:
            return 500.0
        return 930.0 if one.prefetch < 8 else 1100.0

    where = space(found, workers=1)
    choice, _ = _search(where, World(speed, 950.0, core_ms=1.0))
    assert choice == Candidate(1, "process", 8)


def test_nothing_beyond_the_budget_is_tried():
    found = costs(batch_ms=2.0, accelerator=1e5)
    where = space(found, cpus=8, fits=lambda one: one.workers * one.prefetch <= 6)
    choice, done = _search(where, World(lambda one: _decoding(one, 2.0, 8), 1e5))
    assert choice.workers == 6
    assert all(one.workers * one.prefetch <= 6 for one, _ in done)


def test_what_the_user_set_stays():
    found = costs(batch_ms=2.0, accelerator=1e5)
    where = space(found, cpus=4, workers=1, fits=lambda one: one.workers == 1)
    choice, _ = _search(where, World(lambda one: _decoding(one, 2.0, 4), 1e5))
    assert choice.workers == 1


def test_a_cpu_that_trains_takes_the_fastest():
    found = costs(batch_ms=1.0, accelerator=400.0, own_ms=5.0)

    def speed(one):
        return {0: 285.0, 1: 330.0, 2: 331.0}.get(one.workers, 300.0)

    choice, _ = _search(space(found, competes=True, base=2), World(speed, 400.0))
    assert choice.workers == 1


@pytest.mark.parametrize("seed", range(30))
def test_noise_never_keeps_it_from_an_end(seed):
    found = costs(batch_ms=2.0, accelerator=1e5)
    world = World(lambda one: 1000.0, 1e5, noise=0.1, seed=seed)
    _, done = _search(space(found, cpus=4), world, most=9 + 6)
    assert max(summarise(done)[one].runs for one, _ in done) <= 3


def _summary(rate, wait, cores, runs=1, spread=0.0):
    return Summary(runs, rate, wait, cores, None, spread)


def test_pick_prefers_fewer_cores_then_fewer_workers_then_processes():
    measured = {
        Candidate(3, "process", 4): _summary(1000, 0.001, 1.50),
        Candidate(2, "thread", 4): _summary(1000, 0.002, 1.50),
        Candidate(2, "process", 4): _summary(1000, 0.004, 1.52),
        Candidate(2, "process", 2): _summary(990, 0.011, 1.40),
    }
    assert pick(measured, False) == Candidate(2, "process", 4)
    measured[Candidate(4, "process", 1)] = _summary(1000, 0.0, 1.1)
    assert pick(measured, False) == Candidate(4, "process", 1)


def test_pick_takes_the_fastest_where_none_is_enough_and_the_cheapest_of_equals():
    measured = {
        Candidate(4, "process", 4): _summary(1000, 0.5, 2.0),
        Candidate(2, "process", 4): _summary(985, 0.51, 2.0),
        Candidate(1, "process", 4): _summary(600, 0.7, 1.0),
    }
    assert pick(measured, False) == Candidate(2, "process", 4)


def test_a_cpu_that_waits_little_is_not_thereby_the_fastest():
    measured = {
        Candidate(2, "process", 2): _summary(300, 0.001, 2.0),
        Candidate(1, "process", 2): _summary(340, 0.02, 2.0),
    }
    assert pick(measured, True) == Candidate(1, "process", 2)
