"""Grain with Pillow, as its documentation loads pictures: threads that read and decode."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from race.crops import random_crop
from race.measure import BATCH_SIZE, SIDE, serve


def _load(path):
    import numpy as np
    from PIL import Image

    with Image.open(path) as image:
        picture = image.convert("RGB")
    left, top, wide, high = random_crop(*picture.size)
    box = (left, top, left + wide, top + high)
    pixels = np.asarray(picture.resize((SIDE, SIDE), Image.BILINEAR, box=box))
    return pixels[:, ::-1] if random.random() < 0.5 else pixels


def pillow(task):
    import grain

    files = [path for path, _ in task.files()]
    order = grain.MapDataset.source(files).shuffle(seed=1).repeat().map(_load)
    batches = order.batch(BATCH_SIZE, drop_remainder=True)
    options = grain.ReadOptions(num_threads=task.workers, prefetch_buffer_size=4)
    yield from batches.to_iter_dataset(options)


if __name__ == "__main__":
    serve({"pillow": pillow}, packages=("grain", "pillow", "numpy"))
