"""Predictions: arithmetic on costs."""

import pytest
from worlds import costs, space

from train.tune.predict import Candidate, first_candidate, predict, worker_counts


def _rate(found, one, cpus=2, competes=False):
    return predict(found, cpus, competes, one).images_per_s


def test_workers_add_up_until_the_cores_are_used_up():
    found = costs(batch_ms=2.0, accelerator=1e5, handover_ms=0.0)
    assert _rate(found, Candidate(1, "process", 4), 4) == pytest.approx(500)
    assert _rate(found, Candidate(3, "process", 4), 4) == pytest.approx(1500)
    assert _rate(found, Candidate(8, "process", 4), 4) == pytest.approx(2000)


def test_time_spent_waiting_is_hidden_by_more_workers_than_cores():
    found = costs(batch_ms=0.5, waiting_ms=9.5, accelerator=1e5, handover_ms=0.0)
    assert _rate(found, Candidate(6, "process", 4), 2) == pytest.approx(600)
    counts = worker_counts(space(found, cpus=2))
    assert counts[-1] == 16


def test_a_device_works_on_while_the_next_batch_is_made_and_a_cpu_does_not():
    found = costs(batch_ms=1.0, accelerator=1000.0)
    assert _rate(found, Candidate(0)) == pytest.approx(1000)
    assert _rate(found, Candidate(0), competes=True) == pytest.approx(500)


def test_a_cpu_that_trains_shares_its_cores_with_the_workers():
    found = costs(batch_ms=1.0, accelerator=500.0, own_ms=4.0, handover_ms=0.0)
    both = predict(found, 2, True, Candidate(1, "process", 2))
    assert both.images_per_s == pytest.approx(2 / 0.005)
    assert both.wait_share == pytest.approx(0.0)
    assert both.cores == pytest.approx(2.0)


def test_threads_are_as_fast_as_the_interpreter_lets_them():
    free, held = costs(two_threads=1.95, accelerator=1e5), costs(two_threads=1.0, accelerator=1e5)
    threads = Candidate(4, "thread", 4)
    assert _rate(free, threads, 8) == pytest.approx(2000)
    assert _rate(held, threads, 8) == pytest.approx(500)
    half = costs(two_threads=4 / 3, accelerator=1e5)  # half of the time in the GIL
    assert _rate(half, Candidate(2, "thread", 4), 8) == pytest.approx(500 * 4 / 3)
    assert _rate(costs(two_threads=None, accelerator=1e5), threads, 8) == pytest.approx(500)


def test_small_differences_of_clock_and_cpu_are_no_waiting():
    found = costs(batch_ms=2.0, waiting_ms=0.1, accelerator=1e5, handover_ms=0.0)
    assert _rate(found, Candidate(1, "process", 4)) == pytest.approx(500)


def test_the_search_begins_at_the_fewest_workers_that_are_enough():
    assert first_candidate(space(costs(batch_ms=2.0, accelerator=900.0), cpus=4)) == Candidate(
        2, "process", 4
    )
    assert first_candidate(space(costs(batch_ms=0.2, accelerator=900.0))).workers == 0
    assert first_candidate(space(costs(batch_ms=2.0, accelerator=1e5))) == Candidate(
        2, "process", 4
    )


def test_where_memory_is_short_it_begins_less_deep_and_then_with_fewer():
    found = costs(batch_ms=2.0, accelerator=1e5)
    shallow = space(found, cpus=4, fits=lambda one: one.workers * one.prefetch <= 4)
    assert first_candidate(shallow) == Candidate(4, "process", 1)
    few = space(found, cpus=4, fits=lambda one: one.workers * one.prefetch <= 2)
    assert first_candidate(few) == Candidate(2, "process", 1)
    nothing = space(found, cpus=4, fits=lambda one: one.workers == 0)
    assert first_candidate(nothing) == Candidate(0, "process", 1)


def test_what_the_user_set_is_where_it_begins():
    found = costs(batch_ms=2.0, accelerator=1e5)
    assert first_candidate(space(found, cpus=4, workers=1)).workers == 1
    assert first_candidate(space(found, cpus=4, prefetch=3)) == Candidate(4, "process", 3)
    assert first_candidate(space(found, cpus=4, kinds=("thread",))).kind == "thread"
