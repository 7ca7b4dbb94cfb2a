"""Decoding: the same picture as Pillow's for every kind of file that has one right answer."""

import io

import numpy as np
import pictures
import pytest
import simplejpeg
from pictures import encode, exif, marked, scene, turned
from PIL import Image, ImageFile, ImageOps

from train.data.augment import Box
from train.data.decode import BadSample, decode, probe

LIMIT = 10_000_000


def picture(data, limit=LIMIT):
    """The whole picture: uint8 (h, w, 3)."""
    header = probe(data, limit)
    pixels = decode(data, header, Box(0, 0, header.width, header.height))
    assert pixels.dtype == np.uint8
    assert pixels.shape == (header.height, header.width, 3)
    return pixels


def by_pillow(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    return np.asarray(image.convert("RGB"))


def difference(a, b):
    assert a.shape == b.shape
    return int(np.abs(a.astype(int) - b).max())


@pytest.mark.parametrize("name", sorted(pictures.kinds_of_jpeg()))
def test_jpeg_of_every_kind_is_what_pillow_makes_of_it(name):
    data = pictures.kinds_of_jpeg()[name]
    assert probe(data, LIMIT).kind == "jpeg"
    assert difference(picture(data), by_pillow(data)) <= 1


@pytest.mark.parametrize("subsampling", ["444", "422", "420", "440", "411"])
def test_jpeg_of_every_subsampling(subsampling):
    data = simplejpeg.encode_jpeg(scene(61, 47), 90, colorsubsampling=subsampling)
    assert difference(picture(data), by_pillow(data)) <= 1


def test_jpeg_that_stores_rgb_itself():
    """Adobe's marker with transform 0: the three components are red, green and blue."""
    planes = Image.merge("YCbCr", Image.fromarray(scene()).split())
    data = encode(planes, quality=95, subsampling=0)
    assert data[2:4] == b"\xff\xe0"  # JFIF, 18 bytes: it would say YCbCr
    data = data[:2] + b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0" + data[20:]
    assert difference(picture(data), by_pillow(data)) <= 1
    assert difference(picture(data), scene()) < 30


@pytest.mark.parametrize("factors", [0x21, 0x22, 0x41])
def test_grey_jpeg_with_odd_sampling_factors(factors):
    """Cameras and scanners write them; with one component they mean nothing."""
    data = bytearray(encode(scene()[:, :, 0]))
    frame = data.index(b"\xff\xc0")
    assert data[frame + 9] == 1  # components
    data[frame + 11] = factors
    assert difference(picture(bytes(data)), by_pillow(bytes(data))) <= 1


def test_real_photographs_are_what_pillow_makes_of_them(photos):
    files = sorted(photos.rglob("*.jpg"))[::9]
    assert len(files) >= 5
    for file in files:
        data = file.read_bytes()
        assert difference(picture(data), by_pillow(data)) <= 1, file.name


def test_a_window_is_cut_from_the_whole():
    data = encode(scene(97, 61))
    header = probe(data, LIMIT)
    whole = picture(data)
    for box in (Box(0, 0, 1, 1), Box(5, 7, 30, 20), Box(96, 60, 1, 1), Box(0, 30, 97, 31)):
        window = decode(data, header, box)
        y, x = slice(box.y, box.y + box.height), slice(box.x, box.x + box.width)
        assert np.array_equal(window, whole[y, x])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_exif_orientation_is_applied(kind, orientation):
    options = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}.get(kind, {})
    data = encode(turned(marked(64, 40), orientation), kind, exif=exif(orientation), **options)
    header = probe(data, LIMIT)
    assert (header.width, header.height) == (64, 40)
    found = decode(data, header, Box(0, 0, 64, 40))
    assert difference(found[:12, :12], marked()[:12, :12]) <= 6
    assert difference(found, marked()) <= (90 if kind == "JPEG" else 0)


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("size", [2, 4], ids=["short", "long"])
def test_exif_orientation_in_either_byte_order_and_size(order, size):
    """The tag is a SHORT by the standard; some programs write a LONG, and Pillow reads both."""

    def number(value, length):
        return value.to_bytes(length, order)

    tiff = {"little": b"II", "big": b"MM"}[order] + number(42, 2) + number(8, 4)
    entry = number(0x0112, 2) + number({2: 3, 4: 4}[size], 2) + number(1, 4)
    entry += (number(6, size) + b"\0\0")[:4]
    block = b"Exif\0\0" + tiff + number(1, 2) + entry + number(0, 4)
    data = encode(scene(64, 48), exif=block)
    assert by_pillow(data).shape == (64, 48, 3)
    assert picture(data).shape == (64, 48, 3)


@pytest.mark.parametrize(
    "block",
    [b"", b"II", b"II*\0", b"MM\0*\xff\xff\xff\xff", b"II*\0\x08\0\0\0\xff\xff" + b"\x12\x01" * 9]
    + [np.random.default_rng(seed).bytes(60) for seed in range(4)],
    ids=range(9),
)
def test_damaged_exif_never_costs_a_picture(block):
    for kind, options in (("JPEG", {}), ("PNG", {}), ("WEBP", {"lossless": True})):
        data = encode(scene(), kind, exif=b"Exif\0\0" + block, **options)
        assert picture(data).shape == (48, 64, 3)


