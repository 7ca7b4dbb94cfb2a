"""Names in two arrays, and the index file beside a container: never trusted, never left torn."""

import multiprocessing
import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from train.data.sources import index_file
from train.data.sources.index import open_index
from train.data.sources.names import Names
from train.errors import DataError

KEYS = ["cat/a.jpg", "", "日本", os.fsdecode(b"caf\xe9.jpg"), "new\nline"]
FUZZ = 150


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    return tmp_path / "cache" / "wellfed"


@pytest.fixture
def container(tmp_path):
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "a.tar"
    path.write_bytes(b"x" * 1000)
    return str(path)


def build(progress):
    if progress is not None:
        progress(5)
    arrays = {"labels": np.arange(5), "empty": np.zeros((0, 3)), "table": np.ones((2, 3), "u1")}
    return {**arrays, **Names.of(KEYS).arrays("keys")}, {"notes": ["a note", "\udce9"]}


def never(progress):
    raise AssertionError("the index was built again")


def check(index):
    assert index["labels"].tolist() == [0, 1, 2, 3, 4]
    assert index["labels"].dtype == np.int64
    assert index["empty"].shape == (0, 3)
    assert index["table"].shape == (2, 3)
    assert index.names("keys").tolist() == KEYS
    assert index.meta == {"notes": ["a note", "\udce9"]}


def test_names_come_back_as_they_went_in():
    names = pickle.loads(pickle.dumps(Names.of(KEYS)))
    assert names.tolist() == KEYS == list(names)
    assert names.raw(3) == b"caf\xe9.jpg"
    assert Names.of([]).tolist() == []
    for index in (-1, 5):
        with pytest.raises(IndexError):
            names[index]


def test_a_container_is_read_once(container):
    told = []
    check(open_index(container, "tar", build, told.append))
    check(open_index(container, "tar", never))
    assert told == [5]
    assert sorted(os.listdir(os.path.dirname(container))) == ["a.tar", "a.tar.index"]


def test_what_is_mapped_can_not_be_written_and_holds_no_descriptor(container):
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else None
    open_index(container, "tar", build)
    index = open_index(container, "tar", never)
    with pytest.raises(ValueError, match="read-only"):
        index["labels"][0] = 1
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize("change", ["content", "time", "kind", "options", "version"])
def test_an_index_that_does_not_fit_is_built_again(container, change, monkeypatch):
    open_index(container, "tar", lambda progress: ({"labels": np.zeros(1)}, {}))
    kind, options = "tar", None
    if change == "content":
        with open(container, "ab") as file:
            file.write(b"more")
    elif change == "time":
        os.utime(container, ns=(5, 5))
    elif change == "kind":
        kind = "tfrecord"
    elif change == "options":
        options = {"trust": True}
    else:
        monkeypatch.setattr(index_file, "VERSION", 99)
    index = open_index(container, kind, build, options=options)
    check(index)
    assert bool(index.notes) == (change in ("content", "time", "version"))
    check(open_index(container, kind, never, options=options))


def test_a_damaged_index_is_built_again(container):
    path = open_index(container, "tar", build).path
    good = Path(path).read_bytes()
    draw = random.Random(0)
    for number in range(FUZZ):
        data = bytearray(good)
        if number % 3 == 0:
            del data[draw.randrange(len(data)) :]
        else:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        index_file._write(path, [bytes(data)])
        check(open_index(container, "tar", build))


def test_a_foreign_file_under_the_name_is_replaced(container):
    for content in (b"", b"hello", bytes(4096), b"wf-index" + b"\xff" * 4096):
        with open(container + ".index", "wb") as file:
            file.write(content)
        index = open_index(container, "tar", build)
        check(index)
        assert "damaged" in index.notes[0]


def test_a_folder_that_can_not_be_written_sends_the_index_to_the_cache(container, cache):
    os.mkdir(container + ".index")  # nothing can be renamed onto it, not even by root
    index = open_index(container, "tar", build)
    assert os.path.dirname(index.path) == str(cache)
    assert any(str(cache) in note for note in index.notes)
    again = open_index(container, "tar", never)
    check(again)
    assert again.notes == []


def test_without_a_cache_the_temporary_folder_takes_it(container, cache, tmp_path):
    os.mkdir(container + ".index")
    cache.parent.write_text("in the way")
    index = open_index(container, "tar", build)
    assert index.path.startswith(str(tmp_path / "scratch"))
    check(open_index(container, "tar", never))
    folder = os.path.dirname(index.path)
    os.chmod(folder, 0o777)  # as if somebody else had made it, with a wrong index in it
    with pytest.raises(DataError, match=r"(?s)can't be written.*XDG_CACHE_HOME"):
        open_index(container, "tar", build)


def test_a_full_disk_leaves_nothing_half_written(container, cache, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left"):
        open_index(container, "tar", build)
    assert os.listdir(os.path.dirname(container)) == ["a.tar"]
    assert os.listdir(cache) == []


def test_a_container_that_changes_while_it_is_read_is_refused(container):
    def meddle(progress):
        os.utime(container, ns=(7, 7))
        return build(progress)

    with pytest.raises(DataError, match="changed while"):
        open_index(container, "tar", meddle)
    with pytest.raises(DataError, match="No such file"):
        open_index(container + "x", "tar", build)


def test_it_pickles_by_its_path_and_opens_in_another_process(container):
    open_index(container, "tar", lambda progress: ({"labels": np.arange(100_000)}, {}))
    index = open_index(container, "tar", never)
    assert len(pickle.dumps(index)) < 1000
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.apply(_total, (index,)) == sum(range(100_000))


def _total(index):
    return int(index["labels"].sum())


def test_an_index_that_vanished_or_was_replaced_is_named(container):
    index = open_index(container, "tar", build)
    pickled = pickle.dumps(index)
    os.unlink(index.path)
    with pytest.raises(DataError, match=r"a\.tar\.index' is gone.*start again"):
        pickle.loads(pickled)["labels"]
    open_index(container, "tar", build)
    with pytest.raises(DataError, match="has been replaced"):
        pickle.loads(pickled)["labels"]
