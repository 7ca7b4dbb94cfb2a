"""What is no sound JPEG of a kind that we know is refused, with the reason."""

import jpeg_files
import numpy as np
import pictures
import pytest

from train.data.jpeg import coefficients, markers, windows
from train.data.jpeg.markers import Unsupported
from train.errors import BadSample


def test_blocks_beyond_the_picture_are_flat_where_the_file_has_none():
    picture = coefficients.decode(jpeg_files.odd_kinds()["one scan a plane, colour halved"])
    luma = picture.plane(0)  # 53 x 37 pixels: 7 x 5 blocks in 4 x 3 MCUs of 2 x 2
    assert luma.shape == (6, 8, 64)
    assert not luma[5, :, 1:].any()
    assert not luma[:, 7, 1:].any()
    assert np.array_equal(luma[:5, 7, 0], luma[:5, 6, 0])


def patched(data, marker, at, value):
    start, _ = jpeg_files.place(data, marker)
    return data[: start + at] + bytes([value]) + data[start + at + 1 :]


def of_another_kind():
    pixels = pictures.scene(40, 24)
    plain = jpeg_files.encode(pixels, 80, "420")
    progressive = pictures.encode(pixels, progressive=True)
    sof = plain.index(b"\xff\xc0") + 1
    return {
        "lossless JPEG": plain[:sof] + b"\xc3" + plain[sof + 1 :],
        "hierarchical JPEG": plain[:sof] + b"\xc5" + plain[sof + 1 :],
        "arithmetic coding": plain[:sof] + b"\xc9" + plain[sof + 1 :],
        "12 bits a sample": patched(plain, 0xC0, 0, 12),
        r"4 components \(CMYK\)": pictures.encode(
            jpeg_files.Image.fromarray(pixels).convert("CMYK")
        ),
        "height after its pixels": patched(patched(plain, 0xC0, 1, 0), 0xC0, 2, 0),
        "without all of its scans": progressive[: progressive.rindex(b"\xff\xda")] + b"\xff\xd9",
        "odd scan header": patched(plain, markers.SOS, 8, 0),
        "two components of one name": patched(plain, 0xC0, 9, plain[sof + 9]),
        "bytes between its segments": plain.replace(b"\xff\xda", b"junk\xff\xda"),
        "bytes between its pixels and the next": plain[:-2] + b"\0\0\xff\xd9",
    }


@pytest.mark.parametrize("reason", of_another_kind())
def test_other_kinds_are_named(reason):
    with pytest.raises(Unsupported, match=reason):
        coefficients.decode(of_another_kind()[reason])


WHOLE = jpeg_files.encode(pictures.scene(64, 48), 85, "420")
RESTARTS = windows.pack(jpeg_files.encode(pictures.scene(64, 48), 85, "444"))  # one a row
SOF = WHOLE.index(b"\xff\xc0")

DAMAGED = {
    "empty": (b"", "no JPEG"),
    "a page": (b"<html>", "no JPEG .*begins with b'<html>'"),
    "no end marker": (WHOLE[:-2], "without an end marker"),
    "half": (WHOLE[: len(WHOLE) // 2], "without an end marker"),
    "half with end": (WHOLE[: len(WHOLE) // 2] + b"\xff\xd9", "the data ends early"),
    "no scan": (WHOLE[: WHOLE.index(b"\xff\xda")] + b"\xff\xd9", "no scan"),
    "in a segment": (WHOLE[: SOF + 8], "claims 17 bytes"),
    "twice a frame": (WHOLE[:SOF] + WHOLE[SOF : SOF + 19] + WHOLE[SOF:], "two frame headers"),
    "higher than it is": (patched(WHOLE, 0xC0, 2, 64), "the data ends early"),
    "huge": (
        WHOLE[: SOF + 5] + b"\xff\xff\xff\xff" + WHOLE[SOF + 9 :],
        "65535 x 65535 pixels in",
    ),
    "no width": (WHOLE[: SOF + 7] + b"\0\0" + WHOLE[SOF + 9 :], "width 0"),
    "no Huffman tables": (WHOLE.replace(b"\xff\xc4", b"\xff\xe5"), "no code of the Huffman table"),
    "no quantisers": (WHOLE.replace(b"\xff\xdb", b"\xff\xe5"), "quantisation table is missing"),
    "a restart lost": (RESTARTS.replace(b"\xff\xd1", b"\xff\x00", 1), "restart marker is missing"),
    "restarts swapped": (
        RESTARTS.replace(b"\xff\xd1", b"\xff\xd2", 1),
        "restart marker is missing",
    ),
    "restarts unannounced": (RESTARTS.replace(b"\xff\xdd", b"\xff\xe5"), "restart marker"),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_damage_is_named(data, reason):
    with pytest.raises(BadSample, match=reason):
        coefficients.decode(data)


def test_a_file_cannot_make_us_decode_for_ever():
    """Thousands of scans, each a few bytes long and over the whole picture."""
    data = pictures.encode(pictures.scene(64, 48), progressive=True)
    last = data.rindex(b"\xff\xda")
    with pytest.raises((BadSample, Unsupported)):
        coefficients.decode(data[:-2] + data[last:-2] * 5000 + b"\xff\xd9")
