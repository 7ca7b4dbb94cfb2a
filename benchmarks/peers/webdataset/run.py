"""WebDataset: tar shards, its shuffle and its loader; decoded by torchvision."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from race.measure import BATCH_SIZE, CROP, SIDE, serve


def write_tar(task):
    """Shards of 250 files: at least as many shards as workers."""
    import webdataset

    Path(task.packed).mkdir(parents=True)
    pattern = str(Path(task.packed) / "train-%06d.tar")
    with webdataset.ShardWriter(pattern, maxcount=250, verbose=0) as writer:
        for number, (path, label) in enumerate(task.files()):
            writer.write({"__key__": f"{number:06d}", "jpg": Path(path).read_bytes(), "cls": label})


def _batches(task, decoder, transform):
    import webdataset

    shards = sorted(str(path) for path in Path(task.packed).glob("*.tar"))
    dataset = (
        webdataset.WebDataset(shards, resampled=True, shardshuffle=False)
        .shuffle(500)
        .decode(decoder)
        .to_tuple("jpg", "cls")
        .map_tuple(transform, int)
        .batched(BATCH_SIZE, partial=False)
    )
    loader = webdataset.WebLoader(
        dataset, batch_size=None, num_workers=task.workers, persistent_workers=True
    )
    while True:
        for images, _ in loader:
            yield images


def v2_uint8(task):
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    transform = v2.Compose(
        [v2.RandomResizedCrop(SIDE, scale=CROP, antialias=True), v2.RandomHorizontalFlip()]
    )

    def decode(key, data):
        if not key.endswith("jpg"):
            return None
        encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return decode_jpeg(encoded, mode=ImageReadMode.RGB)

    return _batches(task, decode, transform)


def pil_uint8(task):
    from torchvision import transforms

    steps = [transforms.RandomResizedCrop(SIDE, scale=CROP), transforms.RandomHorizontalFlip()]
    return _batches(task, "pil", transforms.Compose([*steps, transforms.PILToTensor()]))


if __name__ == "__main__":
    arms = {"v2_uint8": v2_uint8, "pil_uint8": pil_uint8}
    packages = ("webdataset", "torch", "torchvision", "pillow", "numpy")
    serve(arms, {"tar": write_tar}, packages)
