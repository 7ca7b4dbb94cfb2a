"""From recorded measurements to a verdict."""

import json

import pytest
from recorded import FAULTS, HEALTHY, SLOW, like, own, run

from train.config import Config
from train.doctor.asked import Asked
from train.doctor.evidence import SHORT, evidence
from train.doctor.measurements import Item, Stages, from_dict
from train.doctor.mend import mend
from train.doctor.verdict import CAUSES, ENOUGH, judge, oversubscribed, parts_of_a_sample


@pytest.mark.parametrize("cause", CAUSES)
def test_each_fault_is_found(cause):
    verdict = judge(FAULTS[cause])
    assert verdict.cause == cause
    assert verdict.clear == (cause != "noise")
    assert cause == "model" or verdict.words == CAUSES[cause]


@pytest.mark.parametrize("cause", CAUSES)
def test_measurements_survive_json(cause):
    measured = FAULTS[cause]
    again = from_dict(json.loads(json.dumps(measured.as_dict())))
    assert again == measured
    assert judge(again) == judge(measured)


@pytest.mark.parametrize("cause", CAUSES)
def test_each_verdict_has_evidence_with_numbers(cause):
    lines = evidence(FAULTS[cause], judge(FAULTS[cause]))
    assert len(lines) >= 2
    assert all(any(sign.isdigit() for sign in line) for line in lines)
    assert "waits for" in lines[0]


def test_every_cause_has_a_short_name():
    assert set(SHORT) == set(CAUSES) - {"model", "noise"}


@pytest.mark.parametrize(
    ("speed", "cause"), [(1000, "model"), (960, "model"), (940, "decode"), (100, "decode")]
)
def test_loading_is_the_limit_from_some_waiting_on(speed, cause):
    assert 0.04 < ENOUGH < 0.06
    assert judge(like(HEALTHY, warm=run(speed))).cause == cause


def test_losses_are_the_differences_of_the_runs():
    measured = like(
        HEALTHY,
        synthetic=run(1000),
        copied=run(500),
        cached=run(250),
        warm=run(100),
        cold=run(50),
        data_bytes=10**12,
        alone=Item(0.001, 0.001),
        stages=Stages(0.0, 0.001, 0.0),
    )
    losses = dict(judge(measured).losses)
    assert losses["copy"] == pytest.approx(1 / 500 - 1 / 1000)
    assert losses["transport"] == pytest.approx(1 / 250 - 1 / 500)
    assert losses["decode"] == pytest.approx(1 / 100 - 1 / 250)
    assert losses["disk"] == pytest.approx(1 / 50 - 1 / 100)
    assert sum(losses.values()) == pytest.approx(1 / 50 - 1 / 1000)


@pytest.mark.parametrize("noisy", ["copied", "cached", "warm"])
def test_a_run_that_is_faster_than_the_one_before_costs_nothing(noisy):
    losses = dict(judge(like(HEALTHY, **{noisy: run(1200)})).losses)
    assert all(seconds >= 0 for seconds in losses.values())


def test_ready_batches_that_came_slower_than_real_ones_are_noise():
    measured = like(HEALTHY, cached=run(100), warm=run(200))
    assert sum(dict(judge(measured).losses).values()) == pytest.approx(1 / 200 - 1 / 1000)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"synthetic": run(38), "warm": run(47)}, "noise"),
        ({"synthetic": run(38, spread=0.3), "warm": run(47)}, "model"),
        ({"synthetic": run(38), "warm": run(47, spread=0.3)}, "model"),
        ({"synthetic": run(38), "warm": run(42)}, "model"),
        ({"cached": run(250), "warm": run(300)}, "transport"),  # it would be that either way
        ({"cached": run(100), "warm": run(200)}, "noise"),
    ],
)
def test_a_run_that_beats_one_that_did_less_leaves_the_verdict_open(changes, cause):
    speeds = {"copied": run(42), "cached": run(42)} if "synthetic" in changes else {}
    measured = like(HEALTHY, **{**speeds, **changes})
    if cause == "model":  # a device of its own speed: nothing is waited for
        measured = like(measured, warm=measured.warm._replace(wait_share=0.0))
    verdict = judge(measured)
    assert verdict.cause == cause
    first = evidence(measured, verdict)[0]
    assert ("could take" in first) == (
        measured.warm.images_per_s <= measured.synthetic.images_per_s
    )


