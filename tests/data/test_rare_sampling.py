"""JPEGs of rare but legal sampling factors: whole and exact, or refused; never half a picture."""

import io
import struct

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from train.data.augment import Box
from train.data.decode import decode, describe, probe
from train.data.rare_sampling import is_rare
from train.errors import BadSample

LIMIT = 10_000_000
RARE = [(0x22, 0x21, 0x12), (0x22, 0x22, 0x11), (0x31, 0x11, 0x11), (0x24, 0x11, 0x11)]
GREYS = np.random.default_rng(5).integers(-100, 100, (12, 12))


def segment(marker, payload):
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def coded(value):
    """A DC difference by a table of twelve codes of four bits, and the end of the block."""
    size = int(abs(value)).bit_length()
    low = value if value >= 0 else value + (1 << size) - 1
    return f"{size:04b}" + (f"{low:0{size}b}" if size else "") + "0"


def jpeg(factors, across=3, down=2):
    """A file of so many MCUs: each block of luma of one grey, no colour. -> bytes, the picture."""
    sizes = [(f >> 4, f & 15) for f in factors]
    most = max(h for h, _ in sizes), max(v for _, v in sizes)
    assert sizes[0] == most, "luma in full resolution: its pixels are known exactly"
    greys = GREYS[: down * most[1], : across * most[0]]
    bits, before = "", 0
    for row in range(down):
        for column in range(across):
            for number, (h, v) in enumerate(sizes):
                for y in range(v):
                    for x in range(h):
                        if number:
                            bits += coded(0)
                            continue
                        grey = int(greys[row * v + y, column * h + x])
                        bits, before = bits + coded(grey - before), grey
    bits += "1" * (-len(bits) % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    picture = np.kron(128 + greys, np.ones((8, 8), int))
    frame = struct.pack(">BHHB", 8, *picture.shape, 3)
    frame += b"".join(bytes([n + 1, f, 0]) for n, f in enumerate(factors))
    head = segment(0xDB, bytes([0]) + bytes([8] * 64)) + segment(0xC0, frame)
    head += segment(0xC4, bytes([0x00, 0, 0, 0, 12]) + bytes(12) + bytes(range(12)))
    head += segment(0xC4, bytes([0x10, 1]) + bytes(15) + bytes([0]))
    head += segment(0xDA, bytes([3, 1, 0, 2, 0, 3, 0, 0, 63, 0]))
    return b"\xff\xd8" + head + scan + b"\xff\xd9", np.stack([picture] * 3, axis=2)


def picture(data):
    header = probe(data, LIMIT)
    return decode(data, header, Box(0, 0, header.width, header.height))


@pytest.mark.parametrize("factors", RARE)
def test_rare_factors_are_decoded_exactly(factors):
    data, expected = jpeg(factors)
    with pytest.raises(ValueError, match="subsampling"):
        simplejpeg.decode_jpeg(data)
    assert probe(data, LIMIT).kind == "pillow"
    assert np.array_equal(picture(data), expected)
    assert np.array_equal(picture(data), np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))
    assert describe(data) == "JPEG: Pillow decodes it"


def test_usual_factors_stay_with_the_faster_way():
    for factors in ((0x11, 0x11, 0x11), (0x21, 0x11, 0x11), (0x22, 0x11, 0x11), (0x22, 0x21, 0x21)):
        data, expected = jpeg(factors)
        assert probe(data, LIMIT).kind == "jpeg"
        assert np.array_equal(picture(data), expected)
    assert not is_rare(b"\x08\0\x10\0\x10\x01\x01\x41\0")  # of one component they mean nothing


@pytest.mark.parametrize("factors", RARE)
def test_half_of_it_is_no_picture(factors):
    data, _ = jpeg(factors)
    start = data.index(b"\xff\xda") + 14
    for cut in (start + 1, (start + len(data)) // 2, len(data) - 4):
        for end in (b"", b"\xff\xd9"):
            with pytest.raises(BadSample, match="damaged"):
                picture(data[:cut] + end)
