"""SPDL: its pipeline of threads; FFmpeg decodes, crops, scales and flips."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from race.crops import random_crop
from race.measure import BATCH_SIZE, SIDE, serve


def ffmpeg(task):
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    files = [path for path, _ in task.files()]

    def paths():
        while True:
            yield from random.sample(files, len(files))

    def decode(path):
        packets = spdl.io.demux_image(path)
        left, top, wide, high = random_crop(packets.width, packets.height)
        steps = [f"crop={wide}:{high}:{left}:{top}:exact=1", f"scale={SIDE}:{SIDE}:flags=bilinear"]
        if random.random() < 0.5:
            steps.append("hflip")
        return spdl.io.decode_packets(packets, filter_desc=",".join([*steps, "format=rgb24"]))

    def join(frames):
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    pipeline = (
        PipelineBuilder()
        .add_source(paths())
        .pipe(decode, concurrency=task.workers)
        .aggregate(BATCH_SIZE)
        .pipe(join)
        .add_sink(4)
        .build(num_threads=task.workers + 1)
    )
    with pipeline.auto_stop():
        yield from pipeline.get_iterator(timeout=60)


if __name__ == "__main__":
    serve({"ffmpeg": ffmpeg}, packages=("spdl", "spdl-io", "numpy"))
