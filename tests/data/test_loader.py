"""The loader: the same batches for any workers and after any resume; a `for` may be left."""

import itertools

import pictures
import pytest
from loading import KINDS, digest, make, passes
from processes import threads, workers

from train.config import DataConfig
from train.data.sources.splits import open_splits
from train.errors import DataError

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")


@pytest.fixture
def source(tree):
    """25 pictures, three of them bad."""
    whole = (tree / "cat" / "000.jpg").read_bytes()
    (tree / "bird" / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (tree / "cat" / "003.jpg").write_bytes(b"")
    (tree / "dog" / "005.jpg").write_bytes(b"<html>")
    return open_splits(str(tree), 0.01, 42).train


@pytest.fixture
def expected(source):
    return passes(make(source))


@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_batches_are_byte_equal_for_any_number_and_kind_of_workers(source, expected, count, kind):
    """Bad samples and what takes their place included."""
    assert passes(make(source, count, kind=kind)) == expected
    assert {bad.key for batch in expected[0] for bad in batch[4]} == {
        "bird/half.jpg",
        "cat/003.jpg",
        "dog/005.jpg",
    }


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_batches_are_byte_equal_for_any_start_method(source, expected, method):
    assert passes(make(source, 2, method)) == expected


@pytest.mark.parametrize(("count", "kind"), KINDS[1:])
def test_evaluation_is_byte_equal_and_in_the_order_of_the_source(source, count, kind):
    found = passes(make(source, count, kind=kind, train=False))
    assert found == passes(make(source, train=False))
    assert [i for batch in found[0] for i in batch[2]] == list(range(len(source)))
    assert [batch[2:] for batch in found[0]] == [batch[2:] for batch in found[1]]


@pytest.mark.parametrize(("count", "kind"), KINDS[1:])
def test_real_photographs_are_byte_equal_with_workers(photos, count, kind):
    photographs = open_splits(str(photos), 0.2, 42).val
    config = DataConfig(batch_size=8, image_size=96)
    alone = passes(make(photographs, config=config), 1)
    assert passes(make(photographs, count, kind=kind, config=config), 1) == alone
    assert not any(batch[4] for batch in alone[0])


def test_each_pass_is_the_next_epoch_with_its_own_order_and_crops(expected):
    first, second = expected
    assert {batch[0] for batch in first} == {0}
    assert {batch[0] for batch in second} == {1}
    orders = [[i for batch in epoch for i in batch[2]] for epoch in expected]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(len(orders[0])))
    assert not {batch[5] for batch in first} & {batch[5] for batch in second}


@pytest.mark.parametrize(("count", "kind"), KINDS)
@pytest.mark.parametrize("after", [1, 3])
def test_from_the_middle_of_an_epoch_the_rest_is_byte_equal(source, expected, count, kind, after):
    loader = make(source, count, kind=kind)
    iterator = iter(loader)
    begun = [digest(next(iterator)) for _ in range(after)]
    state = loader.state_dict()
    iterator.close()
    assert begun == expected[0][:after]
    assert state == {"seed": 42, "epoch": 0, "samples_seen": begun[-1][1]}
    resumed = make(source, count, kind=kind)
    resumed.load_state_dict(state)
    assert len(resumed) == len(expected[0]) - after
    assert passes(resumed) == [expected[0][after:], expected[1]]


def test_a_state_fits_any_number_of_workers(source, expected):
    resumed = make(source, 2)
    resumed.load_state_dict({"seed": 42, "epoch": 1, "samples_seen": expected[1][1][1]})
    assert passes(resumed, 1) == [expected[1][2:]]


def test_a_state_of_another_seed_is_refused(source):
    with pytest.raises(DataError, match="has seed 7, this run has 42"):
        make(source).load_state_dict({"seed": 7, "epoch": 0, "samples_seen": 0})


