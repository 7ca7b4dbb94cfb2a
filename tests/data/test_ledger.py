"""The ledger of bad samples: once each, kept over a resume, and a budget that ends a run."""

import json

import pytest

from train.data.batch import Bad
from train.data.ledger import Ledger
from train.errors import DataError


def bad(number, reason="damaged"):
    return Bad(number, f"cat/{number}.jpg", reason)


def lines(path):
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_each_sample_is_written_down_once(tmp_path):
    path = tmp_path / "bad.jsonl"
    ledger = Ledger(path, 1000, 1.0)
    assert ledger.add("train", [bad(1), bad(2), bad(1)], rank=3) == 2
    assert ledger.add("train", [bad(2, "another reason")]) == 0
    assert ledger.add("val", [bad(2)], rank=3) == 1  # another file, in another folder
    assert ledger.add("val", []) == 0
    assert len(ledger) == 3
    assert lines(path) == [
        {"key": "train:cat/1.jpg", "index": 1, "reason": "damaged", "rank": 3},
        {"key": "train:cat/2.jpg", "index": 2, "reason": "damaged", "rank": 3},
        {"key": "val:cat/2.jpg", "index": 2, "reason": "damaged", "rank": 3},
    ]


def test_without_a_file_it_counts_all_the_same():
    ledger = Ledger(None, 10, 0.1)
    ledger.add("train", [bad(1)])
    with pytest.raises(DataError) as stop:
        ledger.add("train", [bad(2)])
    assert "All of them" not in str(stop.value)


@pytest.mark.parametrize(
    ("num_samples", "budget", "allowed"),
    [
        (1000, 0.001, 1),
        (1001, 0.001, 2),
        (10, 0.001, 1),
        (2_000_000, 0.001, 2000),
        (100, 0.07, 7),
        (100, 0.14, 14),
        (1000, 0.0, 0),
        (50, 1.0, 50),
    ],
)
def test_the_budget_is_rounded_up(num_samples, budget, allowed):
    ledger = Ledger(None, num_samples, budget)
    assert ledger.allowed == allowed
    ledger.add("train", [bad(i) for i in range(allowed)])
    with pytest.raises(DataError):
        ledger.add("train", [bad(-1)])


def test_past_the_budget_the_message_has_the_first_ten_and_the_file(tmp_path):
    path = tmp_path / "bad.jsonl"
    ledger = Ledger(path, 2000, 0.005)
    with pytest.raises(DataError) as stop:
        ledger.add("train", [bad(i, f"reason {i}") for i in range(13)])
    message = str(stop.value)
    assert message.startswith(
        "13 of 2000 samples are bad, more than the 10 that data.bad_budget=0.005"
    )
    assert "mend or remove them, or raise the budget" in message
    assert "\n  'train:cat/0.jpg': reason 0\n" in message
    assert "reason 9" in message
    assert "reason 10" not in message
    assert "... and 3 more" in message
    assert message.endswith(f"All of them: {path}")
    assert len(lines(path)) == 13  # written before the run stops


def test_names_that_no_terminal_can_show_are_escaped(tmp_path):
    path = tmp_path / "bad.jsonl"
    ledger = Ledger(path, 10, 0.0)
    odd = Bad(0, "cat/new\nline \udce9 \U0001f600.jpg", "damaged")
    with pytest.raises(DataError) as stop:
        ledger.add("train", [odd])
    assert str(stop.value).isascii()
    assert r"cat/new\nline \udce9 \U0001f600.jpg" in str(stop.value)
    assert lines(path)[0]["key"] == f"train:{odd.key}"
    assert Ledger(path, 10, 1.0).add("train", [odd]) == 0


def test_a_resumed_run_goes_on_with_what_it_knew(tmp_path):
    path = tmp_path / "bad.jsonl"
    Ledger(path, 100, 0.03).add("train", [bad(1), bad(2)])
    resumed = Ledger(path, 100, 0.03)
    assert len(resumed) == 2
    assert resumed.add("train", [bad(1), bad(3)]) == 1
    with pytest.raises(DataError, match="4 of 100 samples"):
        resumed.add("train", [bad(4)])
    assert len(lines(path)) == 4


@pytest.mark.parametrize("torn", ['{"key": "train:cat/2.j', "\0\0\0\0", "[]", "7", '{"key": 1}'])
def test_a_line_torn_by_a_crash_costs_only_itself(tmp_path, torn):
    path = tmp_path / "bad.jsonl"
    Ledger(path, 100, 1.0).add("train", [bad(1)])
    with open(path, "a") as file:
        file.write(torn)
    resumed = Ledger(path, 100, 1.0)
    assert list(resumed.entries) == ["train:cat/1.jpg"]
    resumed.add("train", [bad(2), bad(3)])
    again = Ledger(path, 100, 1.0)
    assert list(again.entries) == ["train:cat/1.jpg", "train:cat/2.jpg", "train:cat/3.jpg"]


def test_a_full_disk_is_an_error_of_the_system(tmp_path):
    """The caller turns it into a message; the ledger itself must not hide it."""
    ledger = Ledger(tmp_path / "gone" / "bad.jsonl", 10, 1.0)
    with pytest.raises(OSError, match="No such file"):
        ledger.add("train", [bad(1)])
