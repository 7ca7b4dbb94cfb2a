"""Names that a folder of images can't carry are told before anything is written."""

import json
import os

import pytest
from packing import pack, records
from test_pack_containers import write_lmdb

from train.errors import DataError


def written(tmp_path, keys):
    """A database and its classes; key 0 is of class 'a', 1 of 'b', 2 of 'a' ..."""
    write_lmdb(tmp_path / "train.lmdb", keys)
    (tmp_path / "classes.json").write_text('["a", "b"]')
    return tmp_path / "train.lmdb"


@pytest.mark.parametrize(
    "keys",
    [
        ["x.jpg", "-", "a/x.jpg"],
        [".x.jpg", "-", "%2Ex.jpg"],
        ["d//x.jpg", "-", "d/x.jpg"],
        ["x", "-", "x.jpg"],
        ["x.png", "-", "a/x"],
    ],
)
def test_two_images_never_become_one_file(tmp_path, keys):
    source = written(tmp_path, keys)
    with pytest.raises(DataError, match=r"would become one file .* pack into another container"):
        pack(source, tmp_path / "out", container="folder", content="original")
    assert not list(tmp_path.glob("out*"))
    pack(source, tmp_path / "out", container="tar", content="original")
    assert [row[0] for row in records(tmp_path / "out")["train"]] == keys


@pytest.mark.parametrize("keys", [["x.jpg/y.jpg", "-", "x.jpg"], ["x.jpg", "-", "a/x.jpg/y/z.jpg"]])
def test_a_file_is_never_a_folder_too(tmp_path, keys):
    source = written(tmp_path, keys)
    with pytest.raises(DataError, match=r"'x\.jpg' of train would have to be a file and a folder"):
        pack(source, tmp_path / "out", container="folder", content="original")
    assert not list(tmp_path.glob("out*"))


def test_the_same_name_in_two_classes_is_no_clash(tmp_path):
    pack(written(tmp_path, ["x", "x.jpg", "y/x.jpg"]), tmp_path / "out", container="folder")
    found = {str(path.relative_to(tmp_path / "out/train")) for path in tmp_path.rglob("*.jpg")}
    assert found == {"a/x.jpg", "b/x.jpg", "a/y/x.jpg"}


@pytest.mark.parametrize("key", ["w" * 300 + ".jpg", "d/" * 1500 + "x.jpg", "w" * 252])
def test_a_name_that_is_too_long_is_told_first(tmp_path, key):
    with pytest.raises(DataError, match="too long for a file's name"):
        pack(written(tmp_path, [key]), tmp_path / "out", container="folder", content="original")
    assert not list(tmp_path.glob("out*"))


def test_a_name_with_a_nul(tmp_path):
    pack(written(tmp_path, ["x\0y.jpg"]), tmp_path / "out", container="folder", content="original")
    assert os.listdir(tmp_path / "out/train/a") == ["x%00y.jpg"]


def test_half_a_character_is_no_class_folder(tmp_path):
    source = written(tmp_path, ["x.jpg"])
    (tmp_path / "classes.json").write_text(json.dumps(["\ud800", "b"]))
    with pytest.raises(DataError, match=r"'\\ud800' can't be that of a class folder"):
        pack(source, tmp_path / "out", container="folder", content="original")
    assert not list(tmp_path.glob("out*"))


def test_a_key_that_no_tfrecord_reader_takes(tmp_path):
    source = written(tmp_path, ["w" * 5000])
    with pytest.raises(DataError, match="5000 bytes, and a TFRecord's may have 4096"):
        pack(source, tmp_path / "out", container="tfrecord", content="original")