def test_a_state_is_loaded_while_workers_wait_elsewhere(source, expected):
    loader = make(source, 2)
    loader.start()
    loader.load_state_dict({"seed": 42, "epoch": 1, "samples_seen": 0})
    assert passes(loader, 1) == [expected[1]]


def test_at_the_end_of_an_epoch_nothing_of_it_is_left(source, expected):
    """A run that was stopped right after its last batch goes on with the next epoch."""
    loader = make(source)
    loader.load_state_dict({"seed": 42, "epoch": 0, "samples_seen": expected[0][-1][1]})
    assert len(loader) == len(expected[1])
    assert passes(loader, 1) == [expected[1]]


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_a_for_that_is_left_early_goes_on_where_it_was_left(source, expected, count, kind):
    loader = make(source, count, kind=kind)
    for batch in loader:
        assert digest(batch) == expected[0][0]
        break
    assert workers() == threads() == []
    found = [digest(batch) for batch in loader]
    loader.close()
    assert found == expected[0][1:]


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_a_consumer_that_counts_its_batches_meets_no_surprise(source, expected, count, kind):
    """It never asks for one more than there are, so it never comes to the end of a `for`."""
    loader, found = make(source, count, kind=kind), []
    for _ in range(2):
        left = len(loader)
        iterator = iter(loader)
        found.append([digest(next(iterator)) for _ in range(left)])
        assert len(workers() + threads()) == count
    loader.close()
    assert found == expected


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_two_iterators_at_once_never_mix_their_batches(source, expected, count, kind):
    loader = make(source, count, kind=kind)
    first = iter(loader)
    begun = [digest(next(first)) for _ in range(2)]
    second = iter(loader)  # begins, at its first batch, where the loader stands
    both = [(digest(next(second)), digest(next(first))) for _ in range(2)]
    first.close()
    second.close()
    loader.close()
    assert begun == expected[0][:2]
    assert both == [(batch, batch) for batch in expected[0][2:4]]


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_the_order_ends_with_the_last_epoch(source, count, kind):
    loader = make(source, count, kind=kind, epochs=2)
    total = len(loader)
    assert [len(list(loader)) for _ in range(3)] == [total, total, 0]
    loader.close()


def test_len_is_what_the_next_for_gives(source):
    """What a progress bar asks for before each pass."""
    loader = make(source, epochs=3)
    iterator = iter(loader)
    next(iterator)
    next(iterator)
    iterator.close()
    lengths = []
    for _ in range(3):
        lengths.append(len(loader))
        assert len(list(loader)) == lengths[-1]
    assert lengths == [lengths[1] - 2, lengths[1], lengths[1]]
    assert len(loader) == 0  # past the last epoch


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_workers_live_from_start_to_close(source, kind):
    loader = make(source, 2, kind=kind)
    loader.close()  # nothing to close yet
    assert workers() == threads() == []
    loader.start()
    begun = workers(), threads()
    assert [len(part) for part in begun] == ([2, 0] if kind == "process" else [0, 2])
    loader.start()
    list(loader)
    list(loader)
    assert (workers(), threads()) == begun  # the same ones, over epochs
    loader.close()
    loader.close()
    assert workers() == threads() == []
    assert len(list(loader)) > 0  # and again after a close
    loader.close()


def test_ranks_are_disjoint_and_complete(source):
    loaders = [make(source, rank=rank, world_size=3) for rank in range(3)]
    indices = [[i for batch in loader for i in batch.indices.tolist()] for loader in loaders]
    assert sorted(itertools.chain(*indices)) == list(range(len(source)))


def test_a_folder_of_one_picture_a_class_can_be_loaded(tmp_path):
    root = pictures.write_tree(tmp_path / "few", count=1)
    splits = open_splits(str(root), 0.1, 42)
    assert splits.val is splits.train
    assert any("single image" in note for note in splits.notes)
    assert [len(list(make(splits.train, train=train))) for train in (True, False)] == [1, 1]
