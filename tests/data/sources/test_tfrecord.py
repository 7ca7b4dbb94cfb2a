"""TFRecord files: every checksum counts, and nobody's numbers are believed."""

import os
import pickle
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tar_files import contents, image

from train.data.sources import handles
from train.data.sources.crc32c import TABLES, crc32c, masked
from train.data.sources.example import Features, Malformed, Span, example, locate
from train.data.sources.tfrecord import encode_record, open_tfrecord
from train.errors import BadSample, DataError

FUZZ = 300
NAMES = tuple(Features())


def frame(message):
    """A message as a record."""
    length = struct.pack("<Q", len(message))
    parts = length, struct.pack("<I", masked(length)), message, struct.pack("<I", masked(message))
    return b"".join(parts)


def write(path, *records):
    path.write_bytes(b"".join(records))
    return str(path)


def records(count):
    return [encode_record(image(n), n % 3, b"cat/%d.jpg" % n) for n in range(count)]


def find(message):
    return locate(lambda at, size: message[at : at + size], Span(0, len(message)), NAMES)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_checksums_are_those_of_rfc_3720(data, expected):
    assert crc32c(data) == expected


def test_all_ways_to_a_checksum_give_the_same():
    from train.data.kernels import kernel
    from train.data.sources import crc32c_kernels

    by_tables = kernel(crc32c_kernels.SIGNATURE)(crc32c_kernels.by_tables)
    data = np.random.default_rng(0).bytes(5000)
    for start in range(9):
        for size in (17, 18, 100, 4001):
            view = memoryview(data)[start : start + size]
            expected = 0xFFFFFFFF
            for byte in view:
                expected = int(TABLES[0, (expected ^ byte) & 255]) ^ (expected >> 8)
            assert crc32c(view) == expected ^ 0xFFFFFFFF
            array = np.frombuffer(bytes(view), dtype=np.uint8)
            words = array[: size // 8 * 8].view("<u8")
            assert by_tables(array, words, TABLES) == expected ^ 0xFFFFFFFF


def test_records_are_read_in_the_order_of_the_files(tmp_path):
    told = []
    paths = [
        write(
            tmp_path / f"{name}.tfrecord",
            *(encode_record(b"%d" % n, n, b"%s%d" % (name.encode(), n)) for n in range(1000)),
        )
        for name in "ba"
    ]
    opened = open_tfrecord(paths, 1000, told.append)
    assert (opened.skipped, opened.notes) == ([], [])
    assert told == [1000, 2000]
    found = contents(opened.source)
    assert list(found)[:2] == ["a0", "a1"]
    assert found["b7"] == (7, b"7")
    assert len(pickle.dumps(opened.source)) < 1500
    assert contents(pickle.loads(pickle.dumps(opened.source))) == found
    with pytest.raises(IndexError):
        opened.source[2000]


def test_keys_of_any_bytes_and_records_without_a_key(tmp_path):
    nameless = frame(example({"image/encoded": b"x", "image/class/label": 1}))
    path = write(tmp_path / "a.tfrecord", encode_record(b"y", 0, b"caf\xe9/1.jpg"), nameless)
    source = open_tfrecord([path]).source
    assert source.key(0).encode("utf-8", "surrogateescape") == b"caf\xe9/1.jpg"
    assert source.key(1) == "a.tfrecord:00000001"


def test_features_may_be_called_otherwise_and_classes_count_from_one(tmp_path):
    message = example({"png": b"picture", "class": 1, "name": b"k"})
    path = write(tmp_path / "a.tfrecord", frame(message))
    assert len(open_tfrecord([path], 3).source) == 0
    names = Features("png", "class", "name")
    assert contents(open_tfrecord([path], 3, features=names).source) == {"k": (1, b"picture")}
    source = open_tfrecord([path], 3, features=names, first_label=1).source
    assert contents(source) == {"k": (0, b"picture")}


def test_a_damaged_message_is_a_bad_sample_that_says_where(tmp_path):
    good = records(3)
    bad = bytearray(good[1])
    bad[-10] ^= 1
    path = write(tmp_path / "a.tfrecord", good[0], bytes(bad), good[2])
    source = open_tfrecord([path]).source
    assert bytes(source[0].data) == image(0)
    assert bytes(source[2].data) == image(2)
    with pytest.raises(BadSample, match=rf"checksum.*byte {len(good[0]):,} of .*a\.tfrecord"):
        source[1]


def test_a_damaged_length_ends_the_file_with_its_place(tmp_path):
    good = records(4)
    bad = bytearray(good[2])
    bad[0] ^= 1
    path = write(tmp_path / "a.tfrecord", good[0], good[1], bytes(bad), good[3])
    opened = open_tfrecord([path])
    assert len(opened.source) == 2
    place = len(good[0]) + len(good[1])
    assert "a.tfrecord" in opened.notes[0]
    assert f"byte {place:,}" in opened.notes[0]
    assert "record 2" in opened.notes[0]


def test_a_cut_file_and_a_length_of_a_terabyte_end_with_a_warning(tmp_path):
    good = records(3)
    for cut in (1, 5, 13, len(good[2]) - 1):
        path = write(tmp_path / f"{cut}.tfrecord", *good[:2], good[2][:cut])
        opened = open_tfrecord([path])
        assert len(contents(opened.source)) == 2
        assert "cut off" in opened.notes[0]
    length = struct.pack("<Q", 1 << 40)
    huge = length + struct.pack("<I", masked(length)) + b"xx"
    opened = open_tfrecord([write(tmp_path / "huge.tfrecord", good[0], huge)])
    assert len(opened.source) == 1
    assert "1,099,511,627,776 bytes" in opened.notes[0]


def test_what_is_no_tfrecord_file_is_refused_and_an_empty_one_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.tfrecord' is no TFRecord file"):
        open_tfrecord([write(tmp_path / "a.tfrecord", b"<html>" * 10)])
    with pytest.raises(DataError, match="compressed"):
        open_tfrecord([write(tmp_path / "b.tfrecord", b"\x1f\x8b" + bytes(50))])
    opened = open_tfrecord([write(tmp_path / "c.tfrecord")])
    assert len(opened.source) == 0
    assert "0 bytes" in opened.notes[0]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (example({"image/encoded": b"x"}), "no_label"),
        (example({"image/encoded": b"x", "image/class/label": b"cat"}), "no_label"),
        (example({"image/encoded": b"x", "image/class/label": 3}), "bad_label"),
        (example({"image/encoded": b"x", "image/class/label": -1}), "bad_label"),
        (example({"image/encoded": b"x", "image/class/label": (1 << 63) - 1}), "bad_label"),
        (example({"image/class/label": 1}), "no_image"),
        (b"", "no_image"),
        (b"\x0f", "damaged"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "damaged"),
        (b"\xff" * 30, "damaged"),
        (b"\x08\x01" * 20_000, "damaged"),
    ],
)
def test_records_that_lack_something_are_skipped_by_number(tmp_path, message, reason):
    path = write(tmp_path / "a.tfrecord", records(1)[0], frame(message), records(2)[1])
    opened = open_tfrecord([path], 3)
    assert len(contents(opened.source)) == 2
    [item] = opened.skipped
    assert (item.key, item.reason) == ("a.tfrecord:00000001", reason)


