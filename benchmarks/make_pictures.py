"""Makes photo-like JPEG files to measure with: sizes and weights like ImageNet's.

python benchmarks/make_pictures.py OUT [--count 1000] [--size 530] [--seed 0]

The scenes are those of scripts/sample_images.py, in ten classes. What differs
from the sample data set is how they are stored: about 200,000 pixels and 0.55
bytes a pixel, three quarters in full colour resolution (4:4:4), the rest 4:2:0
and a few grey, as in ImageNet. Every picture is a function of (seed, class,
index).
"""

import argparse
import io
import json
import multiprocessing
import os
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from sample_images import CLASSES, VERSION, make_image  # noqa: E402

SIZE = 530
"""Mean long side: gives the mean number of pixels of ImageNet's files, about 200,000."""


def encode(picture, number):
    """One JPEG file. The kind follows the number: 15 of 20 are 4:4:4, 4 are 4:2:0, 1 is grey."""
    image, kind = Image.fromarray(picture), number % 20
    if kind == 19:
        image = image.convert("L")
    encoded = io.BytesIO()
    subsampling = "4:4:4" if kind < 15 else "4:2:0"
    image.save(encoded, "JPEG", quality=91 + number % 7, subsampling=subsampling)
    return encoded.getvalue()


def _make(job):
    folder, seed, number, size = job
    label = number % len(CLASSES)
    data = encode(make_image(seed, label, number // len(CLASSES), size), number)
    path = Path(folder) / CLASSES[label] / f"{number:06d}.jpg"
    path.write_bytes(data)
    return len(data)


def make_pictures(out, count=1000, size=SIZE, seed=0, processes=None):
    """Write `count` pictures into OUT/<class>/; nothing is done when they are there already.

    Returns:
        The folder.
    """
    out = Path(out)
    made_with = {"count": count, "size": size, "seed": seed, "version": VERSION}
    marker = out / "pictures.json"
    if marker.exists() and json.loads(marker.read_text()) == made_with:
        return out
    for name in CLASSES:
        (out / name).mkdir(parents=True, exist_ok=True)
    jobs = [(str(out), seed, number, size) for number in range(count)]
    with multiprocessing.Pool(processes or len(os.sched_getaffinity(0))) as pool:
        for _ in pool.imap_unordered(_make, jobs, chunksize=16):
            pass
    marker.write_text(json.dumps(made_with))
    return out


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--size", type=int, default=SIZE, help="mean long side, pixels")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = make_pictures(options.out, options.count, options.size, options.seed)
    sizes = [path.stat().st_size for path in folder.glob("*/*.jpg")]
    print(f"{folder}: {len(sizes)} pictures, {sum(sizes) / len(sizes) / 1000:.1f} kB each")


if __name__ == "__main__":
    main()
