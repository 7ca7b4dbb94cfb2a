"""HDF5: every way of storing gives the same records; odd layouts and damage are told by name."""

import pickle
import re
import threading

import container_files as files
import h5py
import numpy as np
import pytest

from train.data.sources.handles import close_all, count_open
from train.data.sources.hdf5_source import open_hdf5
from train.errors import BadSample, DataError

pytestmark = pytest.mark.usefixtures("deadline")

RNG = np.random.default_rng(5)
PIXELS = RNG.integers(0, 256, (20, 12, 16, 3), dtype=np.uint8)
LABELS = np.arange(20) % 3
LENGTHS = [0, 1, 5, 50, 3000, 4080, 5000, 70000]

PIXEL_STORES = {
    "contiguous": {},
    "a chunk an image": {"chunks": (1, 12, 16, 3)},
    "a chunk of seven": {"chunks": (7, 12, 16, 3)},
    "growing": {"chunks": (7, 12, 16, 3), "maxshape": (None, 12, 16, 3)},
    "in pieces": {"chunks": (7, 6, 16, 3)},
    "gzip": {"chunks": (1, 12, 16, 3), "compression": "gzip"},
    "gzip of seven": {"chunks": (7, 12, 16, 3), "compression": "gzip", "shuffle": True},
    "lzf": {"compression": "lzf"},
    "checksums": {"chunks": (1, 12, 16, 3), "fletcher32": True},
}
ENCODED_STORES = {
    "contiguous": {},
    "chunks": {"chunks": (16,)},
    "growing": {"maxshape": (None,)},
    "gzip": {"chunks": (16,), "compression": "gzip"},
}
BY_POSITION = {"contiguous", "a chunk an image", "a chunk of seven", "growing", "chunks"}


@pytest.fixture(autouse=True)
def nothing_open():
    close_all()
    yield
    close_all()


def pixels_of(source):
    return np.stack([source[n].data for n in range(len(source))])


@pytest.mark.parametrize("store", list(PIXEL_STORES))
def test_pixels_are_the_same_however_they_are_stored(tmp_path, store):
    path = tmp_path / "x.h5"
    files.write_pixels(path, PIXELS, LABELS, **PIXEL_STORES[store])
    source = open_hdf5(str(path)).source
    assert ("offsets" in source.index) == (store in BY_POSITION)
    for again in (source, pickle.loads(pickle.dumps(source))):
        assert np.array_equal(pixels_of(again), PIXELS)
    assert source.labels.tolist() == LABELS.tolist()
    assert [source.key(n) for n in (0, 19)] == ["00000000", "00000019"]
    for index in (-1, 20):
        with pytest.raises(IndexError):
            source[index]


@pytest.mark.parametrize("store", list(ENCODED_STORES))
def test_encoded_records_are_the_same_however_they_are_stored(tmp_path, store):
    path = tmp_path / "x.h5"
    samples = [(f"k/{n} ü.jpg", n % 5, RNG.bytes(LENGTHS[n % 8])) for n in range(100)]
    files.write_hdf5(path, samples, **ENCODED_STORES[store])
    told = []
    source = open_hdf5(str(path), told.append).source
    assert ("offsets" in source.index) == (store in BY_POSITION)
    assert [tuple(source[n]) for n in range(100)] == [(d, c, k) for k, c, d in samples]
    assert all(isinstance(source[n].data, bytes) for n in range(3))


def test_channels_first_is_turned(tmp_path):
    path = tmp_path / "x.h5"
    files.write_pixels(path, np.ascontiguousarray(PIXELS.transpose(0, 3, 1, 2)), LABELS)
    source = open_hdf5(str(path)).source
    assert source[0].data.shape == (12, 16, 3)
    assert np.array_equal(pixels_of(source), PIXELS)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (PIXELS[..., 0], r"'images' is uint8 \(20, 12, 16\); expected 'images' as encoded files"),
        (PIXELS.reshape(20, -1), r"'images' is uint8 \(20, 576\)"),
        (PIXELS.astype(np.float32), r"'images' is float32 \(20, 12, 16, 3\)"),
        (np.zeros((20, 12, 16, 4), np.uint8), r"'images' is uint8 \(20, 12, 16, 4\)"),
        (PIXELS[:19], "19 images and 20 labels"),
    ],
    ids=["grey", "flat", "float", "four channels", "one less"],
)
def test_other_layouts_are_refused_with_what_was_expected(tmp_path, images, message):
    files.write_pixels(tmp_path / "x.h5", images, LABELS)
    with pytest.raises(DataError, match=r"x\.h5' can't be used: .*" + message):
        open_hdf5(str(tmp_path / "x.h5"))


