"""Damaged files: the picture or BadSample with a reason; never half a picture or a traceback."""

import os
import stat

import numpy as np
import pictures
import pytest
import simplejpeg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pictures import encode, scene
from PIL import Image

from train.data.augment import Box
from train.data.decode import BadSample, decode, probe

LIMIT = 10_000_000
WHOLE = encode(scene(64, 48), quality=85, subsampling=2)
RESTARTS = encode(scene(96, 64, 3), quality=85, restart_marker_blocks=2)
SMALL = {
    "baseline": encode(scene(24, 17), quality=80),
    "progressive": encode(scene(24, 17), quality=80, progressive=True),
    "grey": encode(scene(24, 17)[:, :, 0], exif=pictures.exif(6)),
    "cmyk": encode(Image.fromarray(scene(24, 17)).convert("CMYK")),
    "png": encode(scene(24, 17), "PNG"),
    "png16": pictures.png(8, 4, [np.arange(8).astype(">u2").tobytes()] * 4, 0, 16),
    "gif": encode(scene(24, 17), "GIF"),
    "tiff": encode(scene(24, 17), "TIFF"),
    "webp": encode(scene(24, 17), "WEBP"),
    "bmp": encode(scene(24, 17), "BMP"),
}


def picture(data, limit=LIMIT):
    header = probe(data, limit)
    pixels = decode(data, header, Box(0, 0, header.width, header.height))
    assert pixels.dtype == np.uint8
    assert pixels.shape == (header.height, header.width, 3)
    return pixels


def outcome(data):
    """'picture', or the reason why there is none; any other exception fails the test."""
    try:
        picture(data)
    except BadSample as error:
        return str(error)
    return "picture"


NO_PICTURE = {
    "empty": (b"", "the file is empty"),
    "one byte": (b"\xff", "no image format"),
    "two bytes": (b"\xff\xd8", "no image format|damaged"),
    "three bytes": (b"\xff\xd8\xff", "no image format|damaged"),
    "a page": (b"<html>404</html>", "no image format .* begins with b'<html>40'"),
    "noise": (np.random.default_rng(0).bytes(4096), "no image format"),
    "header": (WHOLE[:20], "no image format|damaged"),
    "no end marker": (WHOLE[:-2], "damaged JPEG .*[Pp]remature end"),
    "half": (WHOLE[: len(WHOLE) // 2], "damaged JPEG of .* bytes"),
    "half with end": (WHOLE[: len(WHOLE) // 2] + b"\xff\xd9", "damaged JPEG of .* bytes"),
    "half a png": (SMALL["png"][:-40], "damaged PNG|truncated"),
    "progressive": (SMALL["progressive"][:-60], "damaged JPEG"),
    "webp": (SMALL["webp"][:-60], "damaged|no image format"),
    "tiff": (SMALL["tiff"][:-200], "damaged"),
}


@pytest.mark.parametrize(("data", "reason"), NO_PICTURE.values(), ids=NO_PICTURE)
def test_what_is_no_whole_picture_is_bad_with_its_reason(data, reason):
    with pytest.raises(BadSample, match=reason):
        picture(data)


def test_bytes_after_the_end_and_padding_before_it_lose_nothing():
    whole = picture(WHOLE)
    assert np.array_equal(picture(WHOLE + b"\0" * 999), whole)
    assert np.array_equal(picture(WHOLE[:-2] + b"\0\0\0\0" + WHOLE[-2:]), whole)


@pytest.mark.parametrize(
    "marker", [b"\xff\xc4", b"\xff\xda", b"\xff\xdb"], ids=["DHT", "SOS", "DQT"]
)
def test_rubbish_between_two_segments_is_a_picture_or_a_reason(marker):
    at = WHOLE.index(marker)
    result = outcome(WHOLE[:at] + b"junk" + WHOLE[at:])
    assert result == "picture" or "damaged" in result or "no image format" in result


def test_a_scan_that_is_damaged_between_restart_markers_is_no_picture():
    """libjpeg goes on at the next marker and reports the bytes that it skipped: a part is wrong."""
    start, missed = RESTARTS.index(b"\xff\xda") + 14, []
    for position in range(start, len(RESTARTS) - 2, 11):
        data = bytearray(RESTARTS)
        data[position] ^= 0x5A
        try:
            simplejpeg.decode_jpeg(bytes(data), strict=True)
        except ValueError as error:
            if "before marker 0xd9" not in str(error):  # at the very end it may be mere padding
                missed += [str(error)] if outcome(bytes(data)) == "picture" else []
    assert missed == []


@pytest.mark.parametrize("name", ["baseline", "progressive", "grey"])
def test_every_single_byte_of_a_jpeg_may_be_wrong(name):
    data, results = SMALL[name], set()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        results.add(outcome(bytes(damaged)))
    assert "" not in results
    assert len(results) > 3  # many different reasons, and often still a picture


@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_cut_is_a_picture_or_a_reason(name):
    data = SMALL[name]
    cuts = range(0, len(data), max(1, len(data) // 60))
    assert {outcome(data[:cut]) for cut in cuts} - {"picture"}


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    name=st.sampled_from(sorted(SMALL)),
    changes=st.lists(
        st.tuples(st.floats(0, 1), st.binary(max_size=4), st.integers(0, 4)), max_size=4
    ),
)
def test_any_mutation_is_a_picture_or_a_reason(name, changes):
    data = SMALL[name]
    for place, inserted, removed in changes:
        at = int(place * len(data))
        data = data[:at] + inserted + data[at + removed :]
    outcome(data)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from([b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"II*\0", b"BM", b"RIFF"]),
    st.binary(),
)
def test_any_bytes_after_a_known_beginning(magic, rest):
    outcome(magic + rest)


def test_a_jpeg_that_claims_to_be_huge_costs_no_memory():
    at = WHOLE.index(b"\xff\xc0")
    huge = WHOLE[: at + 5] + b"\xff\xff\xff\xff" + WHOLE[at + 9 :]
    with pytest.raises(BadSample, match=r"65535 x 65535 pixels .*data\.max_pixels"):
        probe(huge, LIMIT)


def test_a_picture_never_starts_a_program(tmp_path, monkeypatch):
    """Pillow hands PostScript to Ghostscript; bytes from a data set must not be run."""
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 16 16\n%%EndComments\nshowpage\n%%EOF\n"
    assert outcome(script) != "picture"
    assert not (tmp_path / "started").exists()
