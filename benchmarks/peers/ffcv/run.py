"""FFCV: its file format and its loader. It encodes the pictures again when it writes them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from race.measure import BATCH_SIZE, CROP, PASSES, RATIO, SIDE, serve


class _Pictures:
    """What FFCV's writer reads: PIL images and labels."""

    def __init__(self, task):
        self.files = task.files()

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        from PIL import Image

        path, label = self.files[index]
        return Image.open(path).convert("RGB"), label


def _write(task, **options):
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    fields = {"image": RGBImageField(**options), "label": IntField()}
    writer = DatasetWriter(task.packed, fields, num_workers=task.workers)
    writer.from_indexed_dataset(_Pictures(task))


def write_jpg(task):
    _write(task, write_mode="jpg", jpeg_quality=90)


def write_mixed(task):
    """The mode that FFCV's own ImageNet figures use most: half JPEG, half raw."""
    _write(
        task,
        write_mode="proportion",
        max_resolution=500,
        compress_probability=0.5,
        jpeg_quality=90,
    )


def write_raw(task):
    _write(task, write_mode="raw")


def loader(task):
    import numpy as np
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.reader import Reader
    from ffcv.transforms import RandomHorizontalFlip, ToTensor, ToTorchImage

    decoder = RandomResizedCropRGBImageDecoder((SIDE, SIDE), scale=CROP, ratio=RATIO)
    count = Reader(task.packed, {}).num_samples
    stream = Loader(
        task.packed,
        batch_size=BATCH_SIZE,
        num_workers=task.workers,
        order=OrderOption.RANDOM,
        os_cache=True,
        indices=np.tile(np.arange(count, dtype="uint64"), PASSES),
        pipelines={
            "image": [decoder, RandomHorizontalFlip(), ToTensor(), ToTorchImage()],
            "label": None,
        },
    )
    while True:
        for batch in stream:
            yield batch[0]


if __name__ == "__main__":
    packs = {"jpg": write_jpg, "mixed": write_mixed, "raw": write_raw}
    packages = ("ffcv", "torch", "numba", "opencv-python", "numpy")
    serve({"loader": loader}, packs, packages)
