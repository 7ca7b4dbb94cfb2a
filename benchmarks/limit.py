"""What this machine can do at most, apart from any loader: decode, copy, read.

python benchmarks/limit.py [--data DIR] [--threads N] [--seconds 2]
    [--no-disk]

- libjpeg-turbo (through simplejpeg): whole pictures from memory into memory
  that is there already, by 1 and N threads, nothing else. No loader that
  decodes whole pictures can be faster.
- memory: copies of 256 MB, by 1 and N threads.
- disk: a file just written and flushed, read once in order and once at random
  places, past the page cache (O_DIRECT; where the file system refuses it,
  after posix_fadvise DONTNEED). A virtual disk's host may still hold it in its
  own memory: the figure is an upper bound.

`loaders.py` runs the first part as an arm of its own, in turn with the others.
"""

import argparse
import ctypes
import json
import mmap
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from race import measure

COPY_BYTES = 256 << 20
DISK_BYTES = 512 << 20
READS = {"in order, 4 MB": 4 << 20, "at random, 128 kB": 128 << 10}


def _in_threads(count, work):
    """Run work(number) in `count` threads; gives the seconds until the last one ended."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


def decode_rate(pictures, threads, seconds):
    """Decode whole pictures again and again.

    Args:
        pictures: JPEG files as bytes.
        threads: how many decode.
        seconds: the least time; whole passes over the pictures.

    Returns:
        images_per_s, megapixels_per_s, cpu_s_per_1000.
    """
    import numpy as np
    import simplejpeg

    headers = [simplejpeg.decode_jpeg_header(data, strict=False) for data in pictures]
    pixels = [height * width for height, width, *_ in headers]
    buffers = [np.zeros(max(pixels) * 3, dtype=np.uint8) for _ in range(threads)]

    def one_pass():
        left = iter(pictures)  # shared: whoever is free takes the next one

        def decode(number):
            for data in left:
                simplejpeg.decode_jpeg(data, "RGB", strict=False, buffer=buffers[number])

        return _in_threads(threads, decode)

    one_pass()
    cpu, elapsed, passes = measure.cpu_seconds(), 0.0, 0
    while elapsed < seconds:
        elapsed += one_pass()
        passes += 1
    images = passes * len(pictures)
    return {
        "images_per_s": round(images / elapsed, 1),
        "megapixels_per_s": round(passes * sum(pixels) / elapsed / 1e6, 1),
        "cpu_s_per_1000": round((measure.cpu_seconds() - cpu) / images * 1000, 3),
    }


def copy_rate(threads, repeats=5):
    """Copy 256 MB from memory to memory, divided among threads: GB/s, read bytes counted once."""
    source, target = (ctypes.create_string_buffer(COPY_BYTES) for _ in range(2))
    ctypes.memset(source, 1, COPY_BYTES)
    part = COPY_BYTES // threads

    def copy(number):
        offset = number * part
        ctypes.memmove(ctypes.addressof(target) + offset, ctypes.addressof(source) + offset, part)

    _in_threads(threads, copy)
    times = [_in_threads(threads, copy) for _ in range(repeats)]
    return part * threads / statistics.median(times) / 1e9


def _open_past_cache(path):
    """(descriptor, how): O_DIRECT, else a file whose cached pages were dropped."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        os.preadv(descriptor, [mmap.mmap(-1, 4096)], 0)
        return descriptor, "O_DIRECT"
    except OSError:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return descriptor, "posix_fadvise DONTNEED"


def disk_rates(folder, threads, size=DISK_BYTES):
    """Write a file, flush it, read it past the page cache: [(what, threads, MB/s, how)]."""
    rows = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        block = random.Random(0).getrandbits(8 << 20).to_bytes(1 << 20, "little")
        begin = time.perf_counter()
        for _ in range(size >> 20):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        rows.append(("written and flushed", 1, size / (time.perf_counter() - begin) / 1e6, "fsync"))
        for what, step in READS.items():
            offsets = list(range(0, size - step + 1, step))
            if "random" in what:
                random.Random(0).shuffle(offsets)
            for count in sorted({1, threads}):
                rows.append((what, count, *_read(file.name, offsets, step, count)))
    return rows


def _read(path, offsets, step, threads):
    opened = [_open_past_cache(path) for _ in range(threads)]

    def read(number):
        buffer = mmap.mmap(-1, step)  # at a page's start, as O_DIRECT wants it
        for offset in offsets[number::threads]:
            os.preadv(opened[number][0], [buffer], offset)

    elapsed = _in_threads(threads, read)
    for descriptor, _ in opened:
        os.close(descriptor)
    return len(offsets) * step / elapsed / 1e6, opened[0][1]


def _pictures(folder):
    paths = sorted(path for path in Path(folder).rglob("*") if path.suffix in (".jpg", ".jpeg"))
    if not paths:
        raise SystemExit(f"error: {folder} holds no .jpg file")
    return [path.read_bytes() for path in paths]


def as_arm(options):
    """Be an arm of `loaders.py`: the decode limit as one line of JSON."""
    begin = float(os.environ.get(measure.STARTED) or time.monotonic())
    pictures = _pictures(options.data)
    result = decode_rate(pictures, options.threads, options.seconds)
    result.update(
        first_batch_s=round(time.monotonic() - begin, 2),
        memory_mb=measure.memory_mb(),
        dtype="uint8",
        shape=[],
        versions=measure.versions(("simplejpeg", "numpy")),
    )
    print(json.dumps(result))


def report(options):
    pictures = _pictures(options.data)
    size = sum(map(len, pictures)) / len(pictures) / 1000
    print(f"{len(pictures)} pictures of {size:.1f} kB, libjpeg-turbo through simplejpeg")
    for threads in sorted({1, options.threads}):
        found = decode_rate(pictures, threads, options.seconds)
        print(
            f"  decode, {threads} thread(s): {found['images_per_s']:8,.0f} images/s "
            f"{found['megapixels_per_s']:7.0f} megapixels/s, "
            f"{found['cpu_s_per_1000']:.3f} ms of CPU time each"
        )
    for threads in sorted({1, options.threads}):
        print(f"  memory copy, {threads} thread(s): {copy_rate(threads):6.1f} GB/s")
    if options.disk:
        where = options.folder or Path(options.data)
        for what, threads, rate, how in disk_rates(where, options.threads):
            print(f"  disk, {what}, {threads} thread(s): {rate:7.0f} MB/s ({how})")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("arm", nargs="*", help=argparse.SUPPRESS)  # "arm limit", by loaders.py
    parser.add_argument("--data", help="folder of JPEG files; default: generated pictures")
    parser.add_argument("--threads", "--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=2.0, help="a measurement, at least")
    parser.add_argument("--folder", help="whose disk is measured; default: the data's")
    parser.add_argument("--no-disk", dest="disk", action="store_false")
    options = parser.parse_args(arguments)
    if not options.data:
        from make_pictures import make_pictures

        folder = Path(__file__).resolve().parents[1] / "build" / "bench-data" / "pictures-200"
        options.data = make_pictures(folder, 200)
    if options.arm:
        as_arm(options)
    else:
        report(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
