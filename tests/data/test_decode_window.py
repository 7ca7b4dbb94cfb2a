"""Only what is needed is decoded: windows of packed files, stored pixels, fewer pixels."""

import io
import os

import numpy as np
import pictures
import pytest
import simplejpeg
from pictures import encode, exif, scene, turned
from PIL import Image

from train.data.augment import Box
from train.data.decode import BadSample, Scratch, decode, decode_scaled, describe, probe
from train.data.jpeg import windows
from train.data.resize import resize

LIMIT = 10**8


def boxes(header, count=12, seed=0):
    """Random windows, the whole, and the four corners."""
    generator, found = np.random.default_rng(seed), []
    for _ in range(count):
        width = int(generator.integers(1, header.width + 1))
        height = int(generator.integers(1, header.height + 1))
        x = int(generator.integers(0, header.width - width + 1))
        y = int(generator.integers(0, header.height - height + 1))
        found.append(Box(x, y, width, height))
    right, bottom = header.width - 1, header.height - 1
    corners = [Box(x, y, 1, 1) for x in (0, right) for y in (0, bottom)]
    return [*found, Box(0, 0, header.width, header.height), *corners]


def check_windows(data):
    packed = windows.pack(data)
    header, whole = probe(packed, LIMIT), probe(data, LIMIT)
    assert (header.kind, whole.kind) == ("windows", "jpeg")
    assert header[1:4] == whole[1:4]
    scratch = Scratch()
    for box in boxes(header):
        expected = decode(data, whole, box)
        assert np.array_equal(decode(packed, header, box), expected), box
        assert np.array_equal(decode(packed, header, box, scratch), expected), box


@pytest.mark.parametrize("name", sorted(pictures.kinds_of_jpeg()))
def test_a_window_has_the_very_pixels_of_the_whole(name):
    check_windows(pictures.kinds_of_jpeg()[name])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_window_of_a_turned_picture_has_the_very_pixels_of_the_whole(orientation):
    for subsampling in (0, 2):
        pixels = turned(scene(150, 90), orientation)
        check_windows(encode(pixels, exif=exif(orientation), subsampling=subsampling))


def test_windows_of_photographs_have_the_very_pixels_of_the_whole(photos):
    for file in sorted(photos.rglob("*.jpg"))[::23]:
        check_windows(file.read_bytes())


def test_a_window_through_the_batch_is_the_same_square():
    """The scaled squares are equal too: both ways have the pixels the same way round."""
    data = encode(turned(scene(200, 140), 6), exif=exif(6))
    packed = windows.pack(data)
    for number, box in enumerate(boxes(probe(data, LIMIT))):
        squares = [np.zeros((24, 24, 3), np.uint8) for _ in range(2)]
        for source, out in zip((data, packed), squares):
            resize(decode(source, probe(source, LIMIT), box), out, flip=bool(number % 2))
        assert np.array_equal(*squares)


def test_a_damaged_window_is_a_bad_sample():
    packed = windows.pack(encode(scene(200, 150), quality=90))
    generator, reasons = np.random.default_rng(0), 0
    for _ in range(150):
        data = bytearray(packed)
        data[int(generator.integers(2, len(data)))] ^= int(generator.integers(1, 256))
        try:
            header = probe(bytes(data), LIMIT)
            box = Box(header.width // 3, header.height // 3, header.width // 3, header.height // 3)
            pixels = decode(bytes(data), header, box)
            assert pixels.shape == (box.height, box.width, 3)
        except BadSample:
            reasons += 1
    assert reasons > 10


def pixmap(pixels):
    return b"P6\n%d %d\n255\n" % pixels.shape[1::-1] + pixels.tobytes()


def test_stored_pixels_are_looked_at_and_not_copied():
    pixels = scene(61, 47)
    data = pixmap(pixels)
    assert data == encode(pixels, "PPM")
    for record in (data, memoryview(data), pixels):
        header = probe(record, LIMIT)
        assert header[:3] == ("raw", 61, 47)
        found = decode(record, header, Box(5, 7, 30, 20))
        assert np.array_equal(found, pixels[7:27, 5:35])
        whole = record if record is pixels else np.frombuffer(record, np.uint8)
        assert np.shares_memory(found, whole)


@pytest.mark.parametrize(
    "data",
    [
        b"P6 2 1 255\n" + bytes(6),
        b"P6\n# a comment\n2 1\n255\n" + bytes(6),
        b"P6\n2 1\n65535\n" + bytes(12),
        b"P5\n2 1\n255\n" + bytes(2),
    ],
)
def test_other_pixmaps_are_pillows(data):
    header = probe(data, LIMIT)
    assert header[:3] == ("pillow", 2, 1)
    assert decode(data, header, Box(0, 0, 2, 1)).shape == (1, 2, 3)


def test_pixels_that_are_missing_or_of_another_kind_are_bad_samples():
    with pytest.raises(BadSample, match="damaged PPM: 8613 bytes, 61 x 47 pixels need 8614"):
        probe(pixmap(scene(61, 47))[:-1], LIMIT)
    for pixels in (np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)):
        with pytest.raises(BadSample, match=r"expected uint8 \(height, width, 3\)"):
            probe(pixels, LIMIT)
    with pytest.raises(BadSample, match=r"4 x 4 pixels .* data\.max_pixels=15"):
        probe(np.zeros((4, 4, 3), np.uint8), 15)


