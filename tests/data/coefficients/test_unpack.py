"""Records back to JPEG files, the same pixels; and damage is found wherever it is."""

import io
import random

import jpeg_files
import numpy as np
import pictures
import pytest
import simplejpeg
from PIL import Image

from train.data.coefficients import create, pack, record, unpack
from train.errors import BadSample

SCENE = jpeg_files.encode(pictures.scene(53, 37), 85, "420")


def opened(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("kind", sorted(pictures.kinds_of_jpeg()))
def test_the_very_pixels(kind):
    data = pictures.kinds_of_jpeg()[kind]
    made = unpack.to_jpeg(pack.pack(data))
    assert np.array_equal(simplejpeg.decode_jpeg(made), simplejpeg.decode_jpeg(data))


@pytest.mark.parametrize("name", jpeg_files.odd_kinds())
def test_the_very_pixels_of_odd_files(name):
    data = jpeg_files.odd_kinds()[name]
    assert np.array_equal(opened(unpack.to_jpeg(pack.pack(data))), opened(data))


def test_a_jpeg_of_a_record_gives_the_same_record():
    data = pictures.encode(
        pictures.turned(pictures.scene(61, 45), 7), exif=pictures.exif(7), subsampling=1
    )
    made = pack.pack(data)
    assert pack.pack(unpack.to_jpeg(made)) == made


def test_another_jpeg_is_told_apart():
    made = pack.pack(SCENE)
    assert unpack.holds(made, SCENE)
    for other in (
        jpeg_files.encode(pictures.scene(53, 37), 84, "420"),
        jpeg_files.encode(pictures.scene(53, 37, seed=1), 85, "420"),
        jpeg_files.encode(pictures.scene(53, 37), 85, "422"),
        jpeg_files.encode(pictures.scene(53, 37), 85, "Gray"),
        jpeg_files.encode(pictures.scene(54, 37), 85, "420"),
        pictures.encode(Image.open(io.BytesIO(SCENE)), exif=pictures.exif(3), quality="keep"),
    ):
        assert not unpack.holds(made, other)
    full = jpeg_files.encode(pictures.scene(40, 24), 80, "444")
    rgb = jpeg_files.without(full, 0xE0, b"Adobe\0d\0\0\0\0\0")
    assert not unpack.holds(pack.pack(full), rgb)


def test_a_flipped_bit_is_found_anywhere():
    made = pack.pack(jpeg_files.encode(pictures.scene(20, 12), 85, "420"))
    for place in range(len(made)):
        damaged = bytearray(made)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(BadSample, match="record"):
            unpack.unpack(bytes(damaged))
    for size in (0, 5, 64, len(made) - 1):
        with pytest.raises(BadSample, match="record"):
            unpack.unpack(made[:size])
    with pytest.raises(BadSample, match="record"):
        unpack.unpack(made + b"\0")


def test_damage_with_a_right_checksum_never_crashes():
    generator = random.Random(0)
    made = pack.pack(jpeg_files.encode(pictures.scene(70, 40), 95, "422"))
    fields = record.parse(made)
    head = fields.planes[0].starts
    refused = 0
    for _ in range(4000):
        damaged = np.frombuffer(made, np.uint8).copy()
        limit = generator.choice([head, fields.planes[0].masks + 400, len(made)])
        for _ in range(generator.choice([1, 1, 2, 5])):
            damaged[generator.randrange(8, limit)] = generator.choice([0, 1, 127, 128, 255])
        create.seal(damaged)
        try:
            found = unpack.unpack(damaged)
            assert found.picture.blocks.nbytes < 1 << 20
        except BadSample:
            refused += 1
    assert refused > 2000


def test_any_memory():
    made = pack.pack(SCENE)
    expected = unpack.unpack(made).picture.blocks
    for shift in range(9):
        for kind in (bytes, memoryview, lambda data: np.frombuffer(data, np.uint8)):
            view = kind(b"\7" * shift + made)[shift:]
            assert np.array_equal(unpack.unpack(view).picture.blocks, expected)
