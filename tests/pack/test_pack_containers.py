"""Any container into any other: the same bytes, labels, keys and order, for us and for others."""

import io
import json
import struct

import h5py
import lmdb
import numpy as np
import pytest
from packing import CONTAINERS, classes, files, pack, records, write_source
from PIL import Image

from train.data.sources.splits import open_splits
from train.errors import DataError


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("pack") / "source")


@pytest.fixture(scope="module")
def packs(source, tmp_path_factory):
    """The source in each container, byte for byte."""
    root = tmp_path_factory.mktemp("packs")
    for container in CONTAINERS:
        pack(source, root / container, container=container, content="original")
    return root


@pytest.mark.parametrize("container", CONTAINERS)
def test_keeps_bytes_labels_keys_and_order(source, packs, container):
    assert records(packs / container) == records(source)
    assert classes(packs / container) == ("bird", "cat", "dog")


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("before", ["tar", "lmdb", "hdf5", "tfrecord"])
def test_container_to_container(source, packs, tmp_path, before, container):
    pack(packs / before, tmp_path / "out", container=container, content="original")
    assert records(tmp_path / "out") == records(source)
    again, once = files(tmp_path / "out"), files(packs / container)
    assert again == once


def test_the_bytes_depend_on_nothing_but_the_source(source, packs, tmp_path):
    for container in CONTAINERS:
        out = tmp_path / container
        pack(source, out, container=container, content="original", workers=5)
        assert files(out) == files(packs / container)


def test_small_shards(source, tmp_path, monkeypatch):
    monkeypatch.setattr("train.pack.run.MB", 20_000)
    for container, pattern in (("tar", "train-%06d.tar"), ("tfrecord", "train-%05d.tfrecord")):
        out = tmp_path / container
        pack(source, out, container=container, content="original", shard_size=1)
        shards = sorted(path.name for path in out.glob(f"train-*.{container}"))
        assert shards == [pattern % number for number in range(len(shards))]
        assert len(shards) > 2
        assert all((out / name).stat().st_size <= 30_720 for name in shards)
        assert records(out) == records(source)


def test_the_same_images_are_set_aside_for_validation(tmp_path):
    source = write_source(tmp_path / "source", val=0)
    wanted = open_splits(str(source), 0.2, 7)
    for container in CONTAINERS:
        out = tmp_path / container
        pack(source, out, container=container)
        found = open_splits(str(out), 0.2, 7)
        for one, other in ((wanted.train, found.train), (wanted.val, found.val)):
            assert [one.key(n) for n in range(len(one))] == [
                other.key(n) for n in range(len(other))
            ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it closes no file
def test_webdataset_reads_the_tar(source, packs):
    webdataset = pytest.importorskip("webdataset")
    found = [
        (sample["__key__"], int(sample["cls"]), sample.get("jpg") or sample["png"])
        for sample in webdataset.WebDataset(str(packs / "tar/train-000000.tar"), shardshuffle=False)
    ]
    wanted = records(source)["train"]
    assert [(label, data) for _, label, data in found] == [row[1:] for row in wanted]
    assert all("." not in key for key, _, _ in found)


def test_lmdb_and_struct_read_the_lmdb(source, packs):
    wanted = records(source)["train"]
    path = str(packs / "lmdb/train.lmdb")
    with lmdb.open(path, readonly=True, lock=False) as file, file.begin() as transaction:
        assert int(transaction.get(b"__len__")) == len(wanted)
        for number, (_, label, data) in enumerate(wanted):
            value = transaction.get(b"%08d" % number)
            assert struct.unpack("<I", value[:4]) == (label,)
            assert value[4:] == data


def test_h5py_reads_the_hdf5(source, packs):
    wanted = records(source)["train"]
    with h5py.File(packs / "hdf5/train.h5", "r") as file:
        assert file["labels"][:].tolist() == [label for _, label, _ in wanted]
        assert [image.tobytes() for image in file["images"][:]] == [data for _, _, data in wanted]
        keys = [key.decode("utf-8", "surrogateescape") for key in file["keys"][:]]
        assert keys == [key for key, _, _ in wanted]


def test_the_tfrecord_package_reads_the_tfrecord(source, packs):
    tfrecord = pytest.importorskip("tfrecord")
    loader = tfrecord.tfrecord_loader(str(packs / "tfrecord/train-00000.tfrecord"), None)
    found = [
        (
            bytes(row["image/filename"]).decode("utf-8", "surrogateescape"),
            int(row["image/class/label"][0]),
            bytes(row["image/encoded"]),
        )
        for row in loader
    ]
    assert found == records(source)["train"]


def test_raw_pixels_of_an_hdf5_become_ppm(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 20, 30, 3), dtype=np.uint8)
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["images"], file["labels"] = pixels, np.array([0, 1, 1, 0])
    for container in CONTAINERS:
        out = tmp_path / container
        pack(tmp_path / "train.h5", out, container=container, content="original")
        found = sorted(records(out)["train"], key=lambda row: row[0].rsplit("/", 1)[-1])
        assert [row[1] for row in found] == [0, 1, 1, 0]
        for row, expected in zip(found, pixels):
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(row[2]))), expected)


