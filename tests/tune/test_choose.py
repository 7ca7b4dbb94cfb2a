"""The choice in words, and what is recommended beside it."""

import pytest
from worlds import World, costs, space

from train.data.plan import Known, MachineView, Requested
from train.data.settings import choose
from train.machine import Measure
from train.tune.choose import decide
from train.tune.known import images_of, reason, seconds_for, to_choose
from train.tune.predict import Candidate
from train.tune.recommend import Option, advise
from train.tune.show import table, yaml_lines
from train.tune.trials import Outcome, expected_seconds, trial_batch_size


def _decided(where, world, tried, **options):
    done = [(one, world.trial(one)) for one in tried]
    return decide(where, Outcome(done, tried[0], 64, ""), None, "a device", 9.0, **options)


TWO, ONE = Candidate(2, "process", 4), Candidate(1, "process", 4)


def test_an_accelerator_that_is_fed_is_said_to_be_with_the_next_cheaper_beside_it():
    where = space(costs(accelerator=900.0))
    tuned = _decided(where, World(lambda one: 500.0 * one.workers, 900.0), [TWO, ONE])
    assert (tuned.workers, tuned.prefetch, tuned.workers_kind) == (2, 4, "process")
    assert tuned.limit == "accelerator"
    assert "waits 0.0% of the time" in tuned.reasons[0]
    assert tuned.reasons[1] == "with 1 process x 4 it would wait 44.4%"


def test_data_that_are_the_limit_are_said_to_be():
    where = space(costs(accelerator=9000.0))
    tuned = _decided(where, World(lambda one: 500.0 * one.workers, 9000.0), [TWO, ONE])
    assert tuned.limit == "data"
    assert "give 1,000 images/s (measured)" in tuned.reasons[0]
    assert "9,000" in tuned.reasons[0]
    assert "1 process x 4: 500 images/s" in tuned.reasons


def test_a_budget_that_stops_it_and_other_programs_are_told():
    where = space(costs(accelerator=9000.0))
    world = World(lambda one: 500.0 * one.workers, 9000.0)
    tuned = _decided(where, world, [TWO], too_much=lambda one: one.workers > 2, others=1.0)
    assert any("3 processes x 4 do not fit" in line for line in tuned.reasons)
    assert any("other programs kept 1.0 of 2 cores busy" in line for line in tuned.reasons)


def test_what_was_measured_beside_other_programs_is_doubtful():
    where = space(costs(accelerator=9000.0))
    world = World(lambda one: 500.0 * one.workers, 9000.0)
    shares = [_decided(where, world, [TWO], others=others) for others in (0.2, 0.9, 1.1)]
    assert [(one.disturbed, one.doubtful) for one in shares] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_why_one_trial_was_enough_is_said():
    where = space(costs(batch_ms=0.5, accelerator=1000.0))
    world = World(lambda one: 1900.0 * max(1, one.workers), 1000.0)
    alone = _decided(where, world, [Candidate(0, "process", 1)])
    assert "it is fed without workers, and more would only take cores" in alone.reasons[1]
    where = space(costs(batch_ms=1.5, accelerator=900.0))
    one = _decided(where, World(lambda one: 900.0, 900.0), [TWO])
    assert "with 1 process x 4 it would wait 2" in one.reasons[1]
    fixed = space(costs(batch_ms=1.5, accelerator=900.0), fits=lambda one: one.workers == 2)
    assert "not what was asked for" in _decided(fixed, world, [TWO]).reasons[1]
    more = _decided(where, World(lambda one: 500.0 * one.workers, 900.0), [TWO, ONE])
    assert not any("nothing else" in line for line in more.reasons)


def test_without_trials_the_prediction_is_taken_and_said_to_be_one():
    where = space(costs(batch_ms=2.0, accelerator=900.0), cpus=4)
    tuned = decide(where, Outcome([], TWO, 64, "the time was over"), None, "a device", 5.0)
    assert tuned.workers == 2
    assert tuned.measured is None
    assert "(predicted)" in tuned.reasons[0]
    assert "not everything was tried: the time was over" in tuned.reasons
    assert table(tuned.rows)[1].split()[:5] == [">", "2", "processes", "x", "4"]


def test_the_table_fits_a_terminal_and_the_yaml_is_read_back():
    where = space(costs(accelerator=9000.0))
    tuned = _decided(where, World(lambda one: 500.0 * one.workers, 9000.0), [TWO, ONE])
    assert max(map(len, table(tuned.rows))) <= 80
    assert yaml_lines(tuned) == [
        "data:",
        "  workers: 2",
        "  prefetch: 4",
        "  workers_kind: process",
    ]


def _options(**seconds):
    sizes = {"original": 110_000, "windows": 112_000, "windows256": 45_000, "raw256": 290_000}
    names = {
        "original": ("original", None),
        "windows": ("windows", None),
        "windows256": ("windows", 256),
        "raw256": ("raw", 256),
    }
    return [Option(*names[name], value / 1000, sizes[name]) for name, value in seconds.items()]