def test_missing_and_odd_data_sets_are_named(tmp_path):
    path = tmp_path / "x.h5"
    for change, message in (
        (lambda file: file.move("images", "x"), "no data set 'images'.*found 'labels', 'x'"),
        (lambda file: file.move("labels", "y"), "no data set 'labels'"),
        (lambda file: file.__setitem__("keys", np.arange(20)), r"'keys' is int64 .*20 strings"),
        (lambda file: file.__setitem__("keys", ["a"] * 3), r"'keys' is object \(3,\)"),
    ):
        files.write_pixels(path, PIXELS, LABELS)
        with h5py.File(path, "r+") as file:
            change(file)
        with pytest.raises(DataError, match=message):
            open_hdf5(str(path))
    files.write_pixels(path, PIXELS, LABELS)
    with h5py.File(path, "r+") as file:
        del file["labels"]
        file["labels"] = LABELS / 2
    with pytest.raises(DataError, match=r"'labels' is float64 .* expected N whole numbers"):
        open_hdf5(str(path))


def test_damage_is_told_by_name(tmp_path):
    path = tmp_path / "x.h5"
    files.write_hdf5(path, [(str(n), 0, RNG.bytes(5000)) for n in range(50)])
    whole = path.read_bytes()
    for data, message in (
        (whole[: len(whole) // 2], "truncated file"),
        (b"", "file signature not found"),
        (b"text " * 1000, "file signature not found"),
        (whole.replace(b"GCOL", b"GCOX"), "x.h5"),
    ):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"x\.h5' can't be (used|read)") as caught:
            open_hdf5(str(path))
        assert message in str(caught.value)


def test_a_damaged_compressed_image_is_a_bad_sample(tmp_path):
    path = tmp_path / "x.h5"
    pixels = RNG.integers(0, 4, PIXELS.shape, dtype=np.uint8)
    options = {"chunks": (1, 12, 16, 3), "compression": "gzip"}
    files.write_pixels(path, pixels, LABELS, **options)
    with h5py.File(path, "r") as file:
        place = file["images"].id.get_chunk_info(4)
    with open(path, "r+b") as file:
        file.seek(place.byte_offset)
        file.write(b"\xff" * place.size)
    source = open_hdf5(str(path)).source
    with pytest.raises(BadSample, match="HDF5 can't read it"):
        source[4]
    for index in (0, 3, 5, 19):
        assert np.array_equal(source[index].data, pixels[index])


def test_slow_ways_of_storing_are_warned_of(tmp_path):
    for store, message in (
        ("gzip of seven", r"warning: .* chunks of 7 images: to read one, all of them"),
        ("in pieces", r"warning: .* in pieces, which is slow"),
        ("gzip", r"note: .* \(gzip\), and HDF5 decompresses for one thread at a time"),
    ):
        files.write_pixels(tmp_path / "x.h5", PIXELS, LABELS, **PIXEL_STORES[store])
        for _ in range(2):  # the second time from the index
            (note,) = open_hdf5(str(tmp_path / "x.h5")).notes[-1:]
            assert re.search(message, note)
    files.write_pixels(tmp_path / "x.h5", PIXELS, LABELS)
    notes = open_hdf5(str(tmp_path / "x.h5")).notes
    assert [note for note in notes if "changed since" not in note] == []


def test_threads_share_the_library(tmp_path):
    path = tmp_path / "x.h5"
    files.write_pixels(path, PIXELS, LABELS, **PIXEL_STORES["gzip of seven"])
    source, wrong = open_hdf5(str(path)).source, []

    def read(start):
        for n in range(200):
            index = (start + n * 7) % 20
            if not np.array_equal(source[index].data, PIXELS[index]):
                wrong.append(index)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert count_open() == 2


def test_a_program_that_has_the_file_open_itself_is_not_in_the_way(tmp_path):
    path = tmp_path / "x.h5"
    files.write_pixels(path, PIXELS, LABELS, **PIXEL_STORES["gzip"])
    with h5py.File(path, "r"):
        source = open_hdf5(str(path)).source
        assert np.array_equal(pixels_of(source), PIXELS)


def test_an_empty_file_has_no_records(tmp_path):
    files.write_pixels(tmp_path / "x.h5", PIXELS[:0], LABELS[:0])
    assert len(open_hdf5(str(tmp_path / "x.h5")).source) == 0
    files.write_hdf5(tmp_path / "y.h5", [])
    assert len(open_hdf5(str(tmp_path / "y.h5")).source) == 0
