"""Our antialiased resize, Pillow's and PyTorch's side by side, as stop 5 of the line uses them.

python benchmarks/resize.py [--images 200] [--runs 7]

Random resized crops of pictures of about 400 x 300 pixels to 224 x 224, one thread, all in turn.
Prints the median and the spread of each in milliseconds of CPU time an image, and the largest
difference to Pillow in levels. Without antialias: our plain bilinear way.
"""

import argparse
import platform
import statistics
import sys
import time
from pathlib import Path

import numba
import numpy as np
import PIL
import torch
import torch.nn.functional as F
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from sample_data import make_image  # noqa: E402

from train.data import augment  # noqa: E402
from train.data.resize import resize, warm  # noqa: E402

SIDE = 224


def windows(count):
    """Crops of generated pictures: uint8 (h, w, 3) views, as the decoder gives them."""
    pictures = [make_image(0, number % 10, number) for number in range(count)]
    draws = augment.uniform(42, 0, np.arange(count))
    for picture, numbers in zip(pictures, draws):
        box = augment.train_box(numbers, picture.shape[1], picture.shape[0], 0.08)
        yield picture[box.y : box.y + box.height, box.x : box.x + box.width]


def ours(window, out):
    resize(window, out)


def without_antialias(window, out):
    resize(window, out, antialias=False)


def by_torch(window, out):
    planes = torch.from_numpy(np.ascontiguousarray(window)).permute(2, 0, 1).unsqueeze(0)
    scaled = F.interpolate(
        planes, (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True
    )
    torch.from_numpy(out).copy_(scaled[0].permute(1, 2, 0))


def by_pillow(window, out):
    out[:] = np.asarray(Image.fromarray(window).resize((SIDE, SIDE), Image.BILINEAR))


WAYS = {
    "ours": ours,
    "PyTorch": by_torch,
    "Pillow": by_pillow,
    "ours, no antialias": without_antialias,
}


def time_ms(way, crops, out):
    begin = time.process_time()
    for crop in crops:
        way(crop, out)
    return (time.process_time() - begin) / len(crops) * 1000


def largest_difference(way, crops):
    """To Pillow, in levels; warms up too."""
    found, expected = (np.empty((SIDE, SIDE, 3), np.uint8) for _ in range(2))
    worst = 0
    for crop in crops:
        way(crop, found)
        by_pillow(crop, expected)
        worst = max(worst, int(np.abs(found.astype(int) - expected).max()))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warm()
    crops = list(windows(options.images))
    out = np.empty((SIDE, SIDE, 3), np.uint8)
    worst = {name: largest_difference(way, crops) for name, way in WAYS.items()}
    runs = [
        {name: time_ms(way, crops, out) for name, way in WAYS.items()} for _ in range(options.runs)
    ]
    print(
        f"numba {numba.__version__}, torch {torch.__version__}, Pillow {PIL.__version__}, "
        f"Python {platform.python_version()}; {options.images} crops, {options.runs} runs"
    )
    for name in WAYS:
        values = [run[name] for run in runs]
        ratio = statistics.median(run[name] / run["ours"] for run in runs)
        print(
            f"{name:<18} median {statistics.median(values):.3f} ms an image, {min(values):.3f} to "
            f"{max(values):.3f}; {ratio:.1f} x ours; within {worst[name]} level(s) of Pillow"
        )


if __name__ == "__main__":
    main()