def test_packing_is_advised_where_decoding_is_the_work():
    found = _options(original=1.9, windows=1.1, windows256=0.8, raw256=0.1)
    advice = advise(found, costs(batch_ms=2.0), "my data")
    assert "packed as windows it would be 1.7 x as fast" in advice.words
    assert "the same pixels" in advice.words
    assert "packed as raw, short side 256 it would be" in advice.words
    assert advice.command == "train pack 'my data' 'my data-windows' --content windows"


def test_nothing_is_advised_that_gains_nothing():
    assert advise(_options(original=0.5, windows=0.5), costs(batch_ms=0.6), "d") is None
    assert advise([], costs(), "d") is None


def test_a_slow_disk_is_mended_by_fewer_bytes():
    found = _options(original=1.9, windows=1.1, windows256=0.8, raw256=0.1)
    advice = advise(found, costs(batch_ms=2.0, waiting_ms=12.0), "d", "folder")
    assert "waits 12.0 ms" in advice.words
    assert advice.command == "train pack d d-windows --content windows --short-side 256"
    advice = advise(_options(original=0.4), costs(batch_ms=0.5, waiting_ms=12.0), "d", "folder")
    assert advice.command == "train pack d d-original --content original"
    assert advise(_options(original=0.4), costs(batch_ms=0.5, waiting_ms=12.0), "d", "tar") is None


def test_slow_batches_are_tried_in_smaller_ones():
    slow = space(costs(batch_ms=60.0, accelerator=1000.0))
    assert trial_batch_size(slow) == 8
    assert trial_batch_size(space(costs(batch_ms=2.0, accelerator=5000.0))) == 64
    # A device that may be the limit sees its own batches.
    assert trial_batch_size(space(costs(batch_ms=20.0, accelerator=60.0))) == 64
    assert trial_batch_size(space(costs(accelerator=20.0, own_ms=50.0), competes=True)) == 8
    assert expected_seconds(slow, TWO, 8) < 6


# what a run makes of it


def _machine(device="cpu", memory=8 << 30):
    return MachineView(
        device,
        Measure("CPUs", 8, "affinity"),
        Measure("memory", memory, "cgroup"),
        Measure("/dev/shm free", 8 << 30, "statvfs"),
    )


KNOWN = Known(5, 8, "thread", "tuned: waiting 0.3%")


def _settings(**requested):
    return choose(Requested(known=KNOWN, **requested), _machine(), 1 << 20, 1 << 20)


def test_what_is_known_fills_what_is_auto():
    found = _settings()
    assert (found.workers, found.prefetch, found.workers_kind) == (5, 8, "thread")
    assert (found.eval_workers, found.eval_prefetch) == (5, 8)
    why = {row.name: row.reason for row in found.reasons}
    assert why["data.workers"] == KNOWN.reason
    assert why["data.prefetch"] == why["data.workers_kind"] == "tuned with it"


def test_what_was_set_by_hand_is_never_changed():
    found = _settings(workers=2)
    assert (found.workers, found.prefetch, found.workers_kind) == (2, 8, "thread")
    why = {row.name: row.reason for row in found.reasons}
    assert why["data.workers"] == "as asked for"
    assert why["data.prefetch"] == KNOWN.reason
    assert _settings(prefetch=1).prefetch == 1
    assert _settings(workers_kind="process").workers_kind == "process"


def test_what_is_known_is_lowered_where_memory_is_short_now():
    found = choose(Requested(known=KNOWN), _machine(memory=64 << 20), 1 << 20, 1 << 20)
    assert found.workers * (found.prefetch or 0) * 2 <= 13
    assert any("lowered" in row.reason for row in found.reasons)


def test_no_workers_may_be_what_is_best():
    known = Known(0, None, "process", "tuned")
    found = choose(Requested(known=known), _machine(), 1 << 20, 1 << 20)
    assert (found.workers, found.eval_workers, found.prefetch) == (0, 0, None)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["workers", "prefetch", "workers_kind"]),
        ({"workers": 3}, ["prefetch", "workers_kind"]),
        ({"workers": 0}, []),
        ({"workers": 3, "prefetch": 2, "workers_kind": "thread"}, []),
    ],
)
def test_only_what_is_auto_is_to_choose(settings, expected):
    from train.config import Config, DataConfig

    assert to_choose(Config(data=DataConfig(**settings))) == expected


def test_how_long_a_run_is_decides_whether_it_is_tuned_and_for_how_long():
    from train.config import Config, OptimConfig, RunConfig

    assert images_of(Config(optim=OptimConfig(epochs=8)), 1600) == 12_800
    short = Config(optim=OptimConfig(epochs=8, accumulate=2), run=RunConfig(max_steps=3))
    assert images_of(short, 1600) == 3 * 2 * 64
    assert seconds_for(10_000) == pytest.approx(12.5)
    assert seconds_for(10**9) == 60.0


def test_the_reason_names_the_limit_the_waiting_and_since_when():
    where = space(costs(accelerator=900.0))
    tuned = _decided(where, World(lambda one: 500.0 * one.workers, 900.0), [TWO, ONE])
    assert reason(tuned, "known since today") == (
        "tuned: as few cores as keep the accelerator fed, waiting 0.0%; known since today"
    )


def test_what_other_programs_take_is_never_negative():
    from train.usage import OthersClock

    assert OthersClock().cores() >= 0