def test_figures_that_disagree_are_told_and_there_is_no_command():
    measured = FAULTS["noise"]
    verdict = judge(measured)
    assert "don't agree" in verdict.words
    assert "38, 1,000, 45, 47" in " ".join(evidence(measured, verdict))
    assert mend(measured, verdict, Asked(Config())).command == ""


def test_a_simulated_device_is_no_model():
    verdict = judge(HEALTHY)
    assert verdict.words == "loading is not your limit: the loader keeps up with 1,000 images/s"
    words = mend(HEALTHY, verdict, Asked(Config())).words
    assert "model" not in " ".join([words, *evidence(HEALTHY, verdict)])
    assert judge(like(HEALTHY, accelerator="CPU")).words == CAUSES["model"]


@pytest.mark.parametrize(
    ("unnamed_s", "words"),
    [(0.0008, "your __getitem__ is your limit"), (0.0001, CAUSES["decode"])],
)
def test_code_that_decodes_nothing_is_not_called_decoding(unnamed_s, words):
    measured = own(SLOW, stages=Stages(0.0, 0.0009, 0.0001, unnamed_s=unnamed_s))
    verdict = judge(measured)
    assert (verdict.cause, verdict.words) == ("decode", words)
    text = " ".join(evidence(measured, verdict))
    assert ("your __getitem__ makes" in text) == (unnamed_s > 0.0004)


@pytest.mark.parametrize("cause", set(CAUSES) - {"noise"})
def test_the_hottest_lines_of_own_data_are_told_with_their_shares(cause):
    base = FAULTS[cause]
    item = base.alone._replace(
        place="d.py:3: first()", place_share=0.62, next_place="d.py:4: next()", next_share=0.2
    )
    measured = own(base, alone=item)
    text = " ".join(evidence(measured, judge(measured)))
    assert "62 % of a worker's time: d.py:3: first()" in text
    assert "20 %: d.py:4: next()" in text
    assert text.count("d.py:3") == 1


def test_without_workers_the_main_process_is_named_alone():
    measured = like(SLOW, workers=0)
    text = " ".join(evidence(measured, judge(measured)))
    assert "0 workers" not in text
    assert "the main process kept 1.9 of 4 CPUs busy" in text


# which run counts


def test_data_that_fit_into_memory_come_from_the_disk_but_once():
    verdict = judge(like(HEALTHY, cold=run(150)))
    assert (verdict.cause, verdict.counts, verdict.first_pass) == ("model", "warm", "disk")
    assert "first pass" in " ".join(evidence(like(HEALTHY, cold=run(150)), verdict))


def test_data_of_unknown_size_may_come_from_the_disk_always():
    measured = own(cold=run(150))
    assert judge(measured).counts == "cold"
    assert judge(measured).cause == "disk"


def test_a_cold_run_that_was_not_slower_does_not_count():
    measured = like(SLOW, cold=run(210), data_bytes=10**12)
    assert (judge(measured).counts, judge(measured).cause) == ("warm", "decode")


def test_a_slow_source_shows_without_a_cold_run():
    waits = Item(0.02, 0.001, blocked_s=0.019, items=50)
    assert judge(like(SLOW, alone=waits)).cause == "disk"


# how a sample's time is split


def test_workers_that_wait_for_each_other_wait_for_a_lock():
    alone = Item(0.005, 0.004, blocked_s=0.001)
    together = Item(0.02, 0.004, blocked_s=0.013)
    parts = parts_of_a_sample(own(SLOW, workers=4, alone=alone, together=together))
    assert parts["lock"] == pytest.approx(0.012)
    assert parts["disk"] == pytest.approx(0.001)


def test_our_own_processes_have_no_lock_so_they_wait_for_the_disk():
    alone = Item(0.005, 0.004, blocked_s=0.001)
    together = Item(0.02, 0.004, blocked_s=0.013)
    parts = parts_of_a_sample(like(SLOW, alone=alone, together=together))
    assert (parts["lock"], parts["disk"]) == (0, pytest.approx(0.013))


