"""Rows with decode code written by us around simplejpeg and OpenCV: threads, and Grain."""

import collections
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from race.crops import random_crop
from race.measure import BATCH_SIZE, SIDE, serve

AHEAD = 3
SHARE = 8  # pictures of a batch that a thread takes at a time


def _load(path, out, area):
    """Decode all of a file, scale a random crop of it into `out`, uint8 (SIDE, SIDE, 3)."""
    import cv2
    import simplejpeg

    with open(path, "rb") as file:
        data = file.read()
    picture = simplejpeg.decode_jpeg(data, "RGB", strict=False)
    left, top, wide, high = random_crop(picture.shape[1], picture.shape[0])
    window = picture[top : top + high, left : left + wide]
    way = cv2.INTER_AREA if area else cv2.INTER_LINEAR
    if random.random() < 0.5:
        out[:] = cv2.flip(cv2.resize(window, (SIDE, SIDE), interpolation=way), 1)
    else:
        cv2.resize(window, (SIDE, SIDE), dst=out, interpolation=way)


def _threads(task, area):
    import cv2
    import numpy as np

    cv2.setNumThreads(0)
    files = [path for path, _ in task.files()]
    ring = collections.deque(
        np.empty((BATCH_SIZE, SIDE, SIDE, 3), np.uint8) for _ in range(AHEAD + 2)
    )

    def fill(paths, rows):
        for path, row in zip(paths, rows):
            _load(path, row, area)

    waiting = collections.deque()
    with ThreadPoolExecutor(task.workers) as pool:
        while True:
            chosen = random.sample(files, BATCH_SIZE)
            batch = ring[0]
            ring.rotate(-1)
            parts = [
                pool.submit(fill, chosen[first : first + SHARE], batch[first : first + SHARE])
                for first in range(0, BATCH_SIZE, SHARE)
            ]
            waiting.append((batch, parts))
            if len(waiting) > AHEAD:
                batch, parts = waiting.popleft()
                for part in parts:
                    part.result()
                yield batch


def threads_linear(task):
    return _threads(task, False)


def threads_area(task):
    return _threads(task, True)


def _one(path):
    import numpy as np

    out = np.empty((SIDE, SIDE, 3), np.uint8)
    _load(path, out, False)
    return out


def grain_linear(task):
    import cv2
    import grain

    cv2.setNumThreads(0)
    files = [path for path, _ in task.files()]
    order = grain.MapDataset.source(files).shuffle(seed=1).repeat().map(_one)
    batches = order.batch(BATCH_SIZE, drop_remainder=True)
    options = grain.ReadOptions(num_threads=task.workers, prefetch_buffer_size=4)
    yield from batches.to_iter_dataset(options)


if __name__ == "__main__":
    arms = {
        "threads_linear": threads_linear,
        "threads_area": threads_area,
        "grain_linear": grain_linear,
    }
    serve(arms, packages=("simplejpeg", "opencv-python-headless", "grain", "numpy"))