def test_an_empty_class_keeps_its_number(tmp_path):
    source = write_source(tmp_path / "source")
    (source / "train/ant").mkdir()
    for container in CONTAINERS:
        pack(source, tmp_path / container, container=container)
        assert classes(tmp_path / container) == ("ant", "bird", "cat", "dog")
        assert min(row[1] for row in records(tmp_path / container)["train"]) == 1


def test_classes_that_are_not_in_the_order_of_their_names(source, packs, tmp_path):
    for path in packs.glob("tar/*"):
        if path.suffix in (".tar", ".json"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "classes.json").write_text(json.dumps(["zebra", "10", "2"]))
    pack(tmp_path, tmp_path.parent / "out", container="folder", content="original")
    assert classes(tmp_path.parent / "out") == ("zebra", "10", "2")
    wanted = {(row[1], row[2]) for row in records(source)["train"]}
    assert {(row[1], row[2]) for row in records(tmp_path.parent / "out")["train"]} == wanted


def test_keys_that_no_file_may_have(tmp_path):
    keys = ["/etc/passwd", "../../up.jpg", ".hidden.jpg", "plain", "a//b.jpg"]
    write_lmdb(tmp_path / "train.lmdb", keys)
    out = tmp_path / "out"
    pack(tmp_path / "train.lmdb", out, container="folder", content="original")
    found = {str(path.relative_to(out / "train")) for path in out.rglob("*.jp*g")}
    assert found == {
        "0/etc/passwd.jpg",
        "1/%2E%2E/%2E%2E/up.jpg".replace("%2E%2E", "%2E."),
        "0/%2Ehidden.jpg",
        "1/plain.jpg",
        "0/a/b.jpg",
    }
    assert not (tmp_path / "up.jpg").exists()
    pack(tmp_path / "train.lmdb", tmp_path / "tar", container="tar", content="original")
    assert [row[0] for row in records(tmp_path / "tar")["train"]] == keys


def test_a_key_that_comes_twice(tmp_path):
    write_lmdb(tmp_path / "train.lmdb", ["same.jpg", "other.jpg", "same.jpg"])
    with pytest.raises(DataError, match=r"have the key 'same.jpg'"):
        pack(tmp_path / "train.lmdb", tmp_path / "tar", container="tar", content="original")
    pack(tmp_path / "train.lmdb", tmp_path / "hdf5", container="hdf5", content="original")
    assert len(records(tmp_path / "hdf5")["train"]) == 3


def write_lmdb(path, keys):
    """A database by hand, with two classes and what is no image."""
    options = {"map_size": 1 << 20, "lock": False}
    with lmdb.open(str(path), **options) as file, file.begin(write=True) as transaction:
        for number in range(len(keys)):
            value = struct.pack("<I", number % 2) + b"\xff\xd8\xffnothing"
            transaction.put(b"%08d" % number, value)
        transaction.put(b"__len__", b"%d" % len(keys))
        transaction.put(b"__keys__", "\n".join(keys).encode())
