"""Data sets of Hugging Face as sources: the encoded bytes of a column, or a plain refusal."""

import pickle

import pytest
import torch

from train.data import build_loader
from train.data.sources.adopt import adopt
from train.data.sources.folder import scan_folder
from train.data.sources.hf_source import HuggingFaceSource
from train.errors import BadSample, ConfigError

pytestmark = pytest.mark.usefixtures("packages", "deadline", "no_child_left")

OPTIONS = {"batch_size": 5, "image_size": 16, "device": "cpu"}
NAMES = ["bird", "cat", "dog"]


@pytest.fixture
def files(tree):
    """The same images as a folder."""
    return scan_folder(str(tree), NAMES).source


@pytest.fixture
def table(packages, files):
    """The folder's images in a table, as bytes."""
    rows = {
        "image": [{"bytes": files[i].data, "path": None} for i in range(len(files))],
        "label": files.labels.tolist(),
    }
    kinds = {"image": packages.Image(), "label": packages.ClassLabel(names=NAMES)}
    return packages.Dataset.from_dict(rows, features=packages.Features(kinds))


def batches(data, **options):
    loader = build_loader(data, **{**OPTIONS, **options})
    try:
        return [(images, labels.tolist()) for images, labels in loader]
    finally:
        loader.close()


def same(one, other):
    assert len(one) == len(other)
    for (images, labels), (others, numbers) in zip(one, other):
        assert torch.equal(images, others)
        assert labels == numbers


@pytest.mark.parametrize("workers", [0, 2])
def test_the_batches_are_those_of_the_files(table, files, workers):
    same(batches(table, workers=workers), batches(files, workers=0))


def test_what_was_saved_on_disk_is_the_same(packages, table, files, tmp_path):
    table.save_to_disk(tmp_path / "saved")
    loaded = packages.load_from_disk(tmp_path / "saved")
    found = adopt(pickle.loads(pickle.dumps(loaded)))
    assert found.classes == tuple(NAMES)
    assert [found.data[i].data for i in range(24)] == [files[i].data for i in range(24)]
    assert found.data.labels.tolist() == files.labels.tolist()
    assert found.data[3][1:] == (0, "row#3")


def test_the_order_and_a_selection_of_rows_hold(table, files):
    found = adopt(table.select([20, 3])).data
    assert [found[i].data for i in range(2)] == [files[20].data, files[3].data]
    assert found.labels.tolist() == [2, 0]


def test_paths_in_place_of_bytes(packages, tree, files):
    rows = {"picture": [str(tree / files.key(i)) for i in range(24)], "kind": files.labels.tolist()}
    table = packages.Dataset.from_dict(rows)
    with pytest.raises(ConfigError, match="no column of images"):
        adopt(table)
    source = HuggingFaceSource(table, image="picture", label="kind")
    assert source[5].data == files[5].data
    declared = table.cast_column("picture", packages.Image())
    assert HuggingFaceSource(declared, "picture", "kind")[5].data == files[5].data


def test_rows_without_an_image_or_a_class_are_bad_samples(packages, files):
    kinds = {"image": packages.Image(), "label": packages.ClassLabel(names=NAMES)}
    rows = {"image": [None, {"bytes": files[0].data, "path": None}], "label": [0, None]}
    source = adopt(packages.Dataset.from_dict(rows, features=packages.Features(kinds))).data
    with pytest.raises(BadSample, match="no image in this row"):
        source[0]
    with pytest.raises(BadSample, match="no class in this row"):
        source[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.to_iterable_dataset(), "streamed data set, which has no index"),
        (lambda table: table.train_test_split(0.5), "DatasetDict of 'train', 'test'; pass one"),
        (lambda table: table.with_transform(lambda rows: rows), "a transform of its own"),
        (lambda table: table.remove_columns("label"), "no column of classes"),
        (lambda table: table.add_column("label2", table["label"][:]), None),
        (
            lambda table: table.rename_column("label", "x").cast_column("x", str_value()),
            "class_encode_column",
        ),
    ],
)
def test_what_is_not_clear_is_refused(table, change, message):
    if message is None:  # another column of numbers is no class
        assert adopt(change(table)).data.label == "label"
        return
    with pytest.raises(ConfigError, match=message):
        adopt(change(table))


def str_value():
    import datasets

    return datasets.Value("string")


def test_columns_that_are_not_there_are_named(table):
    with pytest.raises(ConfigError, match="no column 'img'; its columns: image, label"):
        HuggingFaceSource(table, "img", "label")
