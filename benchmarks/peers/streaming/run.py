"""MosaicML Streaming: its shards, its JPEG column and its data set, in PyTorch's DataLoader."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from race.measure import BATCH_SIZE, CROP, PASSES, SIDE, serve


def write_mds(task):
    """The files' own bytes: a column of type `jpeg` would encode them again."""
    from streaming import MDSWriter

    columns = {"image": "bytes", "label": "int"}
    with MDSWriter(out=str(task.packed), columns=columns, size_limit=1 << 24) as writer:
        for path, label in task.files():
            writer.write({"image": Path(path).read_bytes(), "label": label})


def v2_uint8(task):
    import torch
    from streaming import Stream, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory
    from torch.utils.data import DataLoader
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    clean_stale_shared_memory()  # of a run that was killed
    transform = v2.Compose(
        [v2.RandomResizedCrop(SIDE, scale=CROP, antialias=True), v2.RandomHorizontalFlip()]
    )

    class Pictures(StreamingDataset):
        def __getitem__(self, index):
            record = super().__getitem__(index)
            encoded = torch.frombuffer(bytearray(record["image"]), dtype=torch.uint8)
            return transform(decode_jpeg(encoded, mode=ImageReadMode.RGB)), record["label"]

    stream = Stream(local=str(task.packed), repeat=PASSES)
    dataset = Pictures(streams=[stream], shuffle=True, batch_size=BATCH_SIZE)
    loader = DataLoader(
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
    packages = ("mosaicml-streaming", "torch", "torchvision", "numpy")
    serve({"v2_uint8": v2_uint8}, {"mds": write_mds}, packages)
