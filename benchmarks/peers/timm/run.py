"""timm's own data set and loader, without its GPU prefetcher: uint8 batches by its fast_collate."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from race.measure import BATCH_SIZE, CROP, PASSES, RATIO, SIDE, serve


def loader(task):
    import torch
    from timm.data import ImageDataset, create_loader

    dataset = ImageDataset(str(task.folder))
    dataset.reader.samples = list(dataset.reader.samples) * PASSES
    prefetcher = create_loader(
        dataset,
        (3, SIDE, SIDE),
        BATCH_SIZE,
        is_training=True,
        scale=CROP,
        ratio=RATIO,
        hflip=0.5,
        color_jitter=None,
        interpolation="bilinear",
        num_workers=task.workers,
        persistent_workers=True,
        device=torch.device("cpu"),
        pin_memory=False,
    )
    while True:
        # The prefetcher turns batches into float32 on the device; its source is what crosses over.
        for images, _ in prefetcher.loader:
            yield images


if __name__ == "__main__":
    packages = ("timm", "torch", "torchvision", "pillow", "numpy")
    serve({"loader": loader}, packages=packages)
