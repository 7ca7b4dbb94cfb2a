"""Data that are gone while they are read: waited for, and the batches are the same."""

import errno
import os

import container_files as files
import pytest
from loading import KINDS, make, passes
from processes import wait_until

from train.data import absence, stalls
from train.data.sources import handles, root_of
from train.data.sources.folder import FolderSource
from train.data.sources.open import open_sets
from train.data.watch import Watch
from train.errors import DataGone

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(absence, "LOOK_S", 0.02)


def back_when_told(monkeypatch, away, place):
    """Put the data back as soon as it is said that they are gone; what is said."""
    said = []

    def say(text):
        said.append(text)
        if " are gone " in text:
            os.rename(away, place)

    monkeypatch.setattr(absence, "_say", say)
    return said


@pytest.mark.parametrize(("workers", "kind"), KINDS)
def test_a_folder_that_was_away_gives_the_same_batches(tree, monkeypatch, workers, kind):
    source = open_sets(str(tree)).train
    expected = passes(make(source, 0))
    away = tree.with_name("elsewhere")
    said = back_when_told(monkeypatch, away, tree)
    os.rename(tree, away)
    found = passes(make(source, workers, kind=kind))
    assert found == expected  # no substitute, nothing bad
    assert f"warning: the data at {str(tree)!r} are gone (No such file or directory)" in said[0]
    assert "waiting up to 10 minutes" in said[0]
    assert said[1].startswith("the data are back after 0 s")
    assert len(said) == 2


@pytest.mark.parametrize(("workers", "kind"), KINDS)
def test_what_never_comes_back_is_one_error(tree, monkeypatch, workers, kind):
    monkeypatch.setattr(absence, "WAIT_S", 0.1)
    source = open_sets(str(tree)).train
    os.rename(tree, tree.with_name("elsewhere"))
    loader = make(source, workers, kind=kind)
    with pytest.raises(DataGone, match=r"have been gone for 0 s .*; mount the disk again or move"):
        next(iter(loader))
    loader.close()


def test_an_unmounted_disk_leaves_an_empty_folder(tree):
    source = open_sets(str(tree)).train
    assert absence.look(source, 0) is None
    away = tree.with_name("elsewhere")
    os.rename(tree, away)
    tree.mkdir()
    gone = absence.look(source, 0)
    assert gone == (str(tree), "the folder is empty; is its disk still mounted?")


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ENOTCONN, errno.ENODEV])
def test_a_root_that_answers_with_an_error_is_gone(tree, monkeypatch, number):
    source = open_sets(str(tree)).train

    def refuse(path):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(absence.os, "scandir", refuse)
    gone = absence.look(source, 0)
    assert (gone.root, gone.reason) == (str(tree), os.strerror(number))


def test_one_missing_file_is_a_bad_sample_and_nobody_waits(tree, monkeypatch):
    source = open_sets(str(tree)).train
    monkeypatch.setattr(absence, "_say", pytest.fail)
    missing = source.key(3)
    (tree / missing).unlink()
    batches = passes(make(source, 0, train=False), 1)[0]
    assert [bad.key for batch in batches for bad in batch[4]] == [missing]


class Flaky:
    """Its first read fails, though its root is there: it was gone for a moment."""

    def __init__(self, root, failures):
        self.root, self.failures, self.reads = root, failures, 0

    def __getitem__(self, index):
        self.reads += 1
        if self.reads <= self.failures:
            raise OSError(errno.ESTALE, "Stale file handle")
        return index


def test_what_failed_in_the_moment_of_the_return_is_read_once_more(tree):
    source = Flaky(str(tree), failures=1)
    assert absence.read(source, 7, pytest.fail) == 7
    assert source.reads == 2
    with pytest.raises(OSError, match="Stale"):
        absence.read(Flaky(str(tree), failures=2), 7, pytest.fail)


@pytest.mark.parametrize("kind", ["tar", "lmdb"])
def test_a_container_that_is_replaced_while_it_is_open_needs_nothing(
    tree, tmp_path, monkeypatch, kind
):
    source, path = packed(tree, tmp_path, kind)
    monkeypatch.setattr(absence, "_say", pytest.fail)
    expected = passes(make(source, 0), 1)
    content, times = path.read_bytes(), path.stat()
    loader = make(source, 0)
    batches = iter(loader)
    next(batches)
    path.unlink()
    next(batches)
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sum(len(batch.labels) for batch in batches) + 10 == sum(
        len(batch[3]) for batch in expected[0]
    )
    loader.close()


@pytest.mark.parametrize("kind", ["tar", "lmdb"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_container_that_is_not_open_is_waited_for(tree, tmp_path, monkeypatch, kind, workers):
    source, path = packed(tree, tmp_path, kind)
    expected = passes(make(source, 0))
    handles.close_all()
    away = path.with_name("elsewhere")
    said = back_when_told(monkeypatch, away, path)
    os.rename(path, away)
    assert root_of(source, 0) == str(path)
    assert passes(make(source, workers)) == expected
    assert f"the data at {str(path)!r} are gone" in said[0]


def test_a_descriptor_of_a_dead_mount_is_not_kept(tree, tmp_path, monkeypatch):
    source, path = packed(tree, tmp_path, "tar")
    expected = source[0].data
    file = handles.stored_file(str(path))
    failed = []

    def stale(offset, length):
        failed.append(offset)
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(file, "read", stale)
    assert absence.read(source, 0, pytest.fail).data == expected
    assert len(failed) == 1
    assert handles.stored_file(str(path)) is not file


def packed(tree, folder, kind):
    """The tree in one container: its source and its file."""
    whole = open_sets(str(tree)).train
    samples = [tuple(whole[index]) for index in range(len(whole))]
    samples = [(key, label, data) for data, label, key in samples]
    if kind == "tar":
        path = folder / "all.tar"
        files.write_tar(path, samples)
    else:
        path = folder / "all" / "data.mdb"
        files.write_lmdb(path.parent, samples)
    return open_sets(str(path)).train, path


def test_the_supervision_of_silent_workers_waits_too(tree, monkeypatch):
    """Silence while the data are gone is no stall, however long."""
    source = open_sets(str(tree)).train
    os.rename(tree, tree.with_name("elsewhere"))
    said = []
    monkeypatch.setattr(absence, "_say", said.append)
    monkeypatch.setattr(stalls, "_say", pytest.fail)
    monkeypatch.setattr(stalls, "NOTE_S", 0.0)
    watch = Watch(1, shared=False)
    cell = watch.cell(0)
    cell[0], cell[2], cell[7] = 4, 1, 1  # at sample 3, since ever, away
    dataset = make(source, 0).dataset
    patience = stalls.Patience(dataset, watch, str, str, 0.05)
    assert wait_until(patience.is_over, 10)
    patience.look()
    assert not patience.is_over()
    patience.look()
    assert len(said) == 1
    cell[7] = 0
    patience.done()
    assert said[1].startswith("the data are back")


def test_where_the_root_of_a_data_set_is(tree):
    assert root_of(FolderSource(str(tree), [b"a"], [0]), 0) == str(tree)
    assert root_of(object(), 0) == ""

    class Images:
        """As torchvision's: it has a root, and no keys."""

        root = tree

    class Subset:
        dataset = Images()

    assert root_of(Subset(), 0) == str(tree)
