"""Whether tune's choice holds against a sweep: the verdict, on made-up figures."""

import pytest
import tune_loads
from tuning import verdict
from tuning.verdict import Figures

from train.trial import Trial


def _figures(name, rate, wait=0.5, cores=2.0):
    return Figures(name, rate, wait, cores, rate, rate, 7)


def _judge(tuned, best, twin=None):
    return verdict.judge(tuned, best, [best[0], twin or best[0]])


def test_within_five_per_cent_of_the_best_is_right():
    best = [_figures("a", 1000), _figures("b", 990), _figures("c", 900)]
    assert _judge(_figures("tune", 951), best)[0]
    right, why = _judge(_figures("tune", 940), best)
    assert not right
    assert "6.0% behind" in why


def test_a_setting_that_differs_from_itself_by_more_excuses_more():
    best = [_figures("a", 1000), _figures("b", 990)]
    assert _judge(_figures("tune", 920), best, _figures("a again", 910))[0]


def test_an_accelerator_that_can_be_fed_has_to_be_fed_with_the_fewest_cores():
    best = [_figures("a", 1000, 0.002, 0.8), _figures("b", 1000, 0.001, 1.0)]
    assert _judge(_figures("tune", 1000, 0.004, 0.82), best)[0]
    right, why = _judge(_figures("tune", 1000, 0.004, 1.2), best)
    assert not right
    assert "a does it with 0.80" in why
    right, why = _judge(_figures("tune", 985, 0.015, 0.8), best)
    assert not right
    assert "though a setting of the sweep feeds it" in why


def test_the_three_best_are_the_cheapest_that_feed_it_else_the_fastest():
    sweep = [
        _figures("fast, hungry", 1000, 0.0, 2.0),
        _figures("cheap", 1000, 0.0, 0.5),
        _figures("slow", 500, 0.5, 0.2),
        _figures("dear", 1000, 0.0, 1.0),
    ]
    assert [one.name for one in verdict.three_best(sweep)] == ["cheap", "dear", "fast, hungry"]
    sweep = [one._replace(wait_share=0.4) for one in sweep]
    assert verdict.three_best(sweep)[-1].name != "slow"


def test_figures_are_medians():
    trials = [Trial(rate, 1.0, rate / 1e4, 0.1, 1.0, None) for rate in (100, 300, 200)]
    assert verdict.figures("x", trials) == Figures("x", 200.0, 0.02, 1.0, 100.0, 300.0, 3)


def test_the_sweep_is_the_one_that_is_promised():
    found = tune_loads.candidates()
    assert len(found) == len(set(found)) == 1 + 5 * 3 * 2
    assert {one.workers for one in found} == {0, 1, 2, 3, 4, 6}


def test_every_load_that_is_named_is_there():
    loads = pytest.importorskip("tuning.loads")
    assert set(loads.LOADS) == set(tune_loads.LOADS)