@pytest.mark.parametrize("by_hand", [True, False], ids=["16-bit PNG", "32-bit TIFF"])
def test_sixteen_bits_are_scaled_and_not_cut(by_hand):
    levels = np.arange(0, 65536, 64, dtype=np.int64)
    if by_hand:
        data = pictures.png(1024, 2, [levels.astype(">u2").tobytes()] * 2, 0, 16)
    else:
        data = encode(Image.fromarray(np.stack([levels] * 2).astype(np.int32)), "TIFF")
    found = picture(data)
    assert abs(found.mean() - 127.5) < 1
    assert difference(found[0, :, 0], np.round(levels / 257)) <= 1


def test_levels_outside_of_sixteen_bits_are_refused_with_their_range():
    data = encode(Image.fromarray(np.full((4, 4), 70_000, np.int32)), "TIFF")
    with pytest.raises(BadSample, match="levels from 70000 to 70000, expected 0 to 65535"):
        picture(data)


def test_floating_point_is_refused():
    data = encode(Image.fromarray(np.zeros((4, 4), np.float32)), "TIFF")
    with pytest.raises(BadSample, match="floating point"):
        picture(data)


def test_what_is_transparent_shows_the_background():
    noise = np.random.default_rng(0).integers(0, 255, (32, 32, 4)).astype(np.uint8)
    noise[:, :16, 3], noise[:, 16:, 3] = 0, 255
    found = picture(encode(noise, "PNG"))
    assert (found[:, :16] == 255).all()
    assert np.array_equal(found[:, 16:], noise[:, 16:, :3])
    half = np.full((8, 8, 4), 128, np.uint8)
    assert difference(picture(encode(half, "PNG")), np.full((8, 8, 3), 191)) <= 1


def test_transparency_of_palette_grey_and_colour_key():
    palette = Image.fromarray(scene()).quantize(16)
    palette.putpixel((0, 0), 3)
    assert (picture(encode(palette, "PNG", transparency=3))[0, 0] == 255).all()
    grey = np.full((8, 8), 40, np.uint8)
    assert (picture(encode(grey, "PNG", transparency=40)) == 255).all()
    colour = np.full((8, 8, 3), 7, np.uint8)
    assert (picture(encode(colour, "PNG", transparency=(7, 7, 7))) == 255).all()
    mask = Image.fromarray(np.where(np.eye(8), 255, 0).astype(np.uint8))
    found = picture(encode(Image.merge("LA", (Image.fromarray(grey), mask)), "PNG"))
    assert (found[0, 0] == 40).all()
    assert (found[0, 1] == 255).all()


def test_bilevel_and_grey_are_three_equal_channels():
    bits = Image.fromarray(scene()).convert("1")
    found = picture(encode(bits, "PNG"))
    assert set(np.unique(found)) == {0, 255}
    assert np.array_equal(found[:, :, 0], np.asarray(bits) * 255)
    for kind in ("PNG", "BMP", "TIFF", "PPM"):
        grey = picture(encode(scene()[:, :, 1], kind))
        assert (grey == scene()[:, :, 1:2]).all()


@pytest.mark.parametrize("adobe", [True, False])
def test_cmyk_with_and_without_the_marker_of_adobe(adobe):
    pixels = pictures.tinted((54, 100, 189))
    ink = np.concatenate([255 - pixels, np.zeros((48, 64, 1), np.uint8)], axis=2)
    stored = ink if adobe else 255 - ink
    data = encode(Image.frombytes("CMYK", (64, 48), stored.tobytes()), quality=95)
    if not adobe:
        start = data.index(b"\xff\xee")
        data = data[:start] + data[start + 16 :]
    found = picture(data)
    assert np.abs(found.mean((0, 1)) - pixels.mean((0, 1))).max() < 4


def test_an_animation_gives_its_first_frame():
    frames = [Image.fromarray(np.full((8, 8), level, np.uint8)) for level in (10, 200, 90)]
    for kind in ("GIF", "WEBP", "PNG"):
        options = {"lossless": True} if kind == "WEBP" else {}
        data = encode(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert difference(picture(data), np.full((8, 8, 3), 10)) <= 1


def test_the_content_decides_and_nothing_else():
    for kind in ("PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM"):
        assert picture(encode(scene(), kind)).shape == (48, 64, 3)


@pytest.fixture
def undecodable(monkeypatch):
    """Fail as soon as Pillow decodes a pixel."""
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda *_: pytest.fail("probe decodes"))


def test_too_many_pixels_are_refused_before_any_is_decoded(undecodable):
    """A picture of 2.5 gigapixels, and one that is whole and costs 64 MB from 62 kB."""
    for side, rows in ((50_000, 2), (8000, 8000)):
        data = pictures.png(side, side, [b"\0" * side] * rows)
        with pytest.raises(BadSample, match=rf"{side} x {side} pixels .*data\.max_pixels=1000000"):
            probe(data, 1_000_000)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"])
def test_probe_reads_the_header_alone(kind, undecodable):
    """Or every picture would be decoded twice."""
    header = probe(encode(scene(), kind), LIMIT)
    assert (header.width, header.height) == (64, 48)


def test_the_limit_of_pixels_is_inclusive():
    data = encode(scene(64, 48))
    assert probe(data, 64 * 48).width == 64
    with pytest.raises(BadSample, match="64 x 48"):
        probe(data, 64 * 48 - 1)
