"""torchvision's ImageFolder in PyTorch's DataLoader: with Pillow as in the tutorials, and v2."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from race.measure import BATCH_SIZE, CROP, PASSES, SIDE, serve

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def endless(dataset, task):
    """Batches of images without end; an epoch is as long as a real data set's."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        dataset,
        batch_size=BATCH_SIZE,
        shuffle=True,
        drop_last=True,
        num_workers=task.workers,
        persistent_workers=True,
    )
    while True:
        for images, _ in loader:
            yield images


def folder(task, transform, **options):
    """An ImageFolder that names every picture `PASSES` times, so that epochs are long."""
    from torchvision.datasets import ImageFolder

    dataset = ImageFolder(str(task.folder), transform, **options)
    dataset.samples = dataset.samples * PASSES
    return dataset


def v1_float(task):
    from torchvision import transforms

    steps = [transforms.RandomResizedCrop(SIDE, scale=CROP), transforms.RandomHorizontalFlip()]
    steps += [transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]
    return endless(folder(task, transforms.Compose(steps)), task)


def v1_uint8(task):
    from torchvision import transforms

    steps = [transforms.RandomResizedCrop(SIDE, scale=CROP), transforms.RandomHorizontalFlip()]
    return endless(folder(task, transforms.Compose([*steps, transforms.PILToTensor()])), task)


def v2_uint8(task):
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    from torchvision.transforms import v2

    steps = [
        v2.RandomResizedCrop(SIDE, scale=CROP, antialias=True),
        v2.RandomHorizontalFlip(),
    ]

    def load(path):
        return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)

    return endless(folder(task, v2.Compose(steps), loader=load), task)


if __name__ == "__main__":
    arms = {"v1_float": v1_float, "v1_uint8": v1_uint8, "v2_uint8": v2_uint8}
    serve(arms, packages=("torch", "torchvision", "pillow", "numpy"))
