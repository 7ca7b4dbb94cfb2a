"""Which folder is which, which class has which number, and what is set aside for validation."""

import os

import numpy as np
import pytest

from train.data.sources.splits import open_splits, split
from train.errors import DataError


def fill(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return str(root)


def keys(source):
    return [source.key(i) for i in range(len(source))]


@pytest.mark.parametrize("val", ["val", "valid", "validation"])
def test_train_and_val_folders_are_taken_as_they_are(tmp_path, val):
    path = fill(tmp_path, "train/a/1.jpg", "train/b/2.jpg", f"{val}/a/3.jpg", f"{val}/b/4.jpg")
    splits = open_splits(path, 0.5, 42)
    assert keys(splits.train) == ["a/1.jpg", "b/2.jpg"]
    assert keys(splits.val) == ["a/3.jpg", "b/4.jpg"]
    assert splits.classes == ("a", "b")
    assert splits.root == path
    assert splits.notes == []


@pytest.mark.parametrize("below", ["", "train/"])
def test_without_val_a_share_of_each_class_is_set_aside(tmp_path, below):
    names = [f"{below}{name}/{number}.jpg" for name in ("a", "b") for number in range(20)]
    splits = open_splits(fill(tmp_path, *names), 0.25, 42)
    assert np.bincount(splits.val.labels).tolist() == [5, 5]
    assert sorted(keys(splits.train) + keys(splits.val)) == sorted(n[len(below) :] for n in names)
    assert any("10 of 40 images set aside" in note for note in splits.notes)
    assert np.array_equal(splits.val.labels, [splits.val[i].label for i in range(10)])


def test_what_is_set_aside_depends_on_names_and_seed_alone(tmp_path):
    names = [f"a/{number}.jpg" for number in range(40)]
    path = fill(tmp_path, *names)
    first = set(keys(open_splits(path, 0.2, 42).val))
    assert first == set(keys(open_splits(path, 0.2, 42).val))
    assert first != set(keys(open_splits(path, 0.2, 43).val))
    assert first < set(keys(open_splits(path, 0.4, 42).val))  # a larger share only adds
    fill(tmp_path, *[f"a/new{number}.jpg" for number in range(5)])
    more = set(keys(open_splits(path, 0.2, 42).val))
    old = {key for key in more if "new" not in key}
    assert len(old - first) <= 1  # 8 become 9; files that were there keep their order


def test_a_class_of_two_gives_one_and_a_class_of_one_gives_none(tmp_path):
    splits = open_splits(fill(tmp_path, "a/1.jpg", "a/2.jpg", "b/1.jpg"), 0.001, 42)
    assert np.bincount(splits.val.labels, minlength=2).tolist() == [1, 0]
    train, val = split(splits.train, 0.999, 1)
    assert len(train) > 0
    assert len(val) == 0


def test_names_that_are_not_utf8_can_be_split(tmp_path):
    fill(tmp_path, "a/1.jpg")
    for byte in (b"\xe9", b"\xff", b"\xfe"):
        with open(os.path.join(os.fsencode(tmp_path), b"a", byte + b".jpg"), "wb"):
            pass
    splits = open_splits(str(tmp_path), 0.5, 42)
    assert len(splits.train) + len(splits.val) == 4


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match=r"data\.path: no such folder: '.*gone'$"):
        open_splits(str(tmp_path / "gone"), 0.1, 42)


def test_the_missing_sample_comes_with_its_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"make it with: python scripts/sample_data\.py"):
        open_splits("data/sample", 0.1, 42)


def test_a_folder_of_pictures_without_classes_is_explained(tmp_path):
    with pytest.raises(DataError, match=r"has no class folders: expected .*/<class>/<image>.jpg"):
        open_splits(fill(tmp_path, "1.jpg", "2.jpg"), 0.1, 42)


def test_class_folders_without_pictures_are_named(tmp_path):
    with pytest.raises(DataError, match=r"none of the 2 class folders of .* has an image"):
        open_splits(fill(tmp_path, "a/notes.txt", "b/notes.txt"), 0.1, 42)
    (tmp_path / "few").mkdir()
    path = fill(tmp_path / "few", "train/a/1.jpg", "val/a/notes.txt")
    with pytest.raises(DataError, match=r"val' has no images; fill it, or remove it"):
        open_splits(path, 0.1, 42)


def test_an_empty_class_in_the_middle_moves_no_number(tmp_path):
    path = fill(tmp_path, "train/a/1.jpg", "train/b/notes.txt", "train/c/1.jpg", "val/c/2.jpg")
    with pytest.raises(DataError, match=r"1 of 3 classes .* have 0 images: 'b'"):
        open_splits(path, 0.1, 42)
    splits = open_splits(path, 0.1, 42, allow_empty=True)
    assert splits.classes == ("a", "b", "c")
    assert splits.train.labels.tolist() == [0, 2]
    assert splits.val.labels.tolist() == [2]
    assert any(note.startswith("warning: 1 of 3 classes") for note in splits.notes)


def test_what_was_left_out_is_named_below_the_data_folder(tmp_path):
    path = fill(
        tmp_path, "train/a/1.jpg", "train/a/.h.jpg", "val/a/2.jpg", "val/a/x.txt", "val/y.jpg"
    )
    splits = open_splits(path, 0.1, 42)
    found = {(item.key, item.reason) for item in splits.skipped}
    assert ("train/a/.h.jpg", "hidden_file") in found
    assert ("val/a/x.txt", "unknown_extension") in found
    assert ("val/y.jpg", "no_class") in found


def test_a_hidden_folder_in_val_is_no_unknown_class(tmp_path):
    path = fill(tmp_path, "train/a/1.jpg", "val/a/2.jpg", "val/.ipynb_checkpoints/x.jpg")
    assert open_splits(path, 0.1, 42).classes == ("a",)


def test_the_home_folder_may_be_written_short(tmp_path, monkeypatch):
    fill(tmp_path, "set/a/1.jpg", "set/a/2.jpg")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_splits("~/set", 0.5, 42).root == str(tmp_path / "set")
