"""Image folders: what is listed, in which order, under which number; what is left out and why."""

import os
import pickle

import numpy as np
import pytest

from train.data.sources import Subset
from train.data.sources import folder as folder_source
from train.data.sources.folder import FolderSource, list_classes, scan_folder
from train.data.sources.skipped import describe_skipped
from train.errors import DataError


def fill(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode("utf-8", "surrogateescape"))
    return root


def scan(root):
    classes, skipped = list_classes(str(root))
    found = scan_folder(str(root), classes)
    reasons = {item.key: item.reason for item in [*skipped, *found.skipped]}
    return [found.source.key(i) for i in range(len(found.source))], found, reasons


def test_a_record_is_the_file_its_label_and_its_path(tmp_path):
    fill(tmp_path, "b/2.png", "a/x/1.JPG", "b/1.jpeg")
    keys, found, _ = scan(tmp_path)
    assert keys == ["a/x/1.JPG", "b/1.jpeg", "b/2.png"]
    assert found.classes == ("a", "b")
    assert found.source.labels.tolist() == [0, 1, 1]
    assert found.source[1] == (b"b/1.jpeg", 1, "b/1.jpeg")
    assert found.source.labels.dtype == np.int64


def test_names_are_in_the_order_of_their_bytes(tmp_path):
    fill(
        tmp_path,
        "k/b.jpg",
        "k/B.jpg",
        "k/10.jpg",
        "k/2.jpg",
        "k/\xe9.jpg",
        "K/a.jpg",
        "10/a.jpg",
        "2/a.jpg",
    )
    keys, found, _ = scan(tmp_path)
    assert found.classes == ("10", "2", "K", "k")
    assert keys[3:] == ["k/10.jpg", "k/2.jpg", "k/B.jpg", "k/b.jpg", "k/\xe9.jpg"]


def test_names_that_are_not_utf8_keep_their_bytes(tmp_path):
    name = b"k/caf\xe9 \xff.jpg"
    fill(tmp_path, "k/a.jpg")
    with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
        file.write(b"!")
    keys, found, _ = scan(tmp_path)
    assert os.fsencode(keys[1]) == name
    assert found.source[1].data == b"!"


def test_what_is_left_out_has_its_reason(tmp_path):
    fill(tmp_path, "cat/a.jpg", "cat/.b.jpg", "cat/c.txt", "cat/noend", "top.jpg", "notes.txt")
    fill(
        tmp_path,
        ".hidden/a.jpg",
        "__MACOSX/a.jpg",
        "cat/@eaDir/a.jpg",
        "cat/.ipynb_checkpoints/a.jpg",
    )
    (tmp_path / "cat" / "gone.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "cat" / "self.jpg").symlink_to("self.jpg")
    (tmp_path / "nothing").symlink_to("nowhere")
    (tmp_path / "cat" / "folder.jpg").mkdir()
    os.mkfifo(tmp_path / "cat" / "pipe.jpg")
    keys, found, reasons = scan(tmp_path)
    assert keys == ["cat/a.jpg"]
    assert found.classes == ("cat",)
    assert reasons == {
        ".hidden": "hidden_file",
        "__MACOSX": "hidden_file",
        "top.jpg": "no_class",
        "nothing": "broken_symlink",
        "cat/.b.jpg": "hidden_file",
        "cat/.ipynb_checkpoints": "hidden_file",
        "cat/@eaDir": "hidden_file",
        "cat/c.txt": "unknown_extension",
        "cat/noend": "unknown_extension",
        "cat/gone.jpg": "broken_symlink",
        "cat/self.jpg": "broken_symlink",
        "cat/folder.jpg": "not_a_file",
        "cat/pipe.jpg": "not_a_file",
    }
    details = {item.key: item.detail for item in found.skipped}
    assert details["cat/gone.jpg"] == "points to 'nowhere.jpg'"


def test_a_link_that_nobody_may_read_is_left_out(tmp_path, monkeypatch):
    fill(tmp_path, "cat/a.jpg")
    (tmp_path / "cat" / "gone.jpg").symlink_to("nowhere.jpg")

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "readlink", refuse)
    keys, found, _ = scan(tmp_path)
    assert keys == ["cat/a.jpg"]
    assert found.skipped[0].detail == "points to Permission denied"


def test_linked_files_and_folders_are_followed_once(tmp_path):
    fill(tmp_path, "store/x/1.jpg", "data/cat/a.jpg", "data/dog/d.jpg")
    data = tmp_path / "data"
    (data / "cat" / "b.jpg").symlink_to(tmp_path / "store" / "x" / "1.jpg")
    (data / "cat" / "more").symlink_to(tmp_path / "store")
    (data / "cat" / "again").symlink_to(tmp_path / "store")
    (data / "cat" / "up").symlink_to("..")
    (data / "cat" / "other").symlink_to("../dog")
    (data / "fox").symlink_to(tmp_path / "store" / "x")
    keys, _, reasons = scan(data)
    assert "cat/b.jpg" in keys
    assert "dog/d.jpg" in keys
    assert sum(key.endswith("x/1.jpg") or key == "fox/1.jpg" for key in keys) == 1
    assert {reasons[key] for key in ("cat/up", "cat/other")} == {"listed_already"}


