"""Pillow's and PyTorch's antialiased resize side by side, as stop 5 of the line uses them.

python benchmarks/resize.py [--images 200] [--runs 7]

Random resized crops of pictures of about 400 x 300 pixels to 224 x 224, one thread, the two in
turn. Prints the median and the spread of each in milliseconds an image, and the largest difference
in levels.
"""

import argparse
import platform
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import PIL
import torch
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from sample_data import make_image  # noqa: E402

from train.data import augment  # noqa: E402
from train.data.batch import resize  # noqa: E402

SIDE = 224


def windows(count):
    """Crops of generated pictures: uint8 (h, w, 3) views, as the decoder gives them."""
    pictures = [make_image(0, number % 10, number) for number in range(count)]
    draws = augment.uniform(42, 0, np.arange(count))
    for picture, numbers in zip(pictures, draws):
        box = augment.train_box(numbers, picture.shape[1], picture.shape[0], 0.08)
        yield picture[box.y : box.y + box.height, box.x : box.x + box.width]


def by_pillow(window):
    return np.asarray(Image.fromarray(window).resize((SIDE, SIDE), Image.BILINEAR))


def by_torch(window):
    out = torch.empty((SIDE, SIDE, 3), dtype=torch.uint8)
    resize(window, out)
    return out.numpy()


def time_ms(function, crops):
    begin = time.perf_counter()
    for crop in crops:
        function(crop)
    return (time.perf_counter() - begin) / len(crops) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    crops = list(windows(options.images))
    worst = max(
        int(np.abs(by_pillow(c).astype(int) - by_torch(c)).max()) for c in crops
    )  # warms up
    rows = [(time_ms(by_pillow, crops), time_ms(by_torch, crops)) for _ in range(options.runs)]
    versions = (
        f"torch {torch.__version__}, Pillow {PIL.__version__}, Python {platform.python_version()}"
    )
    print(f"{versions}; {options.images} crops, {options.runs} runs")
    for name, values in zip(("Pillow", "PyTorch"), zip(*rows)):
        middle = statistics.median(values)
        print(f"{name:<8} median {middle:.3f} ms an image, {min(values):.3f} to {max(values):.3f}")
    ratio = statistics.median(torch_ms / pillow_ms for pillow_ms, torch_ms in rows)
    print(f"PyTorch / Pillow: {ratio:.2f} (median of pairs); largest difference {worst} level(s)")


if __name__ == "__main__":
    main()
