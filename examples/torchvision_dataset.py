"""Data sets of torchvision: without a transform our line makes the images, with one theirs does.

python examples/torchvision_dataset.py [DIR]: DIR is a folder of class folders.
"""

import sys

from torch.utils.data import random_split
from torchvision.datasets import FakeData, ImageFolder
from torchvision.transforms import Compose, RandomCrop, ToTensor

from train.data import build_loader

path = sys.argv[1] if len(sys.argv) > 1 else "data/sample/train"


def show(name, data):
    """One epoch of a data set.

    Args:
        name: for people.
        data: of torchvision.
    """
    loader = build_loader(data, batch_size=16, image_size=64)
    for images, labels in loader:
        shape, count = tuple(images.shape), len(labels)
    print(f"{name}: {len(data)} images, the last batch {shape}, {count} labels; {loader.how}")
    loader.close()


show("ImageFolder", ImageFolder(path))
show("a split of it", random_split(ImageFolder(path), [0.5, 0.5])[0])
show("FakeData, pictures", FakeData(64, (3, 80, 96)))
show(
    "FakeData, its own transform",
    FakeData(64, (3, 80, 96), 10, Compose([RandomCrop(48), ToTensor()])),
)
