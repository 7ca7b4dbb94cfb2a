"""Coefficient records against full decode + resize: how fast, and how close.

python benchmarks/coefficients.py [--data DIR] [--large 8] [--megapixels 12]
    [--images 200] [--rounds 5] [--seconds 0.5] [--threads 1]

Large: pictures of 12 megapixels made from those in DIR, by tiling them and by
scaling them up (4:2:0, quality 90). They are no photographs of that size: what
counts is the work. Random resized crops to 224, from memory, as stop 5 of the
line makes them; all ways in turn, medians, ratios within a round.

Close: the pictures of DIR as they are, and the large ones. Each crop against a
full decode (libjpeg-turbo) and torchvision's antialiased resize of the window:
mean difference in levels, PSNR in dB on the mean and of the worst picture.
"""

import argparse
import io
import platform
import statistics
import sys
import threading
import time
from pathlib import Path

import numba
import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision.transforms.v2 import functional as F

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from make_pictures import make_pictures  # noqa: E402
from race.data import DATA, find_jpegs  # noqa: E402
from race.table import markdown  # noqa: E402

from train.data import augment  # noqa: E402
from train.data.augment import Box  # noqa: E402
from train.data.batch import Batches, Recipe  # noqa: E402
from train.data.coefficients.pack import Unsupported, pack  # noqa: E402
from train.data.decode import decode, probe  # noqa: E402
from train.data.sampler import BatchRequest  # noqa: E402
from train.data.sources import Record  # noqa: E402

SIDE, CROP_MIN, EIGHT = 224, 0.08, 8
WAYS = {
    "JPEG, full decode": ("jpeg", "antialias"),
    "JPEG, decoded at 1/2 to 1/8": ("jpeg", "dct"),
    "coefficients": ("record", "antialias"),
    "coefficients, fewer pixels a block": ("record", "dct"),
}


class Memory:
    """Encoded pictures in memory, as a source of the line."""

    def __init__(self, files):
        self.files, self.labels = files, np.zeros(len(files), np.int64)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return Record(self.files[index], 0, str(index))

    def key(self, index):
        """A name for messages."""
        return str(index)


def pictures(folder, least=200):
    """JPEG files that have a record, large enough to be made larger."""
    found = []
    for path, _ in find_jpegs(folder):
        data = path.read_bytes()
        try:
            pack(data)
        except Unsupported:
            continue
        header = probe(data, 1 << 62)
        if min(header.width, header.height) >= least:
            found.append(data)
    return found


