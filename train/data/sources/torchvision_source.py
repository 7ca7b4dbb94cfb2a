"""Data sets of torchvision as sources: their files, their arrays, or what they decode themselves.

A data set with an image transform stays what it is: the transform is what its user wants.
"""

import os
from numbers import Integral
from typing import Any, Tuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torchvision.datasets import CIFAR10, MNIST, DatasetFolder
from torchvision.datasets.folder import default_loader

from train.data.by_pillow import to_rgb
from train.data.sources import Record
from train.data.sources.folder import FolderSource
from train.errors import DataError


class PixelSource:
    """Pixels in memory: CIFAR, MNIST, any array of images.

    Args:
        images: uint8 (N, h, w, 3), or grey (N, h, w).
        labels: class numbers (N,).
        name: what keys begin with.

    Raises:
        DataError: not such arrays.
    """

    def __init__(self, images: Any, labels: Any, name: str = "image"):
        self.images, self.labels = np.asarray(images), np.asarray(labels, dtype=np.int64)
        self.name = name
        shape = self.images.shape
        grey = self.images.ndim == 3
        if self.images.dtype != np.uint8 or not (grey or (len(shape) == 4 and shape[3] == 3)):
            raise DataError(
                f"images are {self.images.dtype} {shape}, expected uint8 (N, height, width, 3) or "
                "(N, height, width)"
            )
        if self.labels.shape != shape[:1]:
            raise DataError(f"labels have the shape {self.labels.shape}, expected {shape[:1]}")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Record:
        key, pixels = self.key(index), self.images[index]
        if pixels.ndim == 2:
            pixels = np.repeat(pixels[:, :, None], 3, axis=2)
        return Record(pixels, int(self.labels[index]), key)

    def key(self, index: int) -> str:
        """Name one record without reading it."""
        if not 0 <= index < len(self.labels):  # NumPy would take -1 for the last one
            raise IndexError(index)
        return f"{self.name}#{index}"


class PictureSource:
    """A data set whose items are (picture, class number), decoded by its own code.

    Args:
        dataset: map-style; a picture is a Pillow image or uint8 (h, w, 3).
    """

    def __init__(self, dataset: Any):
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def labels(self) -> np.ndarray:
        """Class numbers, int64 (N,); every item is read where the data set has no list of them."""
        found = labels_of(self.dataset)
        return np.asarray([self[i].label for i in range(len(self))] if found is None else found)

    def __getitem__(self, index: int) -> Record:
        picture, label = self.dataset[index]
        if isinstance(picture, Image.Image):
            picture = to_rgb(ImageOps.exif_transpose(picture))
        if not isinstance(picture, np.ndarray) or not _is_whole(label):
            raise DataError(
                f"item {index} of {type(self.dataset).__name__} is ({type(picture).__name__}, "
                f"{type(label).__name__}), expected (a Pillow image, an int)"
            )
        return Record(picture, int(label), self.key(index))

    def key(self, index: int) -> str:
        """Name one record without reading it."""
        return f"{type(self.dataset).__name__}#{index}"


def adopt_torchvision(dataset: Any) -> Tuple[Any, Tuple[str, ...], str]:
    """The quickest way to the images of a `VisionDataset`: (data, classes, how)."""
    classes = tuple(map(str, getattr(dataset, "classes", None) or ()))
    if dataset.transform is not None or _transforms_both(dataset):
        how = "by the transform that the data set has; leave it out, and our line makes them"
        return dataset, classes, how
    change = dataset.target_transform or (lambda label: label)
    given = type(dataset).__getitem__
    if given is DatasetFolder.__getitem__ and dataset.loader is default_loader:
        keys = [_below(dataset.root, path) for path, _ in dataset.samples]
        labels = [_number(change(label), dataset) for _, label in dataset.samples]
        return FolderSource(str(dataset.root), keys, labels), classes, "the files of its folder"
    if given in (CIFAR10.__getitem__, MNIST.__getitem__):
        name = "train" if dataset.train else "test"
        labels = [_number(change(int(label)), dataset) for label in dataset.targets]
        return PixelSource(dataset.data, labels, name), classes, "its pixels in memory"
    return PictureSource(dataset), classes, "decoded by the data set itself"


def labels_of(dataset: Any) -> Any:
    """The list of class numbers that a data set has, as int64 (N,); None: it has none."""
    if getattr(dataset, "target_transform", None) is not None:
        return None
    for name in ("targets", "labels", "_labels"):
        found = np.asarray(getattr(dataset, name, ()))
        if found.shape == (len(dataset),) and found.dtype.kind in "iu":
            return found.astype(np.int64)
    return None


def _transforms_both(dataset: Any) -> bool:
    """A transform of image and label together, `transforms=`."""
    return dataset.transforms is not None and dataset.target_transform is None


def _below(root: Any, path: str) -> bytes:
    """A file's path relative to the folder, where it lies in it."""
    root, path = os.path.abspath(root), os.path.abspath(path)
    inside = path.startswith(os.path.join(root, ""))
    return os.fsencode(os.path.relpath(path, root) if inside else path)


def _number(label: Any, dataset: Any) -> int:
    if not _is_whole(label):
        raise DataError(
            f"target_transform of {type(dataset).__name__} gives a {type(label).__name__}, "
            "expected a class number"
        )
    return int(label)


def _is_whole(label: Any) -> bool:
    if isinstance(label, torch.Tensor):
        return label.dim() == 0 and not label.is_floating_point()
    return isinstance(label, Integral)
