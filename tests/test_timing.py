"""The share of waiting: what counts as waiting and what as work, by a clock that the test moves."""

import pytest
import torch

from train import timing
from train.timing import Timing, UtilisationMean, WaitClock


class Clock:
    """Time that passes only when the test says so."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(timing.time, "monotonic", lambda: self.now)

    def loader(self, seconds):
        for number, wait in enumerate(seconds):
            self.now += wait
            yield number


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def run(clock, waits, work):
    wait_clock, seen = WaitClock(torch.device("cpu")), []
    for batch in wait_clock.batches(clock.loader(waits)):
        seen.append(batch)
        clock.now += work
        wait_clock.computed()
    assert seen == list(range(len(waits)))
    return wait_clock.finish()


def test_waiting_is_the_time_between_asking_and_getting(clock):
    found = run(clock, [2.0, 0.5, 0.0, 0.5], 1.0)
    assert found.total_s == pytest.approx(7.0)
    assert found.wait_s == pytest.approx(3.0)
    assert found.first_batch_s == pytest.approx(2.0)
    assert found.wait_share == pytest.approx(3 / 7)


def test_time_before_the_first_request_is_waiting_too(clock):
    wait_clock = WaitClock(torch.device("cpu"))
    clock.now += 4.0
    next(wait_clock.batches(clock.loader([1.0])))
    assert wait_clock.first_batch_s == pytest.approx(5.0)


def test_a_pass_that_never_waits_and_one_that_only_waits(clock):
    assert run(clock, [0.0, 0.0], 3.0).wait_share == 0.0
    assert run(clock, [1.0, 1.0], 0.0).wait_share == 1.0


def test_an_empty_pass_has_no_share(clock):
    found = run(clock, [], 1.0)
    assert found == Timing(0.0, 0.0, 0.0)
    assert found.wait_share == 0.0


def test_the_clock_hands_errors_on(clock):
    def broken():
        yield 1
        raise ValueError("the loader broke")

    batches = WaitClock(torch.device("cpu")).batches(broken())
    assert next(batches) == 1
    with pytest.raises(ValueError, match="the loader broke"):
        next(batches)


def test_utilisation_is_read_now_and_then_and_averaged(clock):
    readings = iter([50.0, None, 70.0, 10.0])
    mean = UtilisationMean(lambda: next(readings), every_s=1.0)
    for _ in range(3):
        for _ in range(5):  # too soon: no reading
            mean.sample()
        clock.now += 1.5
    assert mean.mean() == pytest.approx(60.0)
    assert mean.mean() is None  # each reading counts once
    mean.sample()
    assert mean.mean() == pytest.approx(10.0)


def test_without_a_gpu_there_is_no_mean(clock):
    mean = UtilisationMean(lambda: None)
    mean.sample()
    assert mean.mean() is None
