"""The campaign: whatever a reader does to its process, the input is named, and it goes on."""

import collections
import itertools
import os
import random
import re
import signal
import time

import fuzz_bounds
import fuzz_campaign
import fuzz_targets
import pytest
from fuzz_campaign import Block
from fuzz_progress import Progress
from fuzz_targets import Target

from train.errors import BadSample, DataError

MIB = 1 << 20


def fake(check, **more):
    """A target whose inputs are their own numbers."""

    def mutated(draw, seeds):
        first = draw.random()
        return b"%d" % next(n for n in range(100) if random.Random(f"fake:{n}").random() == first)

    return Target(lambda: [b""], lambda data, *_: check(int(data)), mutated, **more)


def at_three(action):
    """Do it for number 3; 1 and 4 are refused."""

    def check(number):
        if number == 3:
            action()
        if number in (1, 4):
            raise BadSample("one or four")

    return check


def crash(number=0):
    os.kill(os.getpid(), signal.SIGSEGV)


def loop():
    while True:
        pass


def refuse(*_):
    raise DataError("it killed its reader")


@pytest.fixture
def campaign(monkeypatch, tmp_path):
    """Runs numbers 0 to 5 -> (counts, findings)."""

    def run(target):
        monkeypatch.setitem(fuzz_targets.TARGETS, "fake", target)
        monkeypatch.setitem(fuzz_targets._seeds, "fake", [b""])
        total, findings, numbers = {}, [], []

        def finished(block, counts, found):
            numbers.extend(range(block.first, block.first + block.count))
            findings.extend(found)
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count

        fuzz_campaign.run([Block("fake", 0, 6)], tmp_path, finished)
        assert sorted(numbers) == list(range(6))
        assert list(tmp_path.iterdir()) == []
        return {name: count for name, count in total.items() if count}, findings

    monkeypatch.setattr(fuzz_bounds, "CPU_S", 1.5)
    monkeypatch.setattr(fuzz_campaign, "SILENCE_S", 8.0)
    return run


def test_what_is_sound_is_counted(campaign):
    assert campaign(fake(at_three(lambda: None))) == ({"read": 4, "refused": 2}, [])


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (lambda: {}["x"], "KeyError"),
        (loop, "processor time"),
        (lambda: collections.deque(itertools.repeat(0), maxlen=0), "CPU time limit"),
        (lambda: b"x" * (400 * MIB), "took 4.. MiB"),
        (lambda: b"x" * (9000 * MIB), "MemoryError"),
        (crash, "it killed the process: Segmentation fault"),
        (lambda: time.sleep(60), "no end within 8 s"),
        (lambda: os._exit(7), "exit code 7"),
    ],
)
def test_what_no_input_may_do_is_found_and_the_others_are_read(campaign, action, why):
    counts, findings = campaign(fake(at_three(action)))
    assert counts == {"read": 3, "refused": 2, "failed": 1}
    ((target, number, text),) = findings
    assert (target, number) == ("fake", 3)
    assert re.search(why, text), text


def test_a_crash_that_the_product_contains_is_none(campaign):
    counts, findings = campaign(fake(at_three(crash), contained=refuse))
    assert (counts, findings) == ({"read": 3, "refused": 2, "contained": 1}, [])


@pytest.mark.parametrize("contained", [crash, lambda *_: {}["x"]])
def test_a_crash_that_it_does_not_contain_is_found(campaign, contained):
    _, findings = campaign(fake(at_three(crash), contained=lambda *_: contained()))
    assert [finding.number for finding in findings] == [3]


def test_a_mutant_is_a_function_of_target_and_number():
    for name in ("jpeg", "tar", "config", "index"):
        first = [fuzz_targets.mutant(name, number)[0] for number in range(20)]
        fuzz_targets._seeds.clear()  # made anew
        assert [fuzz_targets.mutant(name, number)[0] for number in range(20)] == first
        assert len(set(first)) > 15


def test_a_campaign_goes_on_where_it_stopped(tmp_path):
    names = ["jpeg", "tar", "config"]
    progress = Progress(tmp_path, 5000, names)
    blocks = list(progress.blocks())
    assert {block.target for block in blocks[:3]} == set(names)
    for block in [*blocks[:4], blocks[7]]:  # the others were being read when it was killed
        progress.finished(block, {"read": block.count}, [])
    progress.save(1.0)
    again = Progress(tmp_path, 5000, names)
    assert again.done() == (sum(b.count for b in [*blocks[:4], blocks[7]]), 5000)
    assert sorted(again.blocks()) == sorted([*blocks[4:7], *blocks[8:]])
    more = Progress(tmp_path, 6000, names)  # COUNT may grow
    assert sum(block.count for block in more.blocks()) == 6000 - again.done()[0]
