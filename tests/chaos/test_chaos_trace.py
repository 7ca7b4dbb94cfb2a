"""The judge of the chaos test itself: what is lost, repeated or left behind must not pass it."""

import random

import pytest
from chaos_faults import KINDS, WAYS, plan
from chaos_trace import Step, follow, sizes, wrong


def begin():
    return {"at": "begin"}


def step(number, samples, epoch=0, seen=None):
    seen = 2 * ((number - 1) % 3 + 1) if seen is None else seen
    return {"at": "step", "step": number, "epoch": epoch, "seen": seen, "samples": samples}


def saving(digest):
    return {"at": "saving", "digest": digest}


def saved(digest):
    return {"at": "saved", "digest": digest}


def loaded(digest):
    return {"at": "loaded", "digest": digest}


FIRST = [
    begin(),
    step(1, [0, 1]),
    saving("a"),
    saved("a"),
    step(2, [2, 3]),
    saving("b"),
    saved("b"),
]
LOST = [step(3, [4, 5])]
REST = [step(3, [4, 5]), saving("c"), saved("c")]


def history(*lives, notes=None):
    return follow([(f"{n}-0", {0: life}) for n, life in enumerate(lives, 1)], notes)


def test_what_was_trained_after_the_last_checkpoint_counts_once():
    found = history(FIRST + LOST, [begin(), loaded("b"), *REST])
    assert found.problems == []
    assert [s.samples for s in found.steps] == [((0, 1),), ((2, 3),), ((4, 5),)]
    assert wrong(found.steps, samples=6, epochs=1) == []
    assert (found.counts["trained"], found.counts["begun"], found.final) == (4, 2, "c")


def test_a_kill_inside_a_save_may_leave_either_one():
    cut = FIRST + [step(3, [4, 5]), saving("c")]
    for digest, rest in (("b", REST), ("c", [saving("d"), saved("d")])):
        found = history(cut, [begin(), loaded(digest), *rest])
        assert found.problems == []
        assert found.counts["cut"] == 1
        assert wrong(found.steps, 6, 1) == []


@pytest.mark.parametrize(
    ("again", "problem"),
    [
        ([loaded("a"), step(2, [2, 3]), *REST], "another checkpoint than the newest"),
        ([loaded("x"), *REST], "that nobody wrote"),
        ([step(1, [0, 1])], "began anew"),
    ],
)
def test_a_lost_checkpoint_is_found(again, problem):
    assert problem in "\n".join(history(FIRST, [begin(), *again]).problems)


def test_a_damaged_one_gives_way_to_the_one_before_it():
    note = {"1-0": {"last": "b", "previous": "a"}}
    again = [begin(), loaded("a"), step(2, [2, 3]), saving("e"), saved("e")]
    good = history(FIRST, again, notes=note)
    assert good.problems == []
    assert good.counts["fallback"] == 1
    # only a good one takes the place of a good one
    assert (
        history(FIRST, again, notes={**note, "2-0": {"last": "e", "previous": "a"}}).problems == []
    )
    assert history(FIRST, again, notes={**note, "2-0": {"last": "e", "previous": "b"}}).problems
    assert history(FIRST, [begin(), loaded("b")], notes=note).problems
    assert history(FIRST, again, notes={"1-0": {"last": "a", "previous": "a"}}).problems


STEPS = [Step(n + 1, 0, 2 * n + 2, ((2 * n,), (2 * n + 1,))) for n in range(3)]


def test_each_sample_once_in_each_epoch():
    assert wrong(STEPS, 6, 1) == []
    assert sizes(STEPS) == [(2, 3)]
    assert sizes([STEPS[0], STEPS[1]._replace(samples=((2, 3),)), STEPS[2]]) == [
        (2, 1),
        (1, 2),
        (2, 3),
    ]


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        (STEPS[:2], r"lost [4, 5]"),
        (STEPS[:1] + STEPS[2:], "steps are lost or repeated"),
        ([*STEPS, STEPS[2]._replace(step=4)], "repeated [4, 5]"),
        ([*STEPS[:2], STEPS[2]._replace(samples=((4,), (4,)))], "lost [5], repeated [4]"),
        ([*STEPS[:2], STEPS[2]._replace(seen=5)], "6 samples, but 5 counted"),
        ([*STEPS, Step(4, 1, 2, ((0, 1),))], "more epochs"),
    ],
)
def test_what_is_lost_or_repeated_is_found(steps, problem):
    assert problem in "\n".join(wrong(steps, 6, 1))


def test_faults_are_drawn_from_the_seed_alone():
    random.seed(0)
    one = [plan(1, number, 99, True) for number in range(40)]
    random.seed(1)
    assert one == [plan(1, number, 99, True) for number in range(40)]
    assert one != [plan(2, number, 99, True) for number in range(40)]
    assert {way for way, _ in one} == set(WAYS)
    assert {fault.kind for _, faults in one for fault in faults} == set(KINDS)
    assert all(fault.kind != "disk" for n in range(40) for fault in plan(1, n, 99, False)[1])
    for way, faults in one:
        assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
        assert way in ("two", "moved") or all(fault.kind != "rank" for fault in faults)


def test_the_five_kills_of_ci_are_the_five_that_matter():
    _, first = plan(12, 0, 5, True)
    _, second = plan(12, 1, 5 - len(first), True)
    kinds = {fault.kind for fault in first + second}
    assert kinds == {"worker", "rank", "run", "damage", "disk"}
