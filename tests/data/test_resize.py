"""Resizing: Pillow's filter within one level, torch's without antialias, the same bytes always."""

import ctypes
import hashlib
import mmap
import threading

import numpy as np
import pictures
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from train.data.decode import upright
from train.data.resize import Part, resize


def scaled(pixels, size=24, **options):
    out = np.full((size, size, 3), 99, np.uint8)
    resize(pixels, out, **options)
    return out


def by_pillow(pixels, size=24, box=None):
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((size, size), Image.BILINEAR, box=box))


def difference(a, b):
    return int(np.abs(a.astype(int) - b.astype(int)).max())


def noise(height, width, seed=0, levels=256):
    """The hardest picture; with 2 levels every pixel is black or white."""
    step = 255 // (levels - 1)
    generator = np.random.default_rng(seed)
    return (generator.integers(0, levels, (height, width, 3)) * step).astype(np.uint8)


SHAPES = [
    (24, 24), (48, 48), (96, 48), (25, 23), (1, 1), (2, 2), (1, 500), (500, 1), (3, 2), (31, 57),
    (300, 400), (7, 5), (12, 12), (2000, 6), (6, 2000), (47, 49), (23, 24), (72, 73), (100, 901),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 24, 33, 64])
@pytest.mark.parametrize("levels", [2, 256])
def test_resize_is_within_one_level_of_pillow(size, levels):
    for number, (height, width) in enumerate(SHAPES):
        pixels = noise(height, width, number, levels)
        assert difference(scaled(pixels, size), by_pillow(pixels, size)) <= 1, (height, width)


def test_every_number_of_neighbours_is_within_one_level_of_pillow():
    """From 1 to 70 each way: the kernel has several ways."""
    for side in range(1, 140):
        pixels = noise(2 * side, 3 * side // 2 + 1, side)
        assert difference(scaled(pixels, 8), by_pillow(pixels, 8)) <= 1, side


def test_photographs_are_hardly_ever_a_level_off(photos):
    for file in sorted(photos.rglob("*.jpg"))[::37]:
        pixels = np.asarray(Image.open(file).convert("RGB"))
        found, wanted = scaled(pixels, 224), by_pillow(pixels, 224)
        assert difference(found, wanted) <= 1
        assert np.abs(found.astype(int) - wanted).mean() < 0.3


def test_one_colour_stays_that_colour():
    for level in (0, 1, 2, 127, 128, 254, 255):
        for height, width in SHAPES:
            pixels = np.full((height, width, 3), level, np.uint8)
            assert (scaled(pixels) == level).all(), (level, height, width)


def test_the_same_size_is_the_same_picture():
    pixels = noise(24, 24)
    assert np.array_equal(scaled(pixels), pixels)
    assert np.array_equal(scaled(pixels, antialias=False), pixels)


@pytest.mark.parametrize(
    "part", [(0, 0, 50, 40), (3.5, 2.25, 40.5, 30.75), (0.5, 0.5, 1, 1), (49, 39, 1, 1)]
)
def test_a_part_is_within_one_level_of_pillows_box(part):
    pixels = noise(40, 50)
    x, y, width, height = part
    expected = by_pillow(pixels, 24, (x, y, x + width, y + height))
    assert difference(scaled(pixels, part=Part(*part)), expected) <= 1


@pytest.mark.parametrize("size", [1, 7, 24, 33])
def test_without_antialias_it_is_within_one_level_of_torch(size):
    for number, (height, width) in enumerate(SHAPES):
        pixels = noise(height, width, number)
        planes = torch.from_numpy(pixels).permute(2, 0, 1)[None].double()
        expected = F.interpolate(planes, (size, size), mode="bilinear", align_corners=False)
        expected = expected[0].permute(1, 2, 0).numpy()
        found = scaled(pixels, size, antialias=False)
        assert np.abs(found - expected).max() < 0.6, (height, width)


@pytest.mark.parametrize("antialias", [True, False])
def test_a_mirror_image_is_exact(antialias):
    for height, width in SHAPES:
        pixels = noise(height, width)
        found = scaled(pixels, antialias=antialias, flip=True)
        assert np.array_equal(found, scaled(pixels, antialias=antialias)[:, ::-1])


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (1, 9), (9, 1), (1, 1)])
def test_views_of_turned_cameras_are_scaled_in_place(orientation, flip, shape):
    stored = noise(*shape, levels=2)
    pixels = upright(stored, orientation)
    height, width = pixels.shape[:2]
    part = Part(0.25 * width, 0.125 * height, 0.5 * width, 0.75 * height)
    for options in ({}, {"part": part}):
        found = scaled(pixels, flip=flip, **options)
        expected = scaled(np.ascontiguousarray(pixels), flip=flip, **options)
        assert difference(found, expected) <= 1


def test_any_other_view_is_taken_too():
    pixels = noise(60, 50)
    for view in (pixels[::2], pixels[:, ::2], pixels[:, :, ::-1], pixels[5:40, 7:30]):
        assert np.array_equal(scaled(view), scaled(np.ascontiguousarray(view)))
    pixels.setflags(write=False)
    assert np.array_equal(scaled(pixels), scaled(pixels.copy()))
    grey = np.broadcast_to(noise(30, 40)[:, :, :1], (30, 40, 3))
    assert np.array_equal(scaled(grey), scaled(np.ascontiguousarray(grey)))


def test_the_golden_bytes():
    """They are the same on every machine: integers, and weights from exact arithmetic."""
    digest = hashlib.sha256()
    for height, width in SHAPES:
        rows, columns = np.mgrid[0:height, 0:width]
        pixels = np.stack([rows * 7 + columns * 3, rows * columns, rows ^ columns], 2) % 256
        for options in ({}, {"antialias": False}, {"flip": True}):
            digest.update(scaled(pixels.astype(np.uint8), **options).tobytes())
    assert digest.hexdigest() == "a3c26b504fc5f63f16dab8695d82b277d621eb78e3605bbbb55bd093a6b45785"


def test_threads_do_not_disturb_each_other():
    crops = [noise(30 + 7 * n, 90 - 3 * n, n) for n in range(12)]
    expected, wrong = [scaled(crop) for crop in crops], []

    def work():
        for _ in range(20):
            wrong.extend(n for n, e in enumerate(expected) if (scaled(crops[n]) != e).any())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("side", [5, 24, 61, 200])
def test_nothing_outside_of_the_window_is_read(side):
    """The window ends where readable memory ends, and begins where it begins."""
    page = mmap.PAGESIZE
    pages = -(-side * side * 3 // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    whole = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    for offset in (0, (pages + 1) * page):  # reading there would end the process
        assert libc.mprotect(ctypes.c_void_p(whole.ctypes.data + offset), page, 0) == 0
    pixels = noise(side, side)
    for start in (page, (pages + 1) * page - pixels.size):
        window = whole[start : start + pixels.size].reshape(pixels.shape)
        window[:] = pixels
        for view in (window, window[::-1], window[:, ::-1], window.transpose(1, 0, 2)):
            assert difference(scaled(view), scaled(view.copy())) <= 1
    for offset in (0, (pages + 1) * page):
        libc.mprotect(ctypes.c_void_p(whole.ctypes.data + offset), page, 3)


def test_the_place_in_the_batch_is_all_that_is_written():
    batch = np.full((3, 24, 24, 3), 77, np.uint8)
    resize(noise(50, 60), batch[1])
    assert (batch[[0, 2]] == 77).all()
    assert difference(batch[1], scaled(noise(50, 60))) == 0
    assert pictures.scene().dtype == batch.dtype
