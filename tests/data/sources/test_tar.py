"""WebDataset tar shards: what makes a sample, what is left out by name, and exact random access."""

import io
import json
import os
import pickle
import random
import re
import shutil
import tarfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tar_files import contents, image, samples, write_tar

from train.data.sources.scanner import Scanner
from train.data.sources.skipped import describe_skipped
from train.data.sources.tar import open_tar, quote_key, unquote_key
from train.data.sources.tar_members import members
from train.data.sources.tar_samples import index_samples, split_name
from train.errors import BadSample, DataError

FUZZ = 300
FORMATS = {
    "ustar": tarfile.USTAR_FORMAT,
    "gnu": tarfile.GNU_FORMAT,
    "pax": tarfile.PAX_FORMAT,
}


def reasons(opened):
    return {item.key: item.reason for item in opened.skipped}


def test_samples_are_read_in_the_order_of_the_archive(tmp_path):
    parts = samples(5)
    opened = open_tar([write_tar(tmp_path / "a.tar", parts)], 3)
    assert (opened.skipped, opened.notes) == ([], [])
    assert list(contents(opened.source)) == [f"{number:06}" for number in range(5)]
    assert contents(opened.source)["000004"] == (1, parts[8][1])
    for index in (-1, 5):
        with pytest.raises(IndexError):
            opened.source[index]


def test_shards_are_one_source_in_the_order_of_their_names(tmp_path):
    told = []
    paths = [
        write_tar(tmp_path / f"train-{shard:06}.tar", [
            (f"{shard}_{name}", data) for name, data in samples(3, 10 * shard)
        ])
        for shard in (1, 0, 2)
    ]  # fmt: skip
    source = open_tar(paths, progress=told.append).source
    expected = [f"{shard}_{number:06}" for shard in range(3) for number in range(3)]
    assert list(contents(source)) == expected
    assert len(pickle.dumps(source)) < 2000
    again = pickle.loads(pickle.dumps(source))
    assert contents(again) == contents(source)


def test_progress_counts_over_all_shards(tmp_path):
    told = []
    parts = [(f"{number}.{ending}", b"1") for number in range(1500) for ending in ("jpg", "cls")]
    paths = [write_tar(tmp_path / f"{name}.tar", parts) for name in "ab"]
    open_tar(paths, progress=told.append)
    assert told == [1000, 2500]


@pytest.mark.parametrize("kind", FORMATS)
def test_long_and_odd_names_are_those_of_tarfile(tmp_path, kind):
    names = ["a/" * 40 + "b.jpg", "日本/語.jpg", os.fsdecode(b"caf\xe9.jpg"), "x" * 90 + ".jpg"]
    if kind != "ustar":
        names += ["d/" * 200 + "e" * 150 + ".jpg", "f" * 300 + ".jpg"]
    path = write_tar(
        tmp_path / "a.tar", [(name, b"%d" % n) for n, name in enumerate(names)], FORMATS[kind]
    )
    notes = []
    with Scanner(path) as scan:
        found = [(os.fsdecode(m.name), m.kind, m.offset, m.size) for m in members(scan, notes)]
    with tarfile.open(path) as archive:
        expected = [(m.name, "file", m.offset_data, m.size) for m in archive]
    assert found == expected
    assert notes == []


@pytest.mark.parametrize("kind", ["gnu", "pax"])
def test_a_member_of_nine_gigabytes_is_stepped_over(tmp_path, kind):
    """A file with a hole: no disk is used."""
    path, size = tmp_path / "big.tar", 9 << 30
    info = tarfile.TarInfo("big.jpg")
    info.size = size
    head = info.tobuf(FORMATS[kind])
    tail = io.BytesIO()
    with tarfile.open(fileobj=tail, mode="w") as archive:
        for name, data in samples(1):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with open(path, "wb") as file:
        file.write(head)
        file.seek(size, os.SEEK_CUR)
        file.write(tail.getvalue())
    opened = open_tar([str(path)])
    assert list(contents(opened.source)) == ["000000"]
    assert reasons(opened) == {"big": "no_label"}


def test_links_devices_and_names_that_lead_out_are_left_out_by_name(tmp_path):
    odd = []
    for name, kind in {
        "link.jpg": tarfile.SYMTYPE,
        "hard.jpg": tarfile.LNKTYPE,
        "device.jpg": tarfile.CHRTYPE,
        "pipe.jpg": tarfile.FIFOTYPE,
        "folder.jpg": tarfile.DIRTYPE,
    }.items():
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "../../etc/passwd"
        odd.append((info, b""))
    outside = [("../evil.jpg", b"1"), ("/abs.jpg", b"1"), ("a/../../b.jpg", b"1")]
    opened = open_tar([write_tar(tmp_path / "a.tar", odd + outside + samples(1))])
    assert reasons(opened) == {
        "link.jpg": "not_a_file",
        "hard.jpg": "not_a_file",
        "device.jpg": "not_a_file",
        "pipe.jpg": "not_a_file",
        "../evil.jpg": "unsafe_name",
        "/abs.jpg": "unsafe_name",
        "a/../../b.jpg": "unsafe_name",
    }
    assert list(contents(opened.source)) == ["000000"]
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "a.tar.index"]


