"""What lies at a path: layouts that are found, class names, and what is refused with a reason."""

import json
import os

import container_files as files
import h5py
import numpy as np
import pytest

from train.data.sources import BAD_LABEL, file_of
from train.data.sources.open import open_sets
from train.data.sources.splits import open_splits, split
from train.errors import BadSample, DataError

pytestmark = pytest.mark.usefixtures("deadline")

KINDS = ["tar", "lmdb", "hdf5", "tfrecord"]


def samples(count=6, classes=2, word="k"):
    return [(f"{word}/{n}.jpg", n % classes, b"%d" % n) for n in range(count)]


def put(folder, kind, stem, rows):
    """One container file, or a shard, as `train pack` names them."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "tar":
        files.write_tar(folder / f"{stem}-000000.tar", rows[: len(rows) // 2])
        files.write_tar(folder / f"{stem}-000001.tar", rows[len(rows) // 2 :])
    elif kind == "tfrecord":
        files.write_tfrecord(folder / f"{stem}-00000.tfrecord", rows)
    elif kind == "lmdb":
        files.write_lmdb(folder / f"{stem}.lmdb", rows)
    else:
        files.write_hdf5(folder / f"{stem}.h5", rows)


def keys(source):
    return [source.key(n) for n in range(len(source))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pack_with_both_sets(tmp_path, kind):
    put(tmp_path, kind, "train", samples())
    put(tmp_path, kind, "val", samples(3, word="v"))
    (tmp_path / "classes.json").write_text('["cat", "dog"]')
    (tmp_path / "notes.txt").write_text("hello")
    for _ in range(2):  # with and without indexes beside
        splits = open_splits(str(tmp_path), 0.5, 42)
        assert keys(splits.train) == [key for key, _, _ in samples()]
        assert keys(splits.val) == [key for key, _, _ in samples(3, word="v")]
        assert splits.val[2].data == b"2"
        assert splits.classes == ("cat", "dog")
        assert (splits.notes, splits.skipped, splits.kind) == ([], [], kind)
        assert splits.root == str(tmp_path)
    assert os.path.dirname(file_of(splits.train, 0) or str(tmp_path / "x")).startswith(
        str(tmp_path)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["pack", "other name", "folders", "single"])
def test_where_a_set_may_lie(tmp_path, kind, where):
    path = tmp_path
    if where == "folders":
        put(tmp_path / "train", kind, "some", samples())
        put(tmp_path / "val", kind, "some", samples(2, word="v"))
    else:
        put(tmp_path, kind, "train" if where == "pack" else "some", samples())
    if where == "single":
        (path,) = (p for p in tmp_path.iterdir() if "000001" not in p.name)
    sets = open_sets(str(path))
    count = 3 if (where, kind) == ("single", "tar") else 6
    assert keys(sets.train) == [key for key, _, _ in samples()][:count]
    assert (sets.val is not None) == (where == "folders")
    assert sets.classes == ("0", "1")
    assert sets.kind == kind


def test_shards_by_tensorflows_names(tmp_path):
    for split_name, count in (("train", 4), ("validation", 2)):
        files.write_tfrecord(tmp_path / f"{split_name}-00000-of-00001", samples(count))
    splits = open_splits(str(tmp_path), 0.1, 42)
    assert (len(splits.train), len(splits.val)) == (4, 2)


def test_shards_of_other_names_with_the_word_in_it(tmp_path):
    for name in ("imagenet-train", "imagenet-val", "imagenet-test"):
        put(tmp_path, "tar", name, samples(4))
    splits = open_splits(str(tmp_path), 0.1, 42)
    assert (len(splits.train), len(splits.val)) == (4, 4)
    assert any("not used: 'imagenet-test-000000.tar'" in note for note in splits.notes)


def test_a_file_with_another_name_is_known_by_its_content(tmp_path):
    put(tmp_path, "hdf5", "x", samples())
    put(tmp_path, "tar", "y", samples(8))
    (tmp_path / "x.lmdb").mkdir()
    files.write_lmdb(tmp_path / "z", samples())
    for old, new, kind in (
        ("x.h5", "a.bin", "hdf5"),
        ("y-000000.tar", "b.data", "tar"),
        ("z/data.mdb", "c", "lmdb"),
    ):
        (tmp_path / old).rename(tmp_path / new)
        assert open_sets(str(tmp_path / new)).kind == kind
    (tmp_path / "d").write_bytes(b"what is this")
    with pytest.raises(
        DataError, match=r"unknown kind; expected a folder DIR/<class>/<image>, Web"
    ):
        open_sets(str(tmp_path / "d"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda p: (put(p, "tar", "train", samples()), put(p, "hdf5", "train", samples())),
            r"containers of several kinds: 2 x WebDataset tar.*, 1 x HDF5",
        ),
        (
            lambda p: (put(p, "tar", "a", samples()), put(p, "tar", "b", samples())),
            r"shards of 2 sets: 'a', 'b'; .*name them train-\*, val-\*",
        ),
        (
            lambda p: (put(p, "hdf5", "train", samples()), put(p, "hdf5", "train_b", samples())),
            r"2 x HDF5 \(\.h5\) for train: 'train.h5', 'train_b.h5'; expected one",
        ),
        (
            lambda p: (put(p, "lmdb", "val", samples()),),
            r"1 x LMDB .* for validation, and none for training",
        ),
        (
            lambda p: ((p / "train" / "k").mkdir(parents=True), put(p, "lmdb", "train", samples())),
            r"a folder 'train' and 1 x LMDB .* for training; keep one of the two",
        ),
    ],
    ids=["kinds", "sets", "two files", "val alone", "folder and container"],
)
def test_what_could_be_meant_in_two_ways_is_refused(tmp_path, make, message):
    make(tmp_path)
    with pytest.raises(DataError, match=message):
        open_sets(str(tmp_path))


def test_an_archive_beside_images_is_named_and_not_used(tmp_path):
    (tmp_path / "k").mkdir()
    for name in ("1.jpg", "2.jpg"):
        (tmp_path / "k" / name).write_bytes(b"x")
    put(tmp_path, "tar", "backup", samples())
    splits = open_splits(str(tmp_path), 0.5, 42)
    assert splits.kind == "folder"
    assert any("not used: 'backup-000000.tar', 'backup-000001.tar'" in n for n in splits.notes)


@pytest.mark.parametrize("path", ["s3://b/x.tar", "https://h/x-{0..9}.tar", "pipe:cat x.tar"])
def test_addresses_are_refused_with_what_to_do(path):
    with pytest.raises(DataError, match=r"is an address, expected a folder or file .* copy the sh"):
        open_sets(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"0": "cat"}', r'classes\.json\' must hold a JSON list of names, for example \["cat"'),
        ("[]", "must hold a JSON list"),
        ('["cat", 3]', "must hold a JSON list"),
        ('["cat", "cat"]', "has a name twice"),
        ("[", r"cannot read .*classes\.json.*expected a JSON list"),
        ("[" * 100_000, r"cannot read .*classes\.json.*expected a JSON list"),
    ],
)
def test_class_names_that_make_no_sense(tmp_path, text, message):
    put(tmp_path, "hdf5", "train", samples())
    (tmp_path / "classes.json").write_text(text)
    with pytest.raises(DataError, match=message):
        open_sets(str(tmp_path))


@pytest.mark.parametrize("kind", ["lmdb", "hdf5"])
def test_a_class_number_that_has_no_name_is_a_bad_sample(tmp_path, kind):
    rows = [*samples(), ("k/x.jpg", 99, b"x"), ("k/y.jpg", 3_000_000, b"y")]
    put(tmp_path, kind, "train", rows)
    (tmp_path / "classes.json").write_text('["cat", "dog"]')
    sets = open_sets(str(tmp_path))
    assert sets.train.labels.tolist() == [0, 1, 0, 1, 0, 1, BAD_LABEL, BAD_LABEL]
    with pytest.raises(BadSample, match="its class is 99, expected 0 to 1"):
        sets.train[6]
    assert sets.train[0].data == b"0"
    assert file_of(sets.train, 6).startswith(str(tmp_path))
    train, val = split(sets.train, 0.5, 42)
    assert not set(keys(val)) & {"k/x.jpg", "k/y.jpg"}
    assert len(train) + len(val) == 8
    (tmp_path / "classes.json").unlink()
    with pytest.raises(DataError, match=r"97 of 100 classes .* have 0 images: '2', '3'"):
        open_sets(str(tmp_path))
    assert len(open_sets(str(tmp_path), allow_empty=True).classes) == 100


@pytest.mark.parametrize("kind", KINDS)
def test_validation_is_held_against_the_classes_of_training(tmp_path, kind):
    put(tmp_path, kind, "train", samples(6, 2))
    put(tmp_path, kind, "val", samples(6, 3))
    with pytest.raises(DataError, match=r"1 class\(es\) that train has not: '2'"):
        open_sets(str(tmp_path))
    (tmp_path / "classes.json").write_text(json.dumps(["a", "b", "c"]))
    with pytest.raises(DataError, match=r"1 of 3 classes .* have 0 images: 'c'"):
        open_sets(str(tmp_path))
    sets = open_sets(str(tmp_path), allow_empty=True)
    assert sets.val.labels.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_folder_takes_the_order_of_a_packs_classes(tmp_path):
    for name in ("ant", "bee"):
        (tmp_path / "train" / name).mkdir(parents=True)
        (tmp_path / "train" / name / "1.jpg").write_bytes(b"x")
    (tmp_path / "classes.json").write_text('["bee", "ant"]')
    sets = open_sets(str(tmp_path))
    assert sets.classes == ("bee", "ant")
    assert dict(zip(keys(sets.train), sets.train.labels.tolist())) == {
        "ant/1.jpg": 1,
        "bee/1.jpg": 0,
    }
    for text, message in (('["Biene", "Ameise"]', "lacks 'ant'"), ('{"ant": 0}', "JSON list")):
        (tmp_path / "classes.json").write_text(text)
        sets = open_sets(str(tmp_path))
        assert sets.classes == ("ant", "bee")
        assert any("not used" in note and message in note for note in sets.notes)


def test_the_same_keys_are_set_aside_in_every_container(tmp_path):
    rows = samples(40, 2)
    chosen = []
    for kind in KINDS:
        put(tmp_path / kind, kind, "some", rows)
        chosen.append(keys(open_splits(str(tmp_path / kind), 0.25, 42).val))
    for key, label, data in rows:
        path = tmp_path / "folder" / "ab"[label] / os.path.basename(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert chosen == [chosen[0]] * 4
    assert len(chosen[0]) == 10


def test_an_empty_set_is_an_error_and_a_container_alone_is_not_read(tmp_path):
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["images"] = np.zeros((0, 8, 8, 3), np.uint8)
        file["labels"] = np.zeros(0, np.int64)
    with pytest.raises(DataError, match=f"{tmp_path}' has no images"):
        open_splits(str(tmp_path), 0.1, 42)
    put(tmp_path, "hdf5", "train", samples())
    files.write_hdf5(tmp_path / "val.h5", [])
    with pytest.raises(DataError, match=r"the validation set of .* has no images; pack it again"):
        open_splits(str(tmp_path), 0.1, 42)


@pytest.mark.parametrize("name", ["classes.json", "train-000000.tar.index", "val-000000.tar"])
def test_a_pipe_under_the_name_of_a_file_blocks_nobody(tmp_path, name):
    put(tmp_path, "tar", "train", samples())
    os.mkfifo(tmp_path / name)
    if name.endswith(".index"):
        assert len(open_sets(str(tmp_path)).train) == 6
        return
    with pytest.raises(DataError, match=r"classes\.json.*JSON|is no file, but a pipe"):
        open_sets(str(tmp_path))


def test_a_shard_that_is_a_link_to_nowhere_is_told(tmp_path):
    put(tmp_path, "tar", "train", samples())
    (tmp_path / "train-000002.tar").symlink_to(tmp_path / "gone.tar")
    with pytest.raises(DataError, match=r"train-000002\.tar' is no file.*leads nowhere"):
        open_sets(str(tmp_path))
