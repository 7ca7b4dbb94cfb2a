"""Each check of a user's data set: on one that has the fault, and on a sound one."""

import io
import sqlite3
import sys
import types
import zipfile

import data_sets
import h5py
import lmdb
import numpy as np
import pytest

from train.doctor import observe as observing
from train.doctor import static_checks
from train.doctor.child import run_in_child
from train.doctor.dynamic_checks import (
    cuda_in_worker,
    heavy_type,
    library_threads,
    same_draws,
    shared_state,
)
from train.doctor.observe import Observed, observe
from train.doctor.static_checks import large_containers, open_handles, pickling

INDICES = (0, 7, 20)


def holding(**attributes):
    return data_sets.Changed(None, **attributes)


# handles


@pytest.fixture
def handles(tmp_path):
    """Open handles of every kind, by name."""
    (tmp_path / "plain").write_bytes(b"1")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("a", "b")
    opened = {
        "file": open(tmp_path / "plain", "rb"),  # noqa: SIM115  it is to be open
        "hdf5": h5py.File(tmp_path / "a.h5", "w"),
        "lmdb": lmdb.open(str(tmp_path / "l")),
        "zip": zipfile.ZipFile(tmp_path / "z.zip"),
        "sqlite": sqlite3.connect(tmp_path / "s.db"),
    }
    yield opened
    for handle in opened.values():
        handle.close()


@pytest.mark.parametrize("kind", ["file", "hdf5", "lmdb", "zip", "sqlite"])
def test_an_open_handle_is_found_wherever_it_is(handles, kind):
    for data, path in (
        (holding(handle=handles[kind]), "dataset.handle"),
        (holding(reader=types.SimpleNamespace(it=handles[kind])), "dataset.reader.it"),
        (holding(files={"a": [handles[kind]]}), "dataset.files['a'][0]"),
    ):
        (finding,) = open_handles(data)
        assert finding.serious
        assert path in finding.evidence


def test_a_data_set_of_an_open_file_is_found(handles):
    inside = handles["hdf5"].create_dataset("x", data=np.zeros(3))
    (finding,) = open_handles(holding(images=inside))
    assert "HDF5 data set" in finding.evidence


@pytest.mark.parametrize("kind", ["file", "hdf5", "zip"])
def test_closed_handles_are_no_finding(handles, kind):
    handles[kind].close()
    assert open_handles(holding(handle=handles[kind])) == []


def test_sound_data_sets_hold_no_handle():
    assert open_handles(data_sets.sound()) == []
    assert open_handles(holding(memory=io.BytesIO(b"1"), name="a", array=np.zeros(4))) == []


def test_files_that_were_left_open_are_told():
    (finding,) = open_handles(data_sets.sound(), ["/data/a.bin"])
    assert "/data/a.bin" in finding.evidence


# pickles


def test_a_lambda_that_does_not_pickle_is_named_with_its_line():
    data = holding(transforms=[abs, lambda image: image])
    (finding,) = pickling(data, "spawn")
    assert finding.serious
    assert "dataset.transforms[1] (lambda" in finding.evidence
    assert "test_data_checks.py:" in finding.evidence
    (finding,) = pickling(data, "fork")
    assert not finding.serious


def test_a_large_pickle_is_told_with_its_size():
    data = data_sets.Sound()
    data.everything = np.zeros(51_000_000, np.uint8)
    (finding,) = pickling(data, "forkserver")
    assert "51 MB" in finding.evidence
    assert finding.serious


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_sound_data_set_pickles(method):
    assert pickling(data_sets.sound(), method) == []
    assert static_checks.pickled_bytes(data_sets.sound()) < 10_000


# many objects


def test_long_lists_are_told():
    (finding,) = large_containers(holding(names=["a"] * 100_000))
    assert "dataset.names (list of 100,000)" in finding.evidence
    assert large_containers(holding(names=np.zeros(10**6), few=list(range(1000)))) == []


