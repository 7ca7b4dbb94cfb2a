"""Data sets of torchvision and of one's own as sources: their pixels, the same batches."""

import pickle

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, Subset
from torchvision.datasets import CIFAR10, MNIST, ImageFolder
from torchvision.transforms import Compose, Resize, ToTensor

from train.data import build_loader
from train.data.sources.adopt import adopt, is_source
from train.data.sources.folder import FolderSource, scan_folder
from train.data.sources.torchvision_source import PictureSource, PixelSource
from train.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")

OPTIONS = {"batch_size": 4, "image_size": 16, "device": "cpu", "workers": 0}


def made(data, **options):
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


def cifar(count=10, **options):
    """The class itself, without its files: they are not to be had offline."""
    dataset = CIFAR10.__new__(CIFAR10)
    torchvision.datasets.VisionDataset.__init__(dataset, "nowhere", **options)
    dataset.train = True
    dataset.data = np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    dataset.targets = [number % 3 for number in range(count)]
    dataset.classes = ["plane", "car", "bird"]
    return dataset


def mnist(count=10):
    dataset = MNIST.__new__(MNIST)
    torchvision.datasets.VisionDataset.__init__(dataset, "nowhere")
    dataset.train = False
    dataset.data = torch.arange(count, dtype=torch.uint8)[:, None, None].repeat(1, 28, 28)
    dataset.targets = torch.arange(count)
    return dataset


def test_an_image_folder_gives_its_files(tree):
    found = adopt(ImageFolder(str(tree)))
    ours = scan_folder(str(tree), ["bird", "cat", "dog"]).source
    assert isinstance(found.data, FolderSource)
    assert [found.data[i] for i in range(24)] == [ours[i] for i in range(24)]
    assert found.classes == ("bird", "cat", "dog")
    same(made(ImageFolder(str(tree))), made(ours))


def test_files_that_lie_elsewhere_keep_their_path(tree, tmp_path):
    dataset = ImageFolder(str(tree))
    Image.new("RGB", (20, 20)).save(tmp_path / "other.png")
    dataset.samples.append((str(tmp_path / "other.png"), 1))
    source = adopt(dataset).data
    assert source[24].data == (tmp_path / "other.png").read_bytes()


def test_numbers_are_changed_by_the_target_transform(tree):
    dataset = ImageFolder(str(tree), target_transform=lambda label: 2 - label)
    assert adopt(dataset).data.labels.tolist() == [2] * 8 + [1] * 8 + [0] * 8
    with pytest.raises(DataError, match="gives a str, expected a class number"):
        adopt(ImageFolder(str(tree), target_transform=str))


@pytest.mark.parametrize(
    "attributes", [{"transform": ToTensor()}, {"transforms": lambda image, label: (image, label)}]
)
def test_a_transform_is_kept(tree, attributes):
    dataset = ImageFolder(str(tree))
    vars(dataset).update(attributes)
    found = adopt(dataset)
    assert found.data is dataset
    assert "leave it out" in found.how


def test_images_of_a_transform_come_as_they_are(tree):
    dataset = ImageFolder(str(tree), Compose([Resize((12, 12)), ToTensor()]))
    (images, labels), *_ = made(dataset, train=False)
    assert torch.equal(images, torch.stack([dataset[i][0] for i in range(4)]))
    assert labels == [0, 0, 0, 0]


class Own(ImageFolder):
    """Items of its own making, in place of those of its files."""

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image.convert("L"), label


@pytest.mark.parametrize("make", [Own, lambda root: ImageFolder(root, loader=Image.open)])
def test_other_ways_to_an_image_are_taken_as_they_are(tree, make):
    dataset = make(str(tree))
    source = adopt(dataset).data
    assert isinstance(source, PictureSource)
    assert source.labels.tolist() == dataset.targets
    record = source[3]
    assert np.array_equal(record.data, np.asarray(dataset[3][0].convert("RGB")))
    assert record.key == f"{type(dataset).__name__}#3"
    assert made(dataset)


def test_cifar_gives_its_pixels():
    found = adopt(cifar())
    assert isinstance(found.data, PixelSource)
    assert found.classes == ("plane", "car", "bird")
    assert np.array_equal(found.data[7].data, cifar().data[7])
    assert found.data[7][1:] == (1, "train#7")
    # By its own code, which makes Pillow images of the pixels: the same.
    same(made(cifar()), made(PictureSource(cifar())))


def test_grey_pixels_become_three_channels():
    source = adopt(mnist()).data
    assert source[4].data.shape == (28, 28, 3)
    assert (source[4].data == 4).all()
    assert source.labels.tolist() == list(range(10))
    with pytest.raises(IndexError):
        source.key(-1)


def test_a_subset_stays_one(tree):
    dataset = ImageFolder(str(tree))
    found = adopt(Subset(Subset(dataset, range(4, 24)), [3, 0]))
    assert is_source(found.data)
    assert [found.data.key(i) for i in range(2)] == ["bird/007.jpg", "bird/004.jpg"]
    assert found.classes == ("bird", "cat", "dog")
    kept = Subset(ImageFolder(str(tree), ToTensor()), [1])
    assert adopt(kept).data is kept


def test_sources_are_sent_to_other_processes(tree):
    for data in (ImageFolder(str(tree)), cifar(), Own(str(tree))):
        source = pickle.loads(pickle.dumps(adopt(data).data))
        assert len(source) == len(data)
        source[0]


def test_workers_make_the_same_batches(tree):
    for data in (ImageFolder(str(tree)), Own(str(tree))):
        same(made(data), made(data, workers=2))


class Pairs:
    """Items of the shape that is asked for."""

    def __init__(self, item):
        self.item = item

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.item


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ((Image.new("RGB", (9, 9)), 0), "gives Pillow images.*PictureSource"),
        ({"image": 1, "label": 2}, "gives a dict of 'image', 'label'"),
    ],
)
def test_items_that_make_no_batch_are_told(item, message):
    with pytest.raises(DataError, match=message):
        made(Pairs(item))


def test_pictures_of_any_data_set():
    found = made(PictureSource(Pairs((Image.new("RGB", (9, 9), "red"), 1))), train=False)
    assert [labels for _, labels in found] == [[1, 1, 1, 1], [1, 1]]
    with pytest.raises(DataError, match=r"item 0 of Pairs is \(str, int\), expected \(a Pillow"):
        PictureSource(Pairs(("red", 1)))[0]


class Stream(IterableDataset):
    """No index."""

    def __iter__(self):
        return iter(())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Stream(), "an IterableDataset: it has no index"),
        (DataLoader(Pairs((0, 0))), "pass its data set: loader.dataset"),
        (7, "got a int, which has no __len__ and no __getitem__"),
        ({"train": 1}, "got a dict; expected a path, or a data set"),
    ],
)
def test_what_is_no_data_set_is_refused(data, message):
    with pytest.raises(ConfigError, match=message):
        build_loader(data)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 4, 4, 3)), [0, 1], "images are float64"),
        (np.zeros((2, 3, 4, 4), np.uint8), [0, 1], r"expected uint8 \(N, height, width, 3\)"),
        (np.zeros((2, 4, 4, 3), np.uint8), [0], r"labels have the shape \(1,\)"),
    ],
)
def test_other_arrays_are_refused(images, labels, message):
    with pytest.raises(DataError, match=message):
        PixelSource(images, labels)