def test_what_was_left_out_is_told_in_a_line_a_reason(tmp_path):
    fill(tmp_path, "cat/a.jpg", *[f"cat/{i}.txt" for i in range(3)], "cat/x.md", "cat/.h.jpg")
    for number in range(4):
        (tmp_path / "cat" / f"{number}.jpg").symlink_to("nowhere")
    lines = describe_skipped(scan(tmp_path)[1].skipped)
    assert len(lines) == 3
    assert "left out 4 x unknown_extension: .txt x 3, .md x 1" in lines
    assert "left out 1 x hidden_file: 'cat/.h.jpg'" in lines
    assert any("broken_symlink" in line and "not mounted here" in line for line in lines)


def test_a_file_that_may_not_be_read_is_named_before_training(tmp_path, monkeypatch):
    fill(tmp_path, "cat/a.jpg", "cat/b.jpg")
    monkeypatch.setattr(
        folder_source.os, "access", lambda path, mode: not str(path).endswith("b.jpg")
    )
    with pytest.raises(DataError, match=r"cannot read .*cat/b\.jpg.*permission denied.*chmod"):
        scan(tmp_path)


def test_a_folder_that_may_not_be_listed_is_named(tmp_path, monkeypatch):
    fill(tmp_path, "cat/a.jpg")

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(folder_source.os, "scandir", refuse)
    with pytest.raises(DataError, match=r"cannot list .*: permission denied for user"):
        list_classes(str(tmp_path))


def test_a_missing_folder_and_a_file_in_its_place_are_named(tmp_path):
    with pytest.raises(DataError, match=r"no such folder: .*gone.*; check data.path"):
        list_classes(str(tmp_path / "gone"))
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"is a file, expected a folder with one folder per class"):
        list_classes(str(tmp_path / "file"))


def test_progress_is_told_now_and_then(tmp_path):
    fill(tmp_path, *[f"k/{number:05}.jpg" for number in range(2100)])
    told = []
    scan_folder(str(tmp_path), ["k"], told.append)
    assert told == [1000, 2000]


def test_a_source_keeps_no_python_object_per_file(tmp_path):
    """Reference counts in a forked worker would copy every page of a long list."""
    fill(tmp_path, *[f"k/{number}.jpg" for number in range(50)])
    source = scan(tmp_path)[1].source
    values = {**vars(source), **source.names.arrays("names")}
    for value in values.values():
        assert isinstance(value, (bytes, np.ndarray))
        assert not isinstance(value, np.ndarray) or value.dtype != object
    assert len(source) == 50


def test_a_source_survives_pickling_and_says_no_beyond_its_ends(tmp_path):
    fill(tmp_path, "a/1.jpg", "b/2.jpg")
    source = pickle.loads(pickle.dumps(scan(tmp_path)[1].source))
    assert [source[i].key for i in range(2)] == ["a/1.jpg", "b/2.jpg"]
    for index in (-1, 2):
        with pytest.raises(IndexError):
            source[index]
    with pytest.raises(IndexError):
        source.key(5)


def test_a_file_that_vanished_or_became_huge_is_an_error_of_the_system(tmp_path, monkeypatch):
    fill(tmp_path, "a/1.jpg", "a/2.jpg")
    source = scan(tmp_path)[1].source
    (tmp_path / "a" / "1.jpg").unlink()
    with pytest.raises(OSError, match=r"No such file"):
        source[0]
    monkeypatch.setattr(folder_source, "MAX_FILE_BYTES", 3)
    with pytest.raises(OSError, match=r"more than the"):
        source[1]


def test_no_file_stays_open(tmp_path):
    fill(tmp_path, *[f"a/{number}.jpg" for number in range(20)])
    source = scan(tmp_path)[1].source
    before = len(os.listdir("/proc/self/fd"))
    assert all(source[i].data for i in range(20))
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_empty_source_is_allowed(tmp_path):
    (tmp_path / "a").mkdir()
    assert len(scan(tmp_path)[1].source) == 0
    assert len(FolderSource(str(tmp_path), [], [])) == 0


def test_a_subset_is_its_records_in_the_given_order(tmp_path):
    fill(tmp_path, "a/1.jpg", "b/2.jpg", "b/3.jpg")
    subset = Subset(scan(tmp_path)[1].source, np.array([2, 0]))
    assert [subset.key(i) for i in range(len(subset))] == ["b/3.jpg", "a/1.jpg"]
    assert subset.labels.tolist() == [1, 0]
    assert subset[0].data == b"b/3.jpg"
    assert [record.key for record in (pickle.loads(pickle.dumps(subset))[i] for i in range(2))] == [
        "b/3.jpg",
        "a/1.jpg",
    ]
