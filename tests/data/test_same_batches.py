"""The same records give the same batches, whatever container they lie in and whoever reads them."""

import dataclasses
import os
import pickle

import container_files as files
import numpy as np
import pictures
import pytest
from loading import CONFIG, make, passes, settings

from train.data import build_loader
from train.data.sources.splits import open_splits
from train.pack.writers import Sample, Target, writer_class

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")

NAMES = [
    "a b.jpg",
    "dots.in.v1.0.jpg",
    "100%25.jpg",
    "new\nline.jpg",
    "caf\udce9.jpg",
    "\u65e5.jpg",
]
CONTAINERS = ["folder", "tar", "lmdb", "hdf5", "tfrecord"]


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A folder of images in three classes, one file damaged, some with awkward names."""
    root = pictures.write_tree(tmp_path_factory.mktemp("same") / "folder" / "train", count=6)
    for number, name in enumerate(NAMES):
        data = pictures.encode(pictures.scene(40, 30, number))
        with open(os.fsencode(str(root / "cat" / name)), "wb") as file:
            file.write(data)
    (root / "dog" / "broken.jpg").write_bytes(b"\xff\xd8\xff nothing")
    return root.parent


def keys(source):
    return [source.key(index) for index in range(len(source))]


def records(path):
    """What a folder holds: (key, label, bytes), and the classes."""
    splits = open_splits(str(path), 0.25, 42)
    whole = splits.train.source
    return [(r.key, r.label, r.data) for r in (whole[i] for i in range(len(whole)))], splits.classes


def by_hand(root, samples, classes):
    """All containers, by their communities' own libraries."""
    root.mkdir()
    (root / "classes.json").write_text('["bird", "cat", "dog"]')
    assert classes == ("bird", "cat", "dog")
    files.write_tar(root / "whole.tar", samples)
    files.write_lmdb(root / "whole.lmdb", samples)
    files.write_hdf5(root / "whole.h5", samples)
    files.write_hdf5(root / "gzip.h5", samples, chunks=(8,), compression="gzip")
    files.write_tfrecord(root / "whole.tfrecord", samples)
    return sorted(path for path in root.iterdir() if path.suffix != ".json")


def test_all_containers_give_the_same_batches(originals, tmp_path):
    samples, classes = records(originals)
    for train in (True, False):
        source = open_splits(str(originals), 0.25, 42)
        expected = passes(make(source.train if train else source.val, train=train))
        for path in by_hand(tmp_path / str(train), samples, classes):
            splits = open_splits(str(path), 0.25, 42)
            assert splits.classes == classes
            found = passes(make(splits.train if train else splits.val, train=train))
            assert found == expected, path.name


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_all_containers_give_the_same_batches_to_any_workers(originals, tmp_path, kind):
    samples, classes = records(originals)
    expected = passes(make(open_splits(str(originals), 0.25, 42).train))
    chosen = dataclasses.replace(settings(3), workers_kind=kind)
    for path in by_hand(tmp_path / "hand", samples, classes):
        source = open_splits(str(path), 0.25, 42).train
        loader = build_loader(source, CONFIG, chosen, train=True, seed=42)
        assert passes(loader) == expected, path.name


@pytest.mark.slow
def test_a_worker_that_inherits_nothing_reads_the_same(originals, tmp_path):
    """The one that is most likely to go wrong: read by HDF5's own library."""
    samples, classes = records(originals)
    expected = passes(make(open_splits(str(originals), 0.25, 42).train), 1)
    by_hand(tmp_path / "hand", samples, classes)
    source = open_splits(str(tmp_path / "hand" / "gzip.h5"), 0.25, 42).train
    assert source[0].data  # the parent has the file open as well
    assert passes(make(source, 1, "spawn"), 1) == expected


def test_sources_pickle_small_and_read_the_same(originals, tmp_path):
    samples, classes = records(originals)
    for path in by_hand(tmp_path / "hand", samples, classes):
        source = open_splits(str(path), 0.25, 42).train.source
        packed = pickle.dumps(source)
        assert len(packed) < 1500
        again = pickle.loads(packed)
        assert [again[n] for n in range(len(again))] == [source[n] for n in range(len(source))]


@pytest.mark.parametrize("container", CONTAINERS)
def test_what_pack_writes_gives_the_same_batches(originals, tmp_path, container):
    samples, classes = records(originals)
    target = Target(tmp_path, "train", classes, 1 << 14)
    writer = writer_class(container)(target, None)
    for key, label, data in samples:
        writer.add(Sample(key, label, data, None))
        writer.flush()
        writer.commit()
    writer.finish()
    writer.close()
    (tmp_path / "classes.json").write_text('["bird", "cat", "dog"]')
    splits = open_splits(str(tmp_path), 0.25, 42)
    assert splits.kind == container
    original = open_splits(str(originals), 0.25, 42)
    assert passes(make(splits.train)) == passes(make(original.train))
    for ours, other in ((splits.train, original.train), (splits.val, original.val)):
        assert np.array_equal(ours.labels, other.labels)
        assert keys(ours) == keys(other)