def enlarged(data, megapixels, tiled):
    """A JPEG of so many megapixels, 4:3, made of a small one."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    height = round((megapixels * 1e6 * 3 / 4) ** 0.5)
    size = round(height * 4 / 3), height
    if tiled:
        large = Image.new("RGB", size)
        for y in range(0, height, image.height):
            for x in range(0, size[0], image.width):
                large.paste(image, (x, y))
    else:
        large = image.resize(size, Image.BICUBIC)
    encoded = io.BytesIO()
    large.save(encoded, "JPEG", quality=90, subsampling="4:2:0")
    return encoded.getvalue()


def lines(jpegs):
    """What training does with the pictures, one for each way."""
    sources = {"jpeg": Memory(jpegs), "record": Memory([pack(data) for data in jpegs])}
    found = {}
    for name, (kind, resize) in WAYS.items():
        recipe = Recipe(True, SIDE, CROP_MIN, 0.0, 1 << 40, 0, resize)
        found[name] = Batches(sources[kind], recipe)
    return found


def batch(line, epoch, indices):
    """Pixels of some pictures: uint8 (B, SIDE, SIDE, 3)."""
    made = line.__getitems__(BatchRequest(epoch, 0, indices))
    if not hasattr(made, "images"):
        raise SystemExit(made.message)
    if made.bad:
        raise SystemExit(f"a picture can't be used: {made.bad[0].reason}")
    return np.asarray(made.images)


def images_per_s(line, seconds, threads):
    """All threads together, each over the same pictures with crops of its own."""
    counts = [0] * threads
    until = time.perf_counter() + seconds

    def work(number):
        epoch = number * 1000
        while time.perf_counter() < until:
            epoch += 1
            for start in range(0, len(line), EIGHT):
                stop = min(start + EIGHT, len(line))
                batch(line, epoch, np.arange(start, stop))
                counts[number] += stop - start

    begin = time.perf_counter()
    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(counts) / (time.perf_counter() - begin)


def race(named, rounds, seconds, threads):
    """Rates of every way over the sets: {way: [images/s a round]}."""
    rates = {name: [] for name in named}
    for number in range(rounds):
        order = list(named) if number % 2 == 0 else list(named)[::-1]
        for name in order:
            rates[name].append(images_per_s(named[name], seconds, threads))
    return rates


def expected(jpeg, index, epoch):
    """A crop by full decode and torchvision: uint8 (SIDE, SIDE, 3)."""
    header = probe(jpeg, 1 << 62)
    pixels = np.ascontiguousarray(decode(jpeg, header, Box(0, 0, header.width, header.height)))
    draws = augment.uniform(0, epoch, np.array([index]))[0]
    box = augment.train_box(draws, pixels.shape[1], pixels.shape[0], CROP_MIN)
    planes = torch.from_numpy(pixels).permute(2, 0, 1)
    made = F.resized_crop(planes, box.y, box.x, box.height, box.width, [SIDE, SIDE], antialias=True)
    return made.permute(1, 2, 0).numpy()


def closeness(named, jpegs, crops=1):
    """{way: (mean difference, PSNR of the mean, PSNR of the worst picture)}."""
    away = {name: [] for name in named}
    for index, jpeg in enumerate(jpegs):
        for epoch in range(crops):
            target = expected(jpeg, index, epoch).astype(np.int32)
            for name, line in named.items():
                off = batch(line, epoch, np.array([index]))[0] - target
                away[name].append((np.abs(off).mean(), max((off**2).mean(), 1e-3)))
    found = {}
    for name, values in away.items():
        means, squares = np.array(values).T
        psnr = 10 * np.log10(255**2 / squares)
        found[name] = float(means.mean()), float(psnr.mean()), float(psnr.min())
    return found


def report(title, named, jpegs, rates):
    """One table."""
    close = closeness(named, jpegs)
    kinds = {"jpeg": jpegs, "record": named["coefficients"].source.files}
    rows = []
    for name in named:
        size = statistics.mean(map(len, kinds[WAYS[name][0]])) / 1000
        ratio = statistics.median(
            rate / full for rate, full in zip(rates[name], rates["JPEG, full decode"])
        )
        low, high = min(rates[name]), max(rates[name])
        mean, psnr, worst = close[name]
        rate = f"{statistics.median(rates[name]):,.0f} ({low:,.0f} to {high:,.0f})"
        rows.append(
            [
                name,
                rate,
                f"{ratio:.1f}",
                f"{size:,.0f}",
                f"{mean:.3f}",
                f"{psnr:.1f}",
                f"{worst:.1f}",
            ]
        )
    head = ["way", "images/s", "x", "kB/image", "mean difference", "PSNR, dB", "worst"]
    print(f"\n{title}: {len(jpegs)} pictures\n\n{markdown(head, rows)}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="a folder of JPEG files (default: generated pictures)")
    parser.add_argument("--large", type=int, default=8, help="large pictures of each kind")
    parser.add_argument("--megapixels", type=float, default=12.0)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a way in a round")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = options.data or make_pictures(DATA / "pictures-200", 200)
    small = pictures(folder)[: options.images]
    print(
        f"numba {numba.__version__}, torchvision {torchvision.__version__}, "
        f"Python {platform.python_version()}; {options.threads} thread(s), {options.rounds} "
        f"rounds of {options.seconds} s; a look at {len(small)} pictures of {folder}"
    )
    sets = {"as they are": small}
    step = max(1, len(small) // max(1, options.large))
    for kind in ("tiled", "scaled up"):
        chosen = small[::step][: options.large]
        title = f"{options.megapixels:g} megapixels, {kind}, 4:2:0, quality 90"
        sets[title] = [enlarged(data, options.megapixels, kind == "tiled") for data in chosen]
    for title, jpegs in sets.items():
        if not jpegs:
            continue
        named = lines(jpegs)
        for line in named.values():
            batch(line, 0, np.arange(min(2, len(jpegs))))  # compiles
        report(title, named, jpegs, race(named, options.rounds, options.seconds, options.threads))


if __name__ == "__main__":
    main()
