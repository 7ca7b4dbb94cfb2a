"""Packed files: the very pixels and metadata of the original for everybody, and exact windows."""

import random

import jpeg_files
import numpy as np
import pictures
import pytest
import simplejpeg

from train.data.jpeg import IDENTIFIER, MARKER, markers, windows
from train.errors import BadSample


def decode(data):
    """As the loader does: libjpeg-turbo, and every warning is an error."""
    return simplejpeg.decode_jpeg(data, "RGB", strict=True)


def assert_same_picture(data, packed, name):
    assert np.array_equal(decode(packed), decode(data)), name
    before, after = jpeg_files.pillow(data), jpeg_files.pillow(packed)
    assert before[0] == after[0], name
    assert np.array_equal(before[1], after[1]), name


def random_box(generator, width, height):
    w, h = generator.randint(1, width), generator.randint(1, height)
    return generator.randint(0, width - w), generator.randint(0, height - h), w, h


def assert_exact(packed, layout, box, pixels, name):
    window = windows.cut(packed, layout, box)
    found = decode(window.data)
    x, y, width, height = box
    left, top = x - window.x, y - window.y
    part = found[top : top + height, left : left + width]
    assert np.array_equal(part, pixels[y : y + height, x : x + width]), (name, box)
    return found.shape


@pytest.mark.parametrize(("width", "height"), jpeg_files.SIZES)
def test_every_kind_in_every_size(width, height):
    generator = random.Random(width)
    for name, data in jpeg_files.kinds(width, height).items():
        packed = windows.pack(data, generator.choice([8, 24, 64]))
        assert_same_picture(data, packed, name)
        layout, pixels = windows.parse(packed), decode(data)
        assert (layout.width, layout.height) == (width, height)
        for _ in range(6):
            box = random_box(generator, width, height)
            assert_exact(packed, layout, box, pixels, name)


@pytest.mark.parametrize("name", jpeg_files.odd_kinds())
def test_kinds_that_few_encoders_write(name):
    generator, data = random.Random(0), jpeg_files.odd_kinds()[name]
    packed = windows.pack(data, 16)
    before, after = jpeg_files.pillow(data), jpeg_files.pillow(packed)
    assert before[0] == after[0]
    assert np.array_equal(before[1], after[1])
    pixels = np.asarray(jpeg_files.opened(data).convert("RGB"))
    for _ in range(10):
        box = random_box(generator, 53, 37)
        assert_exact(packed, windows.parse(packed), box, pixels, name)


