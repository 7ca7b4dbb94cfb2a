"""Every file of the bad-data set through the loader that `train fit` uses, and its odd trees."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from train.config import DataConfig
from train.data import build_loader
from train.data.augment import Box
from train.data.batch import NO_LABEL
from train.data.decode import BadSample, decode, probe
from train.data.ledger import Ledger
from train.data.settings import LoaderSettings
from train.data.sources.splits import open_splits
from train.errors import DataError

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")

CONFIG = DataConfig(batch_size=7, image_size=32)
USED, LEFT_OUT = {"load", "convert"}, {"skip"}


def settings(workers):
    prefetch = 2 if workers else None
    return LoaderSettings(workers, prefetch, workers, prefetch, False, "fork", [], [])


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text("utf-8"))


def files(folder):
    """Entries by key, the path below files/."""
    entries = manifest(folder)["files"]
    return {
        os.fsdecode(bytes.fromhex(entry["path_hex"]))[len("files/") :]: entry for entry in entries
    }


def allowed(entry):
    return {entry["action"], *entry["also_ok"]}


@pytest.fixture
def splits(bad_data, tmp_path):
    """The whole folder of files as training and as validation set."""
    for name in ("train", "val"):
        (tmp_path / name).symlink_to(bad_data / "files")
    return open_splits(str(tmp_path), 0.1, 42)


def outcome(splits, loader, split):
    """What became of each file: 'scan: reason', 'decode: reason' or 'loaded'; and the batches."""
    found = {}
    for item in splits.skipped:
        part, key = item.key.split("/", 1)
        if part == split:
            assert key not in found, "left out twice"
            found[key] = f"scan: {item.reason}"
    batches = list(loader)
    for batch in batches:
        for bad in batch.bad:
            assert bad.key == loader.dataset.source.key(bad.sample)
            found[bad.key] = f"decode: {bad.reason}"
    for index in range(len(loader.dataset.source)):
        key = loader.dataset.source.key(index)
        found.setdefault(key, "loaded")
    return found, batches


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("train", [True, False])
def test_each_file_is_used_or_left_out_as_the_manifest_says(bad_data, splits, train, workers):
    entries = files(bad_data)
    source = splits.train if train else splits.val
    loader = build_loader(source, CONFIG, settings(workers), train=train, seed=42)
    found, batches = outcome(splits, loader, "train" if train else "val")
    loader.close()
    assert set(found) == set(entries)
    wrong = []
    for key, entry in entries.items():
        result = found[key]
        fits = bool(allowed(entry) & (USED if result == "loaded" else LEFT_OUT))
        if result.startswith("scan:") and entry["stage"] == "scan":
            fits = fits and result == f"scan: {entry['reason']}"
        if not fits:
            wrong.append((key, result, entry["action"]))
    assert wrong == []
    assert sorted(i for batch in batches for i in batch.indices) == list(range(len(source)))
    labels = np.concatenate([batch.labels.numpy() for batch in batches])
    bad = [key for key, result in found.items() if result.startswith("decode:")]
    assert all(found[key] != "decode: " for key in bad)
    assert (labels == NO_LABEL).sum() == (0 if train else len(bad))


def test_training_and_evaluation_agree_on_what_is_bad(splits):
    lists = []
    for train in (True, False):
        source = splits.train if train else splits.val
        loader = build_loader(source, CONFIG, settings(0), train=train, seed=42)
        lists.append({(bad.key, bad.reason) for batch in loader for bad in batch.bad})
    assert lists[0] == lists[1]
    assert lists[0]


def test_the_ledger_lists_each_bad_file_once_and_names_its_reason(splits, tmp_path):
    path = tmp_path / "bad.jsonl"
    ledger = Ledger(path, len(splits.train), budget=1.0)
    loader = build_loader(splits.train, CONFIG, settings(2), train=True, seed=42)
    bad = []
    for _ in range(2):  # in the second epoch nothing is new
        for batch in loader:
            ledger.add("train", batch.bad)
            bad += batch.bad
    loader.close()
    lines = [json.loads(line) for line in path.read_text("ascii").splitlines()]
    assert {(line["key"], line["reason"]) for line in lines} == {
        (f"train:{item.key}", item.reason) for item in bad
    }
    assert len(lines) == len(ledger) == len({item.key for item in bad})


def test_each_used_picture_has_the_size_and_the_colours_of_the_manifest(bad_data):
    checked, refused = 0, []
    for key, entry in files(bad_data).items():
        path = os.path.join(os.fsencode(bad_data), bytes.fromhex(entry["path_hex"]))
        if entry["action"] == "skip" or "expect" not in entry:
            continue
        data, expect = Path(os.fsdecode(path)).read_bytes(), entry["expect"]
        try:
            header = probe(data, CONFIG.max_pixels)
            pixels = decode(data, header, Box(0, 0, header.width, header.height))
        except BadSample:
            refused.append(key)
            continue
        checked += 1
        assert [header.width, header.height] == expect["size"], key
        assert pixels.shape == (*expect["size"][::-1], 3), key
        tolerance = expect.get("tol", 0)
        if "mean" in expect:
            assert np.abs(pixels.mean((0, 1)) - expect["mean"]).max() <= tolerance, key
        if "corner" in expect:
            corner = pixels[:4, :4].mean((0, 1))
            assert np.abs(corner - expect["corner"]).max() <= tolerance, key
    assert checked >= 20
    entries = files(bad_data)
    assert [key for key in refused if "skip" not in entries[key]["also_ok"]] == []


def test_most_of_the_data_being_bad_stops_the_run_with_the_list(splits):
    ledger = Ledger(None, len(splits.train), budget=0.001)
    loader = build_loader(splits.train, CONFIG, settings(0), train=True, seed=42)
    message = r"samples are bad, more than the 1 .*data\.bad_budget=0\.001"
    bad = [item for batch in loader for item in batch.bad]
    with pytest.raises(DataError, match=message):
        ledger.add("train", bad)


def test_an_empty_class_is_an_error_and_by_option_keeps_its_number(bad_data):
    path = str(bad_data / "trees" / "empty_class")
    with pytest.raises(DataError, match=r"1 of 2 classes .* have 0 images: 'dog'; .*allow_empty"):
        open_splits(path, 0.1, 42)
    splits = open_splits(path, 0.1, 42, allow_empty=True)
    assert splits.classes == ("cat", "dog")
    assert any("'dog'" in note for note in splits.notes)


def test_validation_uses_the_class_numbers_of_training(bad_data):
    splits = open_splits(str(bad_data / "trees" / "val_missing_class"), 0.1, 42)
    assert splits.classes == ("bird", "cat", "dog")
    labels = {
        splits.val.key(i).split("/")[0]: int(splits.val[i].label) for i in range(len(splits.val))
    }
    assert labels == {"cat": 1, "dog": 2}
    assert any("val has no images of 1 class(es): 'bird'" in note for note in splits.notes)


def test_a_class_that_only_validation_has_is_an_error(bad_data):
    with pytest.raises(DataError, match=r"val.*1 class\(es\) that train has not: 'bird'"):
        open_splits(str(bad_data / "trees" / "val_extra_class"), 0.1, 42)


def test_numbers_as_class_names_are_in_text_order(bad_data):
    splits = open_splits(str(bad_data / "trees" / "numeric_classes"), 0.1, 42)
    assert splits.classes == ("0", "1", "10", "2")
    assert {splits.train.key(i): splits.train[i].label for i in range(4)} == {
        "0/a.jpg": 0,
        "1/a.jpg": 1,
        "10/a.jpg": 2,
        "2/a.jpg": 3,
    }


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("nested_class", ["cat/a.jpg", "cat/more/b.jpg", "cat/more/deep/c.jpg", "dog/a.jpg"]),
        ("symlink_loop", ["cat/a.jpg", "dog/a.jpg"]),
        ("symlink_class", ["cat/a.jpg", "dog/a.jpg"]),
    ],
)
def test_folders_below_a_class_and_links_are_followed_once(bad_data, name, keys):
    splits = open_splits(str(bad_data / "trees" / name), 0.1, 42)
    found = [splits.train.key(i) for i in range(len(splits.train))]
    found += (
        [] if splits.val is splits.train else [splits.val.key(i) for i in range(len(splits.val))]
    )
    assert sorted(found) == keys
    assert splits.classes == ("cat", "dog")


def test_a_single_class_called_train_is_warned_of(bad_data):
    splits = open_splits(str(bad_data / "trees" / "extra_level"), 0.1, 42)
    assert splits.classes == ("train",)
    assert any(
        note.startswith("warning: there is only one class, 'train'") for note in splits.notes
    )
    assert any("unpacking mistake" in note for note in splits.notes)
