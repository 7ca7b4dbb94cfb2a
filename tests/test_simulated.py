"""The simulated device: arithmetic on a clock that the test turns."""

import numpy as np
import pytest
import torch

from train.accelerator import SimulatedAccelerator
from train.accelerator_choice import Asked, parse_accelerator
from train.data.batch import Batch
from train.errors import ConfigError
from train.simulated import AHEAD, SimulatedClock, SimulatedDevice
from train.trial import run_trial


class Time:
    """A clock that moves when someone sleeps."""

    def __init__(self):
        self.now_s, self.slept = 100.0, 0.0

    def now(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds
        self.slept += seconds


def _batch(images=10, side=2):
    pixels = torch.zeros(images, side, side, 3, dtype=torch.uint8)
    return Batch(pixels, torch.zeros(images, dtype=torch.int64), 0, 0, np.arange(images), ())


def _loader(time, seconds_each, count):
    for _ in range(count):
        time.sleep(seconds_each)
        yield _batch()


def _pass(seconds_each, count=40, images_per_s=100.0, ahead=True):
    time = Time()
    device = SimulatedDevice(images_per_s, time.now, time.sleep)
    clock = SimulatedClock(device)
    for batch in clock.batches(device.copies(_loader(time, seconds_each, count), ahead)):
        device.step(len(batch.labels))
        clock.computed()
    return clock.finish(), device, time


def test_a_loader_that_is_faster_never_lets_it_wait():
    timing, device, _ = _pass(seconds_each=0.02)  # a step takes 0.1 s
    assert timing.total_s == pytest.approx(0.02 + 40 * 0.1, abs=1e-6)
    assert timing.wait_s == pytest.approx(0.02, abs=1e-6)  # for the very first batch
    assert timing.first_batch_s == pytest.approx(0.02, abs=1e-6)
    assert device.busy_s == pytest.approx(4.0)


def test_a_loader_two_and_a_half_times_as_slow_keeps_it_busy_for_two_fifths():
    timing, _, _ = _pass(seconds_each=0.25)
    assert 1 - timing.wait_share == pytest.approx(0.4, abs=0.01)


def test_the_host_runs_ahead_but_not_further_than_a_few_steps():
    time = Time()
    device = SimulatedDevice(100.0, time.now, time.sleep)
    for _ in range(20):
        device.step(10)
        assert device.free_at - time.now() <= AHEAD * 0.1 + 1e-9
    assert time.slept == pytest.approx((20 - AHEAD) * 0.1)


def test_a_plain_loop_waits_for_each_copy_and_a_prefetcher_does_not():
    def slept(ahead):
        time = Time()
        device = SimulatedDevice(1e9, time.now, time.sleep)
        for batch in device.copies([_batch(100, 224)] * 10, ahead):
            device.step(len(batch.labels))
        return time.slept

    plain, prefetched = slept(False), slept(True)
    assert plain > 2 * prefetched > 0


def test_a_clock_made_later_leaves_out_what_was_before():
    time = Time()
    device = SimulatedDevice(100.0, time.now, time.sleep)
    for _ in range(5):
        device.step(10)
    device.finish()
    time.sleep(7.0)  # nobody measures this
    clock = SimulatedClock(device)
    for batch in clock.batches(device.copies(_loader(time, 0.3, 10), True)):
        device.step(len(batch.labels))
        clock.computed()
    timing = clock.finish()
    assert timing.total_s == pytest.approx(10 * 0.3 + 0.1, abs=1e-3)
    assert timing.wait_s == pytest.approx(0.3 + 9 * 0.2, abs=1e-3)


def test_host_batches_are_let_go_when_their_copy_is_done():
    import weakref

    time = Time()
    device = SimulatedDevice(100.0, time.now, time.sleep)
    alive = []

    def batches():
        for _ in range(6):
            batch = _batch()
            alive.append(weakref.ref(batch.images))
            yield batch

    counts = []
    for batch in device.copies(batches(), True):
        device.step(len(batch.labels))
        del batch
        time.sleep(1.0)
        counts.append(sum(ref() is not None for ref in alive))
    assert max(counts) <= 2


def test_a_trial_counts_only_what_comes_after_the_warm_up():
    batches = [_batch(16, 8)] * 50
    trial = run_trial(batches, SimulatedAccelerator(20_000.0), 0.05, warm_s=0.0)
    assert trial.images >= 3 * 16
    assert trial.images % 16 == 0
    assert 0 <= trial.wait_share <= 1
    assert trial.memory_bytes is None or trial.memory_bytes > 0


def test_a_trial_of_an_empty_loader_ends():
    assert run_trial([], SimulatedAccelerator(1000.0), 0.1).images == 0


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("auto", Asked("auto")),
        ("cpu", Asked("cpu")),
        ("sim", Asked("sim")),
        ("sim:850", Asked("sim", 850.0)),
        ("sim:12.5", Asked("sim", 12.5)),
    ],
)
def test_accelerators_by_name(text, asked):
    assert parse_accelerator(text) == asked


@pytest.mark.parametrize(
    "text", ["", "gpu", "sim:", "sim:0", "sim:-3", "sim:1e9", "SIM:5", "sim:x"]
)
def test_what_is_no_accelerator_is_refused(text):
    with pytest.raises(ConfigError, match="--accelerator must be"):
        parse_accelerator(text)


@pytest.mark.parametrize("text", ["sim:0.0001", "sim:" + "9" * 400])
def test_a_speed_that_nobody_could_wait_for_is_refused(text):
    with pytest.raises(ConfigError, match="trains on 1 to 10,000,000 images a second"):
        parse_accelerator(text)