def test_windows_of_photographs_are_exact_and_smaller(photos):
    """2,000 windows as the training crops are drawn: 8 to 100 % of the area."""
    files = sorted(photos.glob("*/*"))
    generator, sizes, needed, grown = random.Random(1), 0, 0, 0
    for number, path in enumerate(files):
        data = path.read_bytes()
        packed, pixels = windows.pack(data), decode(data)
        grown += len(packed) - len(data)
        assert np.array_equal(decode(packed), pixels), path
        layout = windows.parse(packed)
        for _ in range(2000 // len(files) + (number < 2000 % len(files))):
            share = generator.uniform(0.08, 1) ** 0.5
            w, h = max(1, round(layout.width * share)), max(1, round(layout.height * share))
            x, y = generator.randint(0, layout.width - w), generator.randint(0, layout.height - h)
            height, width, _ = assert_exact(packed, layout, (x, y, w, h), pixels, path)
            sizes += height * width / pixels[:, :, 0].size
            needed += share**2
    assert sizes / 2000 < 1
    assert 0.5 < needed / 2000 < 0.6
    if len(files) > 150:  # photographs; the generated ones are tiny
        assert grown < 0.03 * sum(path.stat().st_size for path in files)
        assert sizes < 1.35 * needed


@pytest.mark.parametrize("sampling", jpeg_files.SAMPLINGS)
def test_every_window_along_the_edges(sampling):
    """One pixel at every place: no margin is too small, and partial MCUs at the edges are kept."""
    data = jpeg_files.encode(pictures.scene(75, 39), 85, sampling)
    packed, pixels = windows.pack(data, 16), decode(data)
    layout = windows.parse(packed)
    boxes = [(x, y, 1, 1) for x in range(75) for y in (0, 17, 38)]
    boxes += [(x, y, 1, 1) for x in (0, 33, 74) for y in range(39)]
    for box in boxes:
        assert_exact(packed, layout, box, pixels, sampling)


def test_the_whole_picture_is_the_file_itself():
    packed = windows.pack(pictures.encode(pictures.scene(200, 90)))
    window = windows.cut(packed, windows.parse(packed), (0, 0, 200, 90))
    assert (window.data.tobytes(), window.x, window.y) == (packed, 0, 0)


def test_any_kind_of_bytes_will_do():
    packed = windows.pack(pictures.encode(pictures.scene(200, 90)))
    expected = bytes(windows.cut(packed, windows.parse(packed), (90, 40, 20, 20)).data)
    for data in (bytearray(packed), memoryview(packed), memoryview(bytearray(packed))):
        found = windows.cut(data, windows.parse(data), (90, 40, 20, 20))
        assert bytes(found.data) == expected


def test_metadata_is_kept():
    extra = b"".join(
        markers.segment(marker, payload)
        for marker, payload in [
            (0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"),
            (0xE9, b"of somebody else"),
            (0xFE, b"a comment"),
        ]
    )
    data = pictures.encode(
        pictures.scene(80, 50), exif=pictures.exif(6), icc_profile=b"profile" * 9, dpi=(72, 72)
    )
    start, _ = jpeg_files.place(data, markers.DQT)
    data = data[: start - 4] + extra + data[start - 4 :]
    packed = windows.pack(data)
    image, before = jpeg_files.opened(packed), jpeg_files.opened(data)
    assert image.getexif()[0x0112] == 6
    for name in ("exif", "icc_profile", "dpi", "jfif", "comment"):
        assert image.info[name] == before.info[name], name
    assert extra in packed


def test_pointers_to_further_pictures_are_not_kept():
    data = pictures.encode(pictures.scene(80, 50))
    start, _ = jpeg_files.place(data, markers.DQT)
    data = data[: start - 4] + markers.segment(markers.APP2, b"MPF\0....") + data[start - 4 :]
    assert b"MPF\0" not in windows.pack(data)


def test_packing_again_changes_nothing():
    once = windows.pack(pictures.encode(pictures.scene(300, 90), progressive=True))
    assert windows.pack(once) == once
    assert windows.pack(once, 16).count(IDENTIFIER) == 1


def test_every_row_of_mcus_ends_with_a_restart_marker():
    packed = windows.pack(pictures.encode(pictures.scene(300, 90), subsampling=2))
    start, end = jpeg_files.place(packed, markers.DRI)
    assert int.from_bytes(packed[start:end], "big") == 19
    scan = packed[jpeg_files.place(packed, markers.SOS)[1] :]
    assert [scan.count(bytes([0xFF, 0xD0 + number])) for number in range(6)] == [1] * 5 + [0]


def test_a_large_picture_has_an_index_in_parts():
    data = jpeg_files.encode(pictures.scene(1300, 1100), 70, "444")
    packed = windows.pack(data, 8)
    assert packed.count(IDENTIFIER) > 1
    layout, pixels = windows.parse(packed), decode(data)
    for box in [(1200, 1050, 96, 50), (0, 700, 50, 1), (900, 0, 7, 1100)]:
        assert_exact(packed, layout, box, pixels, "large")
    cut_short = packed.replace(IDENTIFIER, b"somebody", 2).replace(b"somebody", IDENTIFIER, 1)
    with pytest.raises(BadSample, match="part 1 of 2 is not in its place"):
        windows.parse(cut_short)


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff\xd8", b"\x89PNG\r\n", b"\xff\xd8\xff\xe9\0"])
def test_what_is_not_ours_has_no_layout(data):
    assert windows.parse(data) is None
    assert windows.parse(pictures.encode(pictures.scene(30, 30))) is None


def test_a_window_outside_the_picture_is_our_own_mistake():
    packed = windows.pack(pictures.encode(pictures.scene(30, 30)))
    for box in [(0, 0, 31, 30), (-1, 0, 5, 5), (5, 5, 0, 5), (29, 29, 1, 2)]:
        with pytest.raises(ValueError, match="window"):
            windows.cut(packed, windows.parse(packed), box)


def test_an_index_of_another_picture_is_found_out():
    """Programs that turn or crop losslessly copy every APP segment along with them."""
    one, other = (
        windows.pack(pictures.encode(pictures.scene(*size, 1), subsampling=0))
        for size in [(200, 104), (104, 200)]
    )
    start, end = jpeg_files.place(one, MARKER)
    other_start, other_end = jpeg_files.place(other, MARKER)
    mixed = one[: start - 4] + other[other_start - 4 : other_end] + one[end:]
    with pytest.raises(BadSample, match="damaged JPEG"):
        windows.cut(mixed, windows.parse(mixed), (90, 90, 10, 10))
    again = pictures.encode(pictures.scene(200, 104, 2), subsampling=0)
    place, _ = jpeg_files.place(again, markers.DQT)
    mixed = again[: place - 4] + one[start - 4 : end] + again[place - 4 :]
    with pytest.raises(BadSample, match="damaged JPEG"):
        windows.cut(mixed, windows.parse(mixed), (90, 90, 10, 10))