def test_what_macos_and_webdataset_add_is_no_sample(tmp_path):
    extra = [
        ("._000000.jpg", b"x"),
        (".DS_Store", b"x"),
        ("__MACOSX/000000.jpg", b"x"),
        ("__index__", b"x"),
        ("./000001.jpg", b"image"),
        ("./000001.cls", b"2"),
    ]
    opened = open_tar([write_tar(tmp_path / "a.tar", extra + samples(1))])
    assert list(contents(opened.source)) == ["000001", "000000"]
    assert set(reasons(opened).values()) == {"hidden_file"}
    assert opened.notes == []


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ([("cls", b"1")], 1),
        ([("cls", b" 2\n")], 2),
        ([("CLS", b"2")], 2),
        ([("json", b'{"label": 1, "text": "a"}')], 1),
        ([("cls", b"0"), ("json", b'{"label": 1}')], 0),
        ([("json", b'{"label": 1}'), ("cls", b"0")], 0),
        ([("json", b"{}"), ("cls", b"2")], 2),
        ([("cls", b"abc")], "bad_label"),
        ([("cls", b"")], "bad_label"),
        ([("cls", b"1_0")], "bad_label"),
        ([("cls", b"9" * 400)], "bad_label"),
        ([("cls", "٣".encode())], "bad_label"),
        ([("cls", b"3")], "bad_label"),
        ([("cls", b"-1")], "bad_label"),
        ([("json", b'{"label": true}')], "bad_label"),
        ([("json", b'{"label": "cat"}')], "bad_label"),
        ([("json", b'{"label": 1e999}')], "bad_label"),
        ([("json", b'{"label": 1' + b"0" * 300 + b"}")], "bad_label"),
        ([("json", b"{")], "bad_label"),
        ([("json", b"[" * 100_000)], "bad_label"),
        ([("json", b"[]")], "no_label"),
        ([("txt", b"a cat")], "no_label"),
        ([], "no_label"),
    ],
)
def test_labels(tmp_path, label, expected):
    parts = [("k.jpg", b"image")] + [(f"k.{ending}", data) for ending, data in label]
    opened = open_tar([write_tar(tmp_path / "a.tar", parts)], 3)
    if isinstance(expected, int):
        assert contents(opened.source) == {"k": (expected, b"image")}
        assert opened.skipped == []
    else:
        assert len(opened.source) == 0
        assert reasons(opened) == {"k": expected}


def test_a_label_of_a_damaged_archive_makes_no_billion_classes(tmp_path):
    opened = open_tar([write_tar(tmp_path / "a.tar", [("k.jpg", b"1"), ("k.cls", b"2000000000")])])
    assert reasons(opened) == {"k": "bad_label"}


def test_a_sample_without_an_image_and_one_that_is_there_twice_are_named(tmp_path):
    parts = samples(4)
    del parts[4]  # the image of 000002
    parts += [("000001.jpg", b"other"), ("000001.cls", b"0"), ("000003.png", b"other")]
    opened = open_tar([write_tar(tmp_path / "a.tar", parts)])
    assert [(item.key, item.reason) for item in opened.skipped] == [
        ("000001", "duplicate_key"),
        ("000001", "duplicate_key"),
        ("000003", "duplicate_key"),
        ("000002", "no_image"),
    ]
    assert contents(opened.source)["000001"] == (1, parts[2][1])
    assert list(contents(opened.source)) == ["000000", "000001", "000003"]


def test_members_of_one_sample_may_lie_apart(tmp_path):
    parts = samples(3)
    opened = open_tar([write_tar(tmp_path / "a.tar", parts[0::2] + parts[1::2])])
    assert list(contents(opened.source)) == ["000000", "000001", "000002"]


def test_dots_in_names_of_others(tmp_path):
    parts = [
        ("v1.0/22.05.jpg", b"first"),
        ("v1.0/22.05.cls", b"0"),
        ("v1.0/22.06.jpg", b"second"),
        ("v1.0/22.06.cls", b"1"),
        ("k.jpg", b"third"),
        ("k.mask.png", b"mask"),
        ("k.cls", b"2"),
        ("k.txt", b"caption"),
    ]
    opened = open_tar([write_tar(tmp_path / "a.tar", parts)])
    assert contents(opened.source) == {
        "v1.0/22.05": (0, b"first"),
        "v1.0/22.06": (1, b"second"),
        "k": (2, b"third"),
    }
    assert opened.skipped == []
    assert ".txt x 1" in opened.notes[0]


