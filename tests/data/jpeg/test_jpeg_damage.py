"""Damaged files: never a crash or a hang, and never pixels that libjpeg would not show."""

import random

import jpeg_files
import numpy as np
import pictures
import pytest
import simplejpeg

from train.data.jpeg import IDENTIFIER, windows
from train.data.jpeg.markers import Unsupported
from train.errors import BadSample

PIXELS = pictures.scene(72, 50, 3)
SOURCES = {
    "444": jpeg_files.encode(PIXELS, 80, "444"),
    "420": jpeg_files.encode(PIXELS, 90, "420"),
    "grey": jpeg_files.encode(PIXELS, 80, "Gray"),
    "restarts": pictures.encode(PIXELS, quality=85, restart_marker_blocks=2),
    "progressive": pictures.encode(PIXELS, quality=85, progressive=True),
    "progressive, restarts": pictures.encode(PIXELS, progressive=True, restart_marker_blocks=3),
}


def mutated(generator, data):
    """Some bits, bytes or stretches changed, taken out or put in; or the end cut off."""
    data = bytearray(data)
    for _ in range(generator.choice([1, 1, 1, 2, 4])):
        kind, at = generator.random(), generator.randrange(len(data))
        if kind < 0.6:
            data[at] ^= 1 << generator.randrange(8)
        elif kind < 0.7:
            data[at] = generator.choice([0x00, 0xFF, 0xD9, 0xD0, 0xDA, 0x01, 0x7F])
        elif kind < 0.8:
            del data[at : at + generator.randrange(1, 5)]
        elif kind < 0.9:
            data[at:at] = bytes(generator.randrange(256) for _ in range(generator.randrange(1, 4)))
        else:
            data = data[: at + 1] + (data[-2:] if generator.random() < 0.5 else b"")
    return bytes(data)


def strictly(data):
    """The pixels, or None where libjpeg-turbo complains at all."""
    try:
        return simplejpeg.decode_jpeg(data, "RGB", strict=True)
    except ValueError:
        return None


@pytest.mark.parametrize("name", SOURCES)
def test_a_damaged_source_is_refused_or_packed_as_it_looks(name):
    generator, results = random.Random(name), set()
    for _ in range(250):
        data = mutated(generator, SOURCES[name])
        try:
            packed = windows.pack(data, 16)
        except (BadSample, Unsupported) as error:
            results.add(type(error))
            continue
        before = strictly(data)
        if before is not None:
            assert np.array_equal(strictly(packed), before)
            results.add("packed")
    assert results == {BadSample, Unsupported, "packed"}


@pytest.mark.parametrize("name", ["444", "420", "grey"])
def test_every_byte_of_an_index_may_be_wrong(name):
    packed, results = windows.pack(SOURCES[name], 8), set()
    start = packed.index(IDENTIFIER)
    _, end = jpeg_files.place(packed, 0xE9)
    generator = random.Random(name)
    for at in [*range(start + 8, start + 70), *range(start + 70, end, 7)]:
        for value in (0, 255, packed[at] ^ 1 << generator.randrange(8)):
            data = packed[:at] + bytes([value]) + packed[at + 1 :]
            results.add(outcome(data, generator))
    assert {"window", "damaged index", "damaged JPEG"} <= results


@pytest.mark.parametrize("name", ["444", "420", "grey"])
def test_any_mutation_of_a_packed_file_is_a_window_or_a_reason(name):
    packed, generator = windows.pack(SOURCES[name], 8), random.Random(name)
    results = {outcome(mutated(generator, packed), generator) for _ in range(400)}
    assert {"window", "damaged JPEG"} <= results


def outcome(data, generator):
    try:
        layout = windows.parse(data)
        if layout is None:
            return "no index"
        w, h = generator.randint(1, layout.width), generator.randint(1, layout.height)
        x, y = generator.randint(0, layout.width - w), generator.randint(0, layout.height - h)
        strictly(windows.cut(data, layout, (x, y, w, h)).data)
    except BadSample as error:
        return str(error)[: len("damaged index")].strip()
    return "window"


@pytest.mark.parametrize("length", range(0, 700, 23))
def test_every_cut_of_a_packed_file(length):
    packed = windows.pack(SOURCES["420"], 8)
    data = packed[:length]
    try:
        layout = windows.parse(data)
    except BadSample:
        return
    if layout is not None:
        with pytest.raises(BadSample):
            windows.cut(data, layout, (30, 20, 10, 10))