# what reading does


def seen_by(dataset, workers=2):
    return [run_in_child(observe, dataset, INDICES, 1 + number) for number in range(workers)]


SOUND = Observed("a", "b", (("c", "c"),), (), 0.0, 0, 1, 0, False, (), "uint8")


def test_a_sound_data_set_has_no_finding(no_child_left):
    one, other = seen_by(data_sets.sound())
    assert one.first != one.second  # it draws
    assert same_draws(one, other) == []
    assert shared_state(one, other) == []
    assert library_threads(one, 4, 2) == []
    assert cuda_in_worker(one) == []
    assert heavy_type(one) == []


@pytest.mark.parametrize("name", ["own_generator", "generator_of_python"])
def test_a_generator_that_each_worker_has_a_copy_of(no_child_left, name):
    one, other = seen_by(getattr(data_sets, name)())
    (finding,) = same_draws(one, other)
    assert "self.generator" in finding.evidence
    assert shared_state(one, other) == []  # said once


def test_a_cache_that_grows(no_child_left):
    one, other = seen_by(data_sets.growing())
    (finding,) = shared_state(one, other)
    assert finding.serious
    assert "self.cache grows by" in finding.evidence


def test_samples_that_depend_on_what_was_read_before(no_child_left):
    one, other = seen_by(data_sets.counting())
    assert same_draws(one, other) == []
    (finding,) = shared_state(one, other)
    assert "reading changes self.calls" in finding.evidence


def test_a_count_that_changes_no_sample_is_a_note():
    counts = SOUND._replace(changed=("count",), first="a", second="a")
    (finding,) = shared_state(counts, counts)
    assert not finding.serious


def test_threads_that_are_switched_on_again(no_child_left):
    one, _ = seen_by(data_sets.threads_of_torch())
    (finding,) = library_threads(one, workers=2, cpus=4)
    assert "PyTorch has 4" in finding.evidence
    assert finding.serious
    assert not library_threads(one, workers=1, cpus=8)[0].serious


def test_threads_of_opencv():
    (finding,) = library_threads(SOUND._replace(cv2_threads=8), 4, 8)
    assert "OpenCV has 8" in finding.evidence


def test_opencv_is_asked_where_it_is_loaded(no_child_left, monkeypatch):
    fake = types.ModuleType("cv2")
    state = [0]
    fake.setNumThreads = lambda count: state.__setitem__(0, count)
    fake.getNumThreads = lambda: state[0]
    monkeypatch.setitem(sys.modules, "cv2", fake)

    def sample(data, index):
        fake.setNumThreads(6)
        return data_sets.image(index), 0

    assert run_in_child(observe, data_sets.Changed(sample), INDICES, 0).cv2_threads == 6


def test_cuda_is_seen_though_there_is_none(no_child_left):
    one, _ = seen_by(data_sets.asks_cuda())
    assert one.asked_cuda
    assert "CUDA" in cuda_in_worker(one)[0].evidence


@pytest.mark.parametrize(("kind", "serious"), [("float64", True), ("float32", False)])
def test_types_that_take_more_than_a_pixel(kind, serious):
    (finding,) = heavy_type(SOUND._replace(image_dtype=kind))
    assert finding.serious is serious


def test_files_that_a_sample_opens_are_recorded(no_child_left, tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"1")

    def sample(data, index):
        with open(path, "rb") as file:
            file.read()
        return data_sets.image(index), 0

    assert str(path) in run_in_child(observe, data_sets.Changed(sample), INDICES, 0).opened


def test_digests_tell_content_apart():
    digest = observing.digest
    array = np.arange(6, dtype=np.uint8)
    assert digest((array, 1)) == digest((array.copy(), 1))
    assert digest(array) != digest(array.reshape(2, 3))
    assert digest(array) != digest(array.astype(np.int8))
    assert digest({"a": 1}) != digest({"a": 2})