def test_our_own_threads_may_wait_for_the_lock_of_python():
    measured = like(
        SLOW,
        workers_kind="thread",
        alone=Item(0.005, 0.004, blocked_s=0.0),
        together=Item(0.02, 0.004, blocked_s=0.012),
    )
    assert judge(measured).cause == "lock"


@pytest.mark.parametrize(
    ("place", "part"), [("d.py:3: with self._lock:", "lock"), ("d.py:3: file.read()", "disk")]
)
def test_reading_that_gets_slower_side_by_side_is_a_lock_if_the_line_says_so(place, part):
    measured = own(
        SLOW,
        alone=Item(0.011, 0.001, blocked_s=0.010),
        together=Item(0.031, 0.001, blocked_s=0.030, place=place, place_share=0.9),
    )
    parts = parts_of_a_sample(measured)
    assert parts[part] == pytest.approx(0.020 + (0.010 if part == "disk" else 0))


def test_a_lock_that_one_worker_waits_for_is_no_disk():
    parts = parts_of_a_sample(
        own(SLOW, alone=Item(0.01, 0.001, blocked_s=0.009), stages=Stages(lock_s=0.008))
    )
    assert parts["lock"] == pytest.approx(0.008)
    assert parts["disk"] == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("helper_s", "workers", "cpus", "too_many"),
    [
        (0.003, 2, 4, True),  # 4 threads x 2 on 4
        (0.003, 1, 4, False),  # 4 threads on 4: they help
        (0.0002, 16, 4, False),  # hardly busy
        (0.001, 4, 4, True),
        (0.0, 64, 1, False),
    ],
)
def test_threads_are_too_many_when_workers_have_more_than_there_are_cpus(
    helper_s, workers, cpus, too_many
):
    measured = own(
        SLOW, workers=workers, cpus=cpus, alone=Item(0.001, 0.001, helper_s=helper_s, items=9)
    )
    assert oversubscribed(measured) is too_many
    assert (parts_of_a_sample(measured)["threads"] > 0) is too_many


def test_threads_that_help_do_the_samples_work():
    measured = own(
        SLOW,
        workers=1,
        cpus=8,
        alone=Item(0.001, 0.001, helper_s=0.003),
        stages=Stages(0.0, 0.00075, 0.00025),
    )
    parts = parts_of_a_sample(measured)
    assert parts["decode"] == pytest.approx(0.003)
    assert parts["augment"] == pytest.approx(0.001)


def test_collating_is_part_of_the_way_to_the_main_process():
    parts = parts_of_a_sample(own(SLOW, stages=Stages(0.0, 0.0001, 0.0, collate_s=0.002)))
    assert parts["transport"] == pytest.approx(0.002)


def test_larger_batches_save_no_more_than_a_batch_costs():
    """A noisy run with large batches must not hide a slow decoder."""
    measured = like(SLOW, batch_size=16, large=run(600), large_batch=128)
    assert judge(measured).cause == "decode"


# how sure it is


def test_a_second_cause_that_is_nearly_as_large_is_named():
    measured = like(SLOW, stages=Stages(0.0, 0.0010, 0.0009))
    verdict = judge(measured)
    assert (verdict.cause, verdict.next_cause, verdict.clear) == ("decode", "augment", False)
    assert "it is close" in evidence(measured, verdict)[-1]


def test_a_slow_model_has_no_next_cause():
    verdict = judge(HEALTHY)
    assert (verdict.next_cause, verdict.ratio) == (None, float("inf"))


# no measurement breaks it


@pytest.mark.parametrize(
    "changes",
    [
        {"alone": Item(0.0, 0.0)},
        {"stages": Stages()},
        {"workers": 0},
        {"images": 2},
        {"batch_size": 1, "large": run(100)},
        {"cold": run(900)},
        {"record_bytes": None, "data_bytes": None},
        {"together": Item(0.0, 0.0)},
        {"synthetic": run(0)},
    ],
)
@pytest.mark.parametrize("cause", CAUSES)
def test_odd_measurements_still_give_a_verdict_and_a_mend(cause, changes):
    measured = like(FAULTS[cause], **changes)
    verdict = judge(measured)
    assert verdict.cause in CAUSES
    assert evidence(measured, verdict)
    assert mend(measured, verdict, Asked(Config())).words
