"""LitData: its chunks, its decoder (torchvision) and its loader; torchvision's v2 transforms."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from race.measure import BATCH_SIZE, CROP, PASSES, SIDE, serve


def _record(item):
    from PIL import Image

    path, label = item
    return {"image": Image.open(path), "label": label}  # the file's own bytes are stored


def write_chunks(task):
    import litdata

    litdata.optimize(
        _record, task.files(), str(task.packed), chunk_bytes="16MB", num_workers=task.workers
    )


def v2_uint8(task):
    import litdata
    from torchvision.transforms import v2

    transform = v2.Compose(
        [v2.RandomResizedCrop(SIDE, scale=CROP, antialias=True), v2.RandomHorizontalFlip()]
    )

    class Pictures(litdata.StreamingDataset):
        def __getitem__(self, index):
            record = super().__getitem__(index)
            return transform(record["image"]), record["label"]

    dataset = Pictures(str(task.packed), shuffle=True, drop_last=True, subsample=float(PASSES))
    loader = litdata.StreamingDataLoader(
        dataset,
        batch_size=BATCH_SIZE,
        num_workers=task.workers,
        drop_last=True,
        persistent_workers=True,
    )
    while True:
        for images, _ in loader:
            yield images


if __name__ == "__main__":
    packages = ("litdata", "torch", "torchvision", "pillow", "numpy")
    serve({"v2_uint8": v2_uint8}, {"chunks": write_chunks}, packages)
