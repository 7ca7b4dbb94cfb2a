"""Rendered windows against a plain oracle, and against a whole decode and Pillow's resize."""

from concurrent.futures import ThreadPoolExecutor

import jpeg_files
import numpy as np
import pictures
import plain_packer
import plain_render
import pytest
from rendered import boxes, jpeg, ordinary, psnr, rendered

from train.data.augment import Box
from train.data.coefficients import render as rendering
from train.data.decode import Scratch, decode, probe


@pytest.mark.parametrize(("width", "height"), jpeg_files.SIZES)
def test_every_kind_is_what_the_oracle_says(width, height):
    for name, data in jpeg_files.kinds(width, height).items():
        record = plain_packer.pack(data)
        some = boxes(width, height, len(name))[: 3 if width > 300 else 8]
        for number, box in enumerate(some):
            flip, smooth = number % 2 == 1, number % 3 != 2
            found = rendered(record, box, 32, flip, "antialias" if smooth else "bilinear")
            expected = plain_render.render(record, box, 32, flip, smooth)
            worst = np.abs(found - expected).max()
            assert worst < 1.2, (name, box, worst)


def test_odd_kinds_are_what_pillow_decodes():
    for name, data in jpeg_files.odd_kinds().items():
        record, box = plain_packer.pack(data), Box(5, 3, 44, 30)
        difference = np.abs(rendered(record, box, 40) - ordinary(data, box, 40))
        assert difference.mean() < 0.6, name
        assert difference.max() < 12, name


@pytest.mark.parametrize("sampling", ["grey", "444", "422", "420"])
def test_quality_against_a_whole_decode(sampling):
    means, decibels = [], []
    for seed, size in enumerate([(160, 120), (97, 141), (210, 133)]):
        data = jpeg(*size, sampling, seed)
        record = plain_packer.pack(data)
        for number, box in enumerate(boxes(*size, seed)):
            found, expected = (
                rendered(record, box, 64, number % 2),
                ordinary(data, box, 64, number % 2),
            )
            means.append(np.abs(found - expected).mean())
            decibels.append(psnr(found, expected))
    assert np.mean(means) < 0.45
    assert np.mean(decibels) > 45
    assert min(decibels) > 38


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("size", [1, 7, 31, 33, 100])
def test_any_size_and_nothing_around_it_is_written(size, flip):
    record = plain_packer.pack(jpeg(70, 51))
    memory = np.full((size + 2, size, 3), 99, np.uint8)
    box = Box(3, 2, 60, 40)
    task = rendering.Task(record, box, flip, memory[1:-1])
    assert rendering.render([task], Scratch(), "antialias") == [None]
    assert (memory[[0, -1]] == 99).all()
    assert np.abs(memory[1:-1] - plain_render.render(record, box, size, flip)).max() < 1.2


def test_more_rows_than_16_bits_can_add_up():
    for width, height in [(3000, 20), (20, 3000)]:
        record = plain_packer.pack(jpeg(width, height))
        box = Box(0, 0, width, height)
        found, expected = rendered(record, box, 4), plain_render.render(record, box, 4)
        assert np.abs(found - expected).max() < 1.2


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(orientation):
    """Turned and mirrored pictures come out upright, whatever their size."""
    for sampling, size in [("420", (63, 41)), ("422", (50, 33)), ("444", (16, 24))]:
        upright = pictures.scene(*size, orientation)
        stored = pictures.turned(upright, orientation)
        options = {"quality": 95, "exif": pictures.exif(orientation)}
        if sampling == "444":
            options["subsampling"] = 0
        data = pictures.encode(stored, **options)
        record = plain_packer.pack(data, orientation)
        header = probe(data, 1 << 30)
        assert probe(record.tobytes(), 1 << 30)[:3] == ("coefficients", *size)
        for box in boxes(*size):
            expected = decode(data, header, box).astype(int)
            found = decode(record.tobytes(), probe(record.tobytes(), 1 << 30), box)
            assert found.shape == (box.height, box.width, 3)
            assert np.abs(found - expected).max() <= 6, (sampling, box)
            assert np.abs(found - expected).mean() <= 0.7, (sampling, box)


@pytest.mark.parametrize(("ratio", "side"), [(3, 4), (6, 2), (16, 1), (20, 1)])
def test_fewer_samples_where_they_are_enough(ratio, side):
    """data.resize=dct: grey shows which transform was used; a noisy picture stays close."""
    size = 16 * ratio
    record = plain_packer.pack(jpeg(size + 13, size + 5, "grey"))
    box = Box(3, 2, size, size)
    stored = plain_render.samples(record, 0, side)
    less = 8 // side
    stored = stored[: -(-(size + 5) // less), : -(-(size + 13) // less)]
    left, top = box.x // less, box.y // less
    right, bottom = -(-(box.x + size) // less), -(-(box.y + size) // less)
    across = plain_render.triangle(box.x / less - left, size / less, right - left, 16)
    down = plain_render.triangle(box.y / less - top, size / less, bottom - top, 16)
    expected = down @ stored[top:bottom, left:right] @ across.T
    found = rendered(record, box, 16, resize="dct")
    assert np.abs(found[:, :, 0] - expected).max() < 1.2
    for sampling in ("444", "420"):
        data = jpeg(size + 13, size + 5, sampling)
        found = rendered(plain_packer.pack(data), box, 16, resize="dct")
        assert np.abs(found - ordinary(data, box, 16)).mean() < 2.5


def test_dct_is_antialias_where_the_window_is_too_small():
    record = plain_packer.pack(jpeg(100, 80, "420"))
    box = Box(7, 5, 80, 70)
    assert (rendered(record, box, 32, resize="dct") == rendered(record, box, 32)).all()


def test_the_same_pixels_in_any_company():
    """One by one, together, in any order, in threads, with scratch that was used before."""
    generator = np.random.default_rng(0)
    tasks = []
    for number, kind in enumerate(["420", "444", "grey", "422"] * 6):
        width, height = generator.integers(20, 300, 2).tolist()
        record = plain_packer.pack(jpeg(width, height, kind, number))
        box = boxes(width, height, number)[3]
        tasks.append(rendering.Task(record, box, number % 3 == 0, np.empty((32, 32, 3), np.uint8)))
    alone = [rendered(task.data, task.box, 32, task.flip) for task in tasks]

    def together(order):
        some = [tasks[n]._replace(out=np.empty((32, 32, 3), np.uint8)) for n in order]
        assert not any(rendering.render(some, scratch, "antialias"))
        return all((task.out == alone[n]).all() for n, task in zip(order, some))

    scratch = Scratch()
    orders = [generator.permutation(len(tasks)).tolist() for _ in range(12)]
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(together, orders))


def test_records_need_no_alignment():
    record = plain_packer.pack(jpeg(50, 40)).tobytes()
    box, memory = Box(1, 2, 40, 30), b"x" * 8 + record
    for shift in range(8):
        moved = memoryview(memory[8 - shift :])[shift:]
        assert (rendered(moved, box) == rendered(record, box)).all()