keys = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1)


@given(keys)
@example("__background__/a.jpg")
@example("__x__")
@example("../a")
def test_a_quoted_key_is_one_stem_for_everybody(key):
    webdataset = pytest.importorskip("webdataset.tariterators", reason="webdataset missing")
    stem = quote_key(key)
    assert unquote_key(stem) == key
    assert "." not in stem
    assert not stem.startswith("/")
    name = f"{stem}.jpg"
    assert not re.match(r"__[^/]*__($|/)", name)
    if not key.endswith("/"):
        assert webdataset.base_plus_ext(name) == (stem, "jpg")
        assert split_name(name) == (stem, "jpg", False)


def test_keys_survive_and_stems_of_others_stay(tmp_path):
    names = [
        "__background__/a.jpg",
        "cat/a.b.jpg",
        "50%.jpg",
        "/abs/../x",
        "%2E",
        os.fsdecode(b"caf\xe9.jpg"),
        "new\nline",
    ]
    parts = []
    for number, key in enumerate(names):
        parts += [(f"{quote_key(key)}.jpg", b"%d" % number), (f"{quote_key(key)}.cls", b"0")]
    opened = open_tar([write_tar(tmp_path / "a.tar", parts)])
    assert list(contents(opened.source)) == names
    assert unquote_key("a%20b%") == "a%20b%"


def test_webdataset_reads_what_we_write_and_we_read_what_it_writes(tmp_path):
    wds = pytest.importorskip("webdataset", reason="webdataset missing")
    key = "cat/a.b.jpg"
    path = write_tar(
        tmp_path / "a.tar", [(quote_key(key) + ".jpg", image()), (quote_key(key) + ".cls", b"2")]
    )
    with open(path, "rb") as stream:  # wds.WebDataset(path) would leave the file open
        files = wds.tariterators.tar_file_expander([{"url": path, "stream": stream}])
        [sample] = list(wds.tariterators.group_by_keys(files))
    assert (sample["__key__"], sample["jpg"], sample["cls"]) == (quote_key(key), image(), b"2")
    with wds.TarWriter(str(tmp_path / "b.tar")) as writer:
        for number in range(3):
            writer.write({"__key__": f"n/{number:04}", "jpg": image(number), "cls": number})
    assert contents(open_tar([str(tmp_path / "b.tar")]).source) == {
        f"n/{number:04}": (number, image(number)) for number in range(3)
    }


def test_an_archive_without_its_end_is_read_with_a_warning(tmp_path):
    with tarfile.open(write_tar(tmp_path / "a.tar", samples(3))) as archive:
        last = archive.getmembers()[-1]
    for size, count, text in (
        (last.offset_data + last.size, 3, "no end-of-archive mark"),
        (last.offset_data, 2, "cut off"),
        (last.offset + 100, 2, "cut off"),
    ):
        path = tmp_path / f"{size}.tar"
        path.write_bytes((tmp_path / "a.tar").read_bytes()[:size])
        opened = open_tar([str(path)])
        assert len(contents(opened.source)) == count
        assert any("warning" in note and text in note for note in opened.notes)


def test_archives_joined_by_cat_are_named(tmp_path):
    write_tar(tmp_path / "a.tar", samples(2))
    data = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar").write_bytes(data + data)
    opened = open_tar([str(tmp_path / "a.tar")])
    assert len(opened.source) == 2
    assert "tar -A" in opened.notes[0]


def test_what_is_no_tar_file_is_refused(tmp_path):
    good = open(write_tar(tmp_path / "a.tar", samples(1)), "rb")  # noqa: SIM115
    with good:
        data = good.read()
    import bz2
    import gzip
    import lzma

    for packed, name in (
        (gzip.compress(data), "gzip"),
        (bz2.compress(data), "bzip2"),
        (lzma.compress(data), "xz"),
    ):
        (tmp_path / "b.tar").write_bytes(packed)
        with pytest.raises(DataError, match=rf"b\.tar' is compressed \({name}\).*unpack it"):
            open_tar([str(tmp_path / "b.tar")])
    (tmp_path / "b.tar").write_bytes(b"<html>" * 1000)
    with pytest.raises(DataError, match=r"b\.tar' is no tar file \(it begins with b'<html>"):
        open_tar([str(tmp_path / "b.tar")])


