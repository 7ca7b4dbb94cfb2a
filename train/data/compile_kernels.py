"""Compiles every kernel now, so that no first batch has to wait for it.

python -m train.data.compile_kernels

`make env` and the container's first start do so. Without it a kernel is compiled where it is first
needed, and a line says so. Kernels without a signature are compiled at their first call: so a small
picture goes through all of them.
"""

import io
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import simplejpeg
from PIL import Image

from train.console import say

SIDE = 96
"""Of the picture, in pixels: several MCUs each way."""


def compile_reading() -> None:
    """The kernels that read coefficient records: by far the most."""
    from train.data.coefficients.render import warm

    warm()


def compile_all_others() -> None:
    """The kernels of resizing, of checksums, of packing and cutting windows, of packing records."""
    from train.data import resize_kernels, weight_kernels  # noqa: F401  compiled by importing
    from train.data.augment import Box
    from train.data.coefficients import pack as records
    from train.data.coefficients import unpack
    from train.data.decode import decode, probe
    from train.data.jpeg import windows
    from train.data.sources import crc32c_kernels  # noqa: F401

    pixels = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    progressive = io.BytesIO()
    Image.fromarray(pixels).save(progressive, "JPEG", progressive=True)
    baseline = simplejpeg.encode_jpeg(pixels, quality=90, colorsubsampling="420")
    for data in (baseline, progressive.getvalue()):
        packed = windows.pack(data)
        decode(packed, probe(packed, SIDE * SIDE), Box(SIDE // 2, SIDE // 2, 16, 16))
        unpack.holds(records.pack(data), data)


def main() -> int:
    """Compile all, two processes side by side.

    Returns:
        0; 2 where it can't be done, after a line that says why; 130 after Ctrl-C.
    """
    begin = time.perf_counter()
    spawn = multiprocessing.get_context("spawn")  # threads of numba's don't survive a fork
    try:
        with ProcessPoolExecutor(2, spawn) as pool:
            for done in [pool.submit(compile_reading), pool.submit(compile_all_others)]:
                done.result()
    except KeyboardInterrupt:
        return 130
    except (ImportError, OSError) as error:
        sys.stderr.write(f"error: the kernels can't be compiled: {error}\n")
        return 2
    say(f"kernels ready after {time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
