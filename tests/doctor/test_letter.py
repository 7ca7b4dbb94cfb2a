"""The letter: everything in it fits 80 columns and says what it must."""

import pytest
from recorded import FAULTS, HEALTHY, like, own, run

from train.config import Config
from train.doctor.asked import Asked
from train.doctor.evidence import duration, evidence, percent
from train.doctor.findings import Finding
from train.doctor.letter import (
    WIDTH,
    Arm,
    bar,
    data_part,
    gain_part,
    machine_part,
    runs_part,
    verdict_part,
)
from train.doctor.mend import mend
from train.doctor.verdict import CAUSES, judge


def mend_of(measured):
    return mend(measured, judge(measured), Asked(Config()))


LONG = Finding("a thing", True, "something was seen " * 12, "do something about it " * 9)


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("of_own", [False, True])
def test_every_letter_fits_a_terminal_of_eighty_columns(cause, of_own):
    measured = own(FAULTS[cause]) if of_own else FAULTS[cause]
    measured = like(measured, accelerator="NVIDIA A100-SXM4-80GB", examined_batch=8)
    verdict = judge(measured)
    why, cure = evidence(measured, verdict), mend(measured, verdict, Asked(Config()))
    lines = machine_part([LONG], 12) + data_part([LONG, LONG]) + runs_part(measured)
    lines += verdict_part(verdict, why, cure)
    assert WIDTH < 79  # the last column of a terminal of 80 stays free
    assert [line for line in lines if len(line) > WIDTH and line.strip() != cure.command] == []
    text = "\n".join(lines)
    assert verdict.words in text.replace("\n  ", " ").replace("\n", " ")
    assert cure.command in lines[-1]


def test_runs_are_a_table_with_bars():
    lines = runs_part(like(HEALTHY, warm=run(500), cold=run(250)))
    rows = {line.strip()[:20]: line for line in lines}
    assert rows["one batch again and "].count("█") == 2 * rows["+ made, data in memo"].count("█")
    assert "75.0%" in rows["+ data from the disk"]


def test_a_long_line_of_source_is_cut_to_the_width():
    place = "a_data_set.py:120: " + "image = self.transform(self.read(index), " * 4
    measured = own(HEALTHY, alone=HEALTHY.alone._replace(place=place, place_share=0.5))
    told = [line for line in evidence(measured, judge(measured)) if "a_data_set" in line]
    assert len(told) == 1
    assert told[0].endswith(" ...")
    assert len(verdict_part(judge(measured), told, mend_of(measured))) == 4


def test_where_nothing_is_to_do_there_is_no_command():
    cure = mend_of(HEALTHY)
    assert cure.command == ""
    assert verdict_part(judge(HEALTHY), [], cure)[-1].strip()


def test_it_is_told_why_there_are_so_many_workers():
    assert "(no workers: tuned)" in runs_part(like(HEALTHY, workers=0), "tuned")


def test_an_unknown_spread_is_explained():
    assert "spread ?" in " ".join(runs_part(HEALTHY))
    told = {name: run(900, spread=0.1) for name in ("synthetic", "copied", "cached", "warm")}
    assert "spread ?" not in " ".join(runs_part(like(HEALTHY, **told)))


def test_a_smaller_batch_is_told():
    text = " ".join(runs_part(like(HEALTHY, examined_batch=4)))
    assert "batches of 4 in place of 64" in text


def test_no_findings_are_told_too():
    assert machine_part([], 12) == ["The machine: 12 things looked at, all in order."]
    assert len(data_part([])) == 1


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (Arm("8 workers", 390.0, 0.02, 380.0, 400.0), "It gains: 1.95 x"),
        (Arm("8 workers", 210.0, 0.5, 190.0, 220.0), "No clear gain: 1.05 x"),
        (Arm("8 workers", 100.0, 0.8, 90.0, 110.0), "It does not gain here: 0.50 x"),
    ],
)
def test_a_gain_is_one_when_all_runs_say_so(after, words):
    lines = gain_part(Arm("2 workers", 200.0, 0.6, 185.0, 215.0), after, 3, "On a sample.")
    assert words in " ".join(lines)
    assert all(len(line) <= WIDTH for line in lines)
    assert lines[-1] == "On a sample."


def test_bars_have_one_width():
    assert {len(bar(share / 37)) for share in range(40)} == {22}
    assert bar(1.0) == "█" * 22
    assert bar(0.0).strip() == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3e-6, "3 µs"),
        (0.0042, "4.20 ms"),
        (0.01912, "19.1 ms"),
        (0.0745, "74.5 ms"),
        (0.5, "500 ms"),
        (0.00099996, "1.00 ms"),
        (0.9996, "1.00 s"),
        (3.04, "3.04 s"),
        (119.9, "120 s"),
        (600, "10 min"),
    ],
)
def test_times_for_people(seconds, text):
    assert duration(seconds) == text


def test_shares_for_people():
    assert (percent(0.0123), percent(0.5)) == ("1.2 %", "50 %")