def test_an_empty_file_and_an_empty_archive_have_no_samples(tmp_path):
    (tmp_path / "zero.tar").write_bytes(b"")
    write_tar(tmp_path / "none.tar", [])
    for name, text in (("zero", "0 bytes"), ("none", "no members")):
        opened = open_tar([str(tmp_path / f"{name}.tar")], 3)
        assert len(opened.source) == 0
        assert text in opened.notes[0]


class Trap:
    def __reduce__(self):
        return os.mkdir, (os.environ["TRAP"],)


def test_nothing_is_unpickled_unless_the_user_trusts_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAP", str(tmp_path / "sprung"))
    parts = [("k.jpg", image()), ("m.jpg", b"x"), ("m.cls", b"1")]
    parts += [(f"k.{ending}", pickle.dumps(Trap())) for ending in ("pyd", "pickle", "pkl")]
    parts += [("m.pyd", pickle.dumps(Trap()))]
    path = write_tar(tmp_path / "a.tar", parts)
    opened = open_tar([path])
    assert contents(opened.source) == {"m": (1, b"x")}
    assert reasons(opened) == {"k": "pickle"}
    for said in (opened.skipped[0].detail, *describe_skipped(opened.skipped)):
        assert "data.trust=code" in said
        assert "(train pack: --trust)" in said
    assert not (tmp_path / "sprung").exists()
    open_tar([path], trust=True)
    assert (tmp_path / "sprung").exists()


def test_trusted_pickles_give_labels_and_images(tmp_path):
    import numpy as np

    pixels = np.zeros((4, 5, 3), dtype=np.uint8)
    values = {
        "a": pickle.dumps({"image": b"jpeg", "label": 2}),
        "b": pickle.dumps((pixels, np.int64(1))),
        "c": b"no pickle",
        "e": pickle.dumps([1, 2, "x"]),
    }
    parts = [(f"{key}.pyd", data) for key, data in values.items()]
    parts += [("d.jpg", b"image"), ("d.pickle", pickle.dumps(0))]
    opened = open_tar([write_tar(tmp_path / "a.tar", parts)], trust=True)
    source = opened.source
    assert [source.key(index) for index in range(len(source))] == ["a", "b", "d"]
    assert source[0].data == b"jpeg"
    assert np.array_equal(source[1].data, pixels)
    assert (source[2].data, source.labels.tolist()) == (b"image", [2, 1, 0])
    assert reasons(opened) == {"c": "bad_label", "e": "no_image"}


def test_a_file_that_shrinks_after_it_was_indexed_is_named(tmp_path):
    path = write_tar(tmp_path / "a.tar", samples(3))
    source = open_tar([path]).source
    os.truncate(path, 2000)
    with pytest.raises(DataError, match=r"a\.tar' has changed since it was indexed"):
        source[2]
    os.unlink(path)
    shutil.copy(write_tar(tmp_path / "b.tar", samples(3)), path)
    open_tar([path])  # indexed again; the old source's index is another one
    with pytest.raises((DataError, OSError)):
        pickle.loads(pickle.dumps(source))[2]


def test_damage_never_crashes_hangs_or_takes_memory(tmp_path):
    info = tarfile.TarInfo("l" * 150 + ".jpg")
    info.size = 3
    good = samples(2) + [(info, b"abc")]
    path = tmp_path / "a.tar"
    draw = random.Random(1)
    for kind in FORMATS.values():
        if kind == tarfile.USTAR_FORMAT:
            write_tar(path, samples(3), kind)
        else:
            write_tar(path, good, kind)
        whole = path.read_bytes().rstrip(b"\0") + bytes(1024)
        for number in range(FUZZ // 3):
            data = bytearray(whole)
            if number % 4 == 0:
                del data[draw.randrange(1, len(data)) :]
            for _ in range(draw.randrange(1, 4)):
                block = draw.randrange((len(data) + 511) // 512)  # headers and sizes more often
                at = 512 * block + draw.choice((draw.randrange(512), draw.randrange(100, 160)))
                data[min(at, len(data) - 1)] = draw.randrange(256)
            path.write_bytes(data)
            try:
                arrays, meta = index_samples(str(path), False, None)
            except DataError:
                continue
            json.dumps(meta)
            ends = arrays["offsets"] + arrays["lengths"]
            assert (arrays["lengths"] >= 0).all()
            assert (ends <= len(data)).all()


def test_a_pickle_that_changes_its_mind_is_a_bad_sample(tmp_path, monkeypatch):
    path = write_tar(tmp_path / "a.tar", [("a.pyd", pickle.dumps((b"image", 1)))])
    source = open_tar([path], trust=True).source
    monkeypatch.setattr("train.data.sources.tar.unpickle", lambda data: (None, 1))
    with pytest.raises(BadSample, match="no image"):
        source[0]