def test_any_kind_of_bytes_is_taken():
    for data in (encode(scene()), encode(scene(), "PNG"), windows.pack(encode(scene()))):
        header = probe(data, LIMIT)
        expected = decode(data, header, Box(3, 4, 20, 30))
        view = memoryview(data)
        assert probe(view, LIMIT)[:5] == header[:5]
        found = decode(view, probe(view, LIMIT), Box(3, 4, 20, 30))
        assert np.array_equal(found, expected)


def test_scratch_memory_is_used_again_and_belongs_to_its_thread():
    scratch, pixels = Scratch(), []
    for seed in range(2):
        data = encode(scene(80, 60, seed))
        header = probe(data, LIMIT)
        box = Box(0, 0, 80, 60)
        pixels.append(decode(data, header, box, scratch))
        assert np.array_equal(pixels[-1], decode(data, header, box))
    assert np.shares_memory(*pixels)
    assert len(scratch.take(10**8)) == 10**8
    assert len(scratch.take(10)) < 10**6


def scaled_both_ways(data, box, size):
    """The square from all pixels, from fewer, and how many fewer."""
    header = probe(data, LIMIT)
    full, fewer = (np.zeros((size, size, 3), np.uint8) for _ in range(2))
    resize(decode(data, header, box), full)
    pixels, part = decode_scaled(data, header, box, size)
    resize(pixels, fewer, part=part)
    return full, fewer, round(box.width / part.width)


def test_fewer_pixels_differ_by_a_level_at_most_on_photographs(photos):
    differences, factors = [], set()
    for file in sorted(photos.rglob("*.jpg"))[::11]:
        data = file.read_bytes()
        header = probe(data, LIMIT)
        for box in boxes(header, 6, len(data))[:6]:
            for size in (16, 40, 90):
                full, fewer, factor = scaled_both_ways(data, box, size)
                factors.add(factor)
                if factor > 1:
                    differences.append(np.abs(full.astype(int) - fewer).mean())
                else:
                    assert np.array_equal(full, fewer)
    assert len(factors) > 1
    # The generated pictures are grainier than any photograph: white noise is all short waves.
    assert np.mean(differences) <= (1 if os.environ.get("PHOTOS") else 1.5)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("packed", [False, True])
def test_fewer_pixels_show_the_same_window(orientation, packed):
    """A smooth picture: half a pixel beside would be seen at once."""
    rows, columns = np.mgrid[0:451, 0:603]
    upright = np.stack([rows * 255 / 450, columns * 255 / 602, (rows + columns) / 5], 2)
    pixels = turned(upright.astype(np.uint8), orientation)
    data = encode(pixels, quality=95, subsampling=0, exif=exif(orientation))
    data = windows.pack(data) if packed else data
    for box in (Box(0, 0, 603, 451), Box(101, 53, 400, 390), Box(7, 9, 131, 97)):
        for size in (20, 30):
            full, fewer, factor = scaled_both_ways(data, box, size)
            assert factor > 1
            assert np.abs(full.astype(int) - fewer).max() <= 4


def test_other_kinds_come_in_all_their_pixels():
    for data in (encode(scene(200, 160), "PNG"), scene(200, 160)):
        full, fewer, factor = scaled_both_ways(data, Box(1, 2, 190, 150), 8)
        assert factor == 1
        assert np.array_equal(full, fewer)


def test_how_a_record_is_decoded_is_said_in_words():
    photo = encode(scene(64, 48), exif=exif(6))
    assert describe(photo) == "JPEG: libjpeg-turbo decodes it whole"
    assert "at 1/2, 1/4 or 1/8 where that is enough" in describe(photo, "dct")
    words = "JPEG with an index: libjpeg-turbo decodes the window alone"
    assert describe(windows.pack(photo)) == words
    assert describe(scene(64, 48)) == "pixels as they are: nothing to decode"
    assert describe(encode(scene(64, 48), "PNG")) == "PNG: Pillow decodes it"
    assert describe(b"?").startswith("a bad sample (no image format of JPEG, PNG")


def test_a_packed_file_is_the_same_picture_for_everybody_else():
    data = encode(scene(97, 61))
    packed = windows.pack(data)
    assert np.array_equal(simplejpeg.decode_jpeg(packed), simplejpeg.decode_jpeg(data))
    assert Image.open(io.BytesIO(packed)).tobytes() == Image.open(io.BytesIO(data)).tobytes()


@pytest.mark.parametrize("subsampling", ["444", "422", "440", "420"])
def test_fewer_pixels_of_a_window_are_those_of_the_whole(subsampling):
    pixels = np.ascontiguousarray(scene(601, 403))
    photo = simplejpeg.encode_jpeg(pixels, 90, colorspace="RGB", colorsubsampling=subsampling)
    packed = windows.pack(photo)
    header, whole = probe(packed, LIMIT), probe(photo, LIMIT)
    assert header.kind == "windows"
    for box in boxes(header, count=25):
        expected = decode_scaled(photo, whole, box, 16)
        found = decode_scaled(packed, header, box, 16)
        assert found.part == expected.part
        assert np.array_equal(found.pixels, expected.pixels), box