def test_the_parser_takes_what_other_writers_write():
    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value

    unpacked = field(3, b"\x08\x07\x08\x09")  # two numbers with a tag each
    entry = field(1, b"image/class/label") + field(2, unpacked)
    swapped = field(2, field(1, field(1, b"bytes"))) + field(1, b"image/encoded")
    unknown = b"\x79" + bytes(8) + b"\x7d" + bytes(4) + b"\x78\xff\xff\x03" + field(15, b"zz")
    message = field(1, field(1, entry) + unknown) + unknown + field(1, field(1, swapped))
    found = find(message)
    assert found["image/class/label"] == 7
    assert message[slice(*found["image/encoded"])] == b"bytes"
    floats = field(
        1, field(1, field(1, b"image/class/label") + field(2, field(2, field(1, bytes(4)))))
    )
    assert find(floats) == {}


@given(st.binary(max_size=60), st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=300))
@settings(deadline=None)
def test_an_example_comes_back(key, label, data):
    message = example({"image/filename": key, "image/class/label": label, "image/encoded": data})
    found = find(message)
    assert found["image/class/label"] == label
    assert message[slice(*found["image/encoded"])] == data
    assert message[slice(*found["image/filename"])] == key


@given(st.binary(max_size=80))
@settings(deadline=None)
def test_any_bytes_are_parsed_or_refused(data):
    try:
        find(data)
    except Malformed:
        pass


def test_the_package_tfrecord_reads_ours_and_we_read_its(tmp_path):
    reader = pytest.importorskip("tfrecord.reader", reason="the package tfrecord is missing")
    from tfrecord.writer import TFRecordWriter

    path = write(tmp_path / "a.tfrecord", *records(3))
    description = {"image/encoded": "byte", "image/class/label": "int", "image/filename": "byte"}
    found = list(reader.tfrecord_loader(path, None, description))
    assert [int(item["image/class/label"][0]) for item in found] == [0, 1, 2]
    assert [bytes(item["image/encoded"]) for item in found] == [image(n) for n in range(3)]
    writer = TFRecordWriter(str(tmp_path / "b.tfrecord"))
    for number in range(3):
        writer.write(
            {
                "image/width": (16, "int"),
                "image/filename": (b"%d.jpg" % number, "byte"),
                "image/scores": ([0.5, 1.5], "float"),
                "image/encoded": (image(number), "byte"),
                "image/class/label": (number, "int"),
            }
        )
    writer.close()
    opened = open_tfrecord([str(tmp_path / "b.tfrecord")], 3)
    assert contents(opened.source) == {f"{n}.jpg": (n, image(n)) for n in range(3)}


def test_damage_never_crashes_hangs_or_takes_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    good = b"".join(encode_record(b"image" * 9, n, b"key%d" % n) for n in range(4))
    draw = random.Random(0)
    path = tmp_path / "a.tfrecord"
    for number in range(FUZZ):
        data = bytearray(good)
        if number % 4 == 0:
            del data[draw.randrange(1, len(data)) :]
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        if number % 2:  # right checksums over wrong lengths and messages
            position = 0
            while position + 12 <= len(data):
                data[position + 8 : position + 12] = struct.pack(
                    "<I", masked(data[position : position + 8])
                )
                length = int.from_bytes(data[position : position + 8], "little")
                end = position + 12 + length
                if end + 4 <= len(data):
                    data[end : end + 4] = struct.pack(
                        "<I", masked(bytes(data[position + 12 : end]))
                    )
                position = end + 4
        path.write_bytes(data)
        handles.close_all()  # the file of the round before
        try:
            source = open_tfrecord([str(path)]).source
        except DataError:
            continue
        for index in range(len(source)):
            try:
                assert len(source[index].data) <= len(data)
            except BadSample:
                pass
