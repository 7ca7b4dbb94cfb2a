"""Every container of the bad-data set through the loader that `train fit` uses."""

import faulthandler
import json
import os
import re
import shutil
import signal

import container_files
import numpy as np
import pytest
from loading import make

from train.data.sources import hdf5_source
from train.data.sources.splits import open_splits
from train.errors import DataError

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")

TOLD = {
    "tar/missing_image.tar": "000003.*no_image",
    "tar/no_end_blocks.tar": "no end-of-archive mark",
    "tar/zero_byte.tar": r"zero_byte\.tar' has no images; .*0 bytes",
    "tar/empty_archive.tar": r"empty_archive\.tar' has no images",
    "tar/bad_label.tar": "abc.*99",
    "tar/unsafe_names.tar": "evil.jpg.*unsafe_name",
    "tar/gzip_named.tar": "gzip",
    "tar/macos_dots.tar": "hidden_file",
    "tfrecord/bad_length_crc.tfrecord": r"bad_length_crc\.tfrecord.* at byte [\d,]+",
    "tfrecord/truncated.tfrecord": "cut off",
    "tfrecord/huge_length.tfrecord": "1,099,511,627,776 bytes",
    "tfrecord/zero_byte.tfrecord": r"zero_byte\.tfrecord' has no images",
    "tfrecord/no_label.tfrecord": "record 1",
    "hdf5/zero_byte.h5": r"zero_byte\.h5' can't be used",
    "lmdb/len_too_big": "10 records.*00000008.*00000009",
    "lmdb/empty_value": "00000003.*0 bytes",
    "lmdb/corrupt_image": "00000003",
    "lmdb/truncated_mdb": r"truncated_mdb.*lies beyond its end; the file has",
}
"""What a person must be told of each container that is not sound."""


def alone(bad_data, entry, folder):
    """A copy of a container, with the names of the classes beside it."""
    source = bad_data / entry["path"]
    folder.mkdir(parents=True)
    (folder / "classes.json").write_text('["bird", "cat", "dog"]')
    copy = shutil.copytree if source.is_dir() else shutil.copy
    return copy(source, folder / source.name)


def count_usable(splits, workers, told):
    """Records that a loader makes pictures of; what is bad goes to `told`."""
    sources = {id(source): source for source in (splits.train, splits.val)}
    usable = 0
    for source in sources.values():
        loader = make(source, workers, train=False, epochs=1)
        for batch in loader:
            usable += int((batch.labels >= 0).sum())
            told += [f"{bad.key}: {bad.reason}" for bad in batch.bad]
        loader.close()
    return usable


@pytest.mark.parametrize("workers", [0, 2])
def test_each_container_behaves_as_the_manifest_says(bad_data, tmp_path, workers):
    entries = json.loads((bad_data / "manifest.json").read_text("utf-8"))["containers"]
    wrong = []
    for number, entry in enumerate(entries):
        path, told = alone(bad_data, entry, tmp_path / str(number)), []
        try:
            splits = open_splits(str(path), 0.1, 42, allow_empty=True)
            told += splits.notes + [" ".join(item) for item in splits.skipped]
            usable = count_usable(splits, workers, told)
        except DataError as error:
            told.append(str(error))
            usable = 0
            if entry.get("also_ok") == "clear error":
                continue
        text = " ".join(told)
        if usable != entry["samples"] or not re.search(TOLD.get(entry["path"], ""), text):
            wrong.append((entry["path"], usable, entry["samples"], text))
        assert not re.search(r"Traceback|\bNone\b", text)
    assert wrong == []
    assert set(TOLD) <= {entry["path"] for entry in entries}


def test_a_container_whose_records_are_all_bad_ends_with_a_message(tmp_path):
    samples = [(f"{n}", n % 2, b"no picture") for n in range(40)]
    container_files.write_lmdb(tmp_path / "x.lmdb", samples)
    loader = make(open_splits(str(tmp_path / "x.lmdb"), 0.1, 42).train, 0)
    with pytest.raises(DataError, match="substitutes in a row were bad too"):
        list(loader)


class Crashing:
    """Stands for HDF5's library over a damaged file: one of its records kills the process."""

    def __getitem__(self, name):
        if name == 5:
            faulthandler.disable()  # pytest's, which would print a page
            os.kill(os.getpid(), signal.SIGSEGV)
        return self if name == "images" else np.zeros((8, 8, 3), np.uint8)

    def close(self):
        pass


def test_a_worker_that_a_library_kills_is_named_and_the_run_ends(tmp_path, monkeypatch):
    """What the first reading could not find: it breaks later, in a worker."""
    pixels = np.zeros((12, 8, 8, 3), np.uint8)
    container_files.write_pixels(tmp_path / "x.h5", pixels, np.arange(12) % 2, compression="gzip")
    source = open_splits(str(tmp_path / "x.h5"), 0.1, 42).train
    monkeypatch.setattr(hdf5_source, "_open", lambda path: Crashing())
    loader = make(source, 2)
    with pytest.raises(DataError, match=r"Segmentation fault at sample '00000005' of '.*\.h5'"):
        list(loader)
    loader.close()
