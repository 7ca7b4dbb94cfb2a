"""NVIDIA DALI on the CPU alone: file reader, random crop within the decoder, resize, flip."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from race.measure import BATCH_SIZE, CROP, RATIO, SIDE, serve


def _batches(task, antialias):
    import numpy as np
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(
        batch_size=BATCH_SIZE, num_threads=task.workers, device_id=None, prefetch_queue_depth=2
    )
    def line():
        files = [path for path, _ in task.files()]
        encoded, _ = fn.readers.file(files=files, random_shuffle=True, initial_fill=1000)
        crops = fn.decoders.image_random_crop(
            encoded,
            device="cpu",
            output_type=types.RGB,
            random_area=list(CROP),
            random_aspect_ratio=list(RATIO),
        )
        scaled = fn.resize(
            crops, size=(SIDE, SIDE), interp_type=types.INTERP_LINEAR, antialias=antialias
        )
        return fn.flip(scaled, horizontal=fn.random.coin_flip())

    pipeline = line()
    pipeline.build()
    while True:
        batch = pipeline.run()[0].as_tensor()
        yield np.asarray(batch)


def antialiased(task):
    return _batches(task, True)


def linear(task):
    return _batches(task, False)


if __name__ == "__main__":
    arms = {"antialiased": antialiased, "linear": linear}
    serve(arms, packages=("nvidia-dali-cuda120", "numpy"))
