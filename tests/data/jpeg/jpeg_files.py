"""JPEG files of every kind that the transcoder must know, most of them made by hand from others."""

import io

import numpy as np
import pictures
import simplejpeg
from PIL import Image, ImageFile

from train.data.jpeg import coefficients, entropy, markers, tables
from train.data.jpeg.coefficients import Plane
from train.data.jpeg.markers import segment

ImageFile.MAXBLOCK = 1 << 20  # Pillow's memory for a file of few pixels is too small for its tables

SAMPLINGS = ("444", "422", "420", "440", "411", "Gray")
SIZES = [(1, 1), (7, 9), (16, 16), (17, 33), (2, 70), (130, 3), (8 * 13, 41), (16 * 23 - 5, 50)]
"""Among them widths whose number of MCUs is prime, and widths that end within an MCU."""


def encode(pixels, quality, sampling):
    """A baseline JPEG in one of SAMPLINGS."""
    grey = sampling == "Gray"
    return simplejpeg.encode_jpeg(
        np.ascontiguousarray(pixels[:, :, :1] if grey else pixels),
        quality,
        colorspace="GRAY" if grey else "RGB",
        colorsubsampling=sampling,
    )


def kinds(width, height):
    """Name -> file, all of one size."""
    pixels = pictures.scene(width, height, seed=width + height)
    noise = np.random.default_rng(width).integers(0, 256, (height, width, 3)).astype(np.uint8)
    files = {}
    for sampling in SAMPLINGS:
        files[f"{sampling} q100"] = encode(noise, 100, sampling)
        files[f"{sampling} q75"] = encode(pixels, 75, sampling)
        files[f"{sampling} q1"] = encode(pixels, 1, sampling)
    files["flat"] = encode(np.full_like(pixels, 77), 90, "420")
    for name, options in {
        "optimised": {"optimize": True},
        "progressive": {"progressive": True},
        "restarts": {"restart_marker_blocks": 3},
        "progressive, restarts": {"progressive": True, "restart_marker_blocks": 2},
    }.items():
        for subsampling in (0, 2):
            data = pictures.encode(pixels, quality=90, subsampling=subsampling, **options)
            files[f"{name} {subsampling}"] = data
    files["grey progressive"] = pictures.encode(noise[:, :, 0], progressive=True)
    return files


def odd_kinds():
    """Name -> file: legal, but written by few encoders."""
    pixels = pictures.scene(53, 37)
    full, half = encode(pixels, 80, "444"), encode(pixels, 80, "420")
    grey = encode(pixels, 80, "Gray")
    odd_grey = replace_factors(grey, [0x22])
    return {
        "grey, factors 2 x 2": odd_grey,
        "grey, factors 4 x 1": replace_factors(grey, [0x41]),
        "one scan a plane": in_separate_scans(full),
        "one scan a plane, colour halved": in_separate_scans(half),
        "one scan a plane, factors 2 x 2 for all": replace_factors(
            in_separate_scans(full), [0x22] * 3
        ),
        "16-bit quantisers": with_wide_quantisers(half),
        "RGB by Adobe's marker": without(full, markers.APP0, b"Adobe\0d\0\0\0\0\0"),
        "RGB by names": renamed(without(full, markers.APP0), b"RGB"),
        "YCbCr by Adobe's marker": renamed(
            without(full, markers.APP0, b"Adobe\0d\0\0\0\0\1"), b"RGB"
        ),
        "YCbCr by JFIF": renamed(full, b"RGB"),
        "fill bytes": full.replace(b"\xff\xda", b"\xff\xff\xff\xda"),
        "bytes after the end": full + b"\0" * 99,
        "two tables in a segment": pictures.encode(pixels, optimize=True, quality=60),
    }


def segments(data):
    """(marker, payload start, payload end) up to the first scan's header."""
    position, found = 2, []
    while not found or found[-1][0] != markers.SOS:
        found.append(markers.next_segment(data, position))
        position = found[-1][2]
    return found


def place(data, *wanted):
    """The payload of the first segment with one of these markers: (start, end)."""
    return next((start, end) for marker, start, end in segments(data) if marker in wanted)


def replace_factors(data, factors):
    data = bytearray(data)
    start, _ = place(data, 0xC0, 0xC1, 0xC2)
    for number, factor in enumerate(factors):
        data[start + 7 + 3 * number] = factor
    return bytes(data)


def renamed(data, names):
    """Other identifiers for the components, in SOF and the first SOS."""
    data = bytearray(data)
    frame, scan = place(data, 0xC0)[0], place(data, markers.SOS)[0]
    for number, name in enumerate(names):
        data[frame + 6 + 3 * number] = data[scan + 1 + 2 * number] = name
    return bytes(data)


def without(data, marker, adobe=b""):
    """Take a segment out; put APP14 there instead."""
    start, end = place(data, marker)
    return data[: start - 4] + (segment(markers.APP14, adobe) if adobe else b"") + data[end:]


def with_wide_quantisers(data):
    """Every DQT with 16 bits a value, and one value too large for 8."""
    pieces, position = [data[:2]], 2
    for marker, start, end in segments(data):
        payload = data[start:end]
        if marker == markers.DQT:
            found = {}
            markers.read_quantisers(payload, found)
            payload = b""
            for number, table in found.items():
                table = table.copy()
                table[63] = 1000
                payload += bytes([0x10 | number]) + table.astype(">u2").tobytes()
        pieces.append(segment(0xC1 if marker == 0xC0 else marker, payload))
        position = end
    return b"".join(pieces) + data[position:]


def in_separate_scans(data):
    """A baseline file in which each plane has a scan of its own."""
    picture = coefficients.decode(data)
    most_h, most_v = (max(p.h for p in picture.planes), max(p.v for p in picture.planes))
    start, end = place(data, 0xC0)
    found = [data[: place(data, markers.DQT)[0] - 4]]
    quantisers = b"".join(
        bytes([number]) + plane.quantiser.astype(np.uint8).tobytes()
        for number, plane in enumerate(picture.planes)
    )
    frame = bytearray(data[start:end])
    for number in range(len(picture.planes)):
        frame[8 + 3 * number] = number
    found += [segment(markers.DQT, quantisers), segment(0xC0, bytes(frame))]
    for number, plane in enumerate(picture.planes):
        alone = picture._replace(
            width=-(-picture.width * plane.h // most_h),
            height=-(-picture.height * plane.v // most_v),
            planes=(Plane(1, 1, *plane[2:]),),
        )
        coded = entropy.encode(alone, 8)
        written = tables.write(alone, coded, -(-alone.width // 8)).data
        _, head, _ = markers.next_segment(written, written.index(b"\xff\xc4"))
        scan = bytearray(written[head - 4 :])
        scan[scan.index(b"\xff\xda") + 5] = frame[6 + 3 * number]
        found += [bytes(scan), coded.bits]
    return b"".join(found) + b"\xff\xd9"


def pillow(data):
    """What Pillow makes of a file: (mode, pixels)."""
    image = Image.open(io.BytesIO(data))
    return image.mode, np.asarray(image)


def opened(data):
    """The file, opened by Pillow."""
    return Image.open(io.BytesIO(data))
