"""What mutants and bombs have found, one by one: each would fail again without its mend."""

import json
import os
import pickle
import struct
import tracemalloc

import container_files
import fuzz_formats
import h5py
import numpy as np
import pictures
import pytest
import simplejpeg

from train.data.augment import Box
from train.data.decode import Scratch, decode, decode_scaled, probe
from train.data.header import MAX_SCANS
from train.data.jpeg import windows
from train.data.ledger import Ledger
from train.data.sources import handles, index_file
from train.data.sources.hdf5_source import open_hdf5
from train.data.sources.lmdb_source import open_lmdb
from train.data.sources.probe import probe as probe_in_child
from train.data.sources.probe_child import MEMORY_BYTES
from train.data.sources.tar import open_tar
from train.data.sources.tar_samples import _plain
from train.data.sources.tfrecord import encode_record, open_tfrecord
from train.errors import BadSample, DataError
from train.pack.journal import Partial, Position
from train.pack.options import Container, PackOptions
from train.pack.target import MARKER, get_args, read_marker
from train.pack.writers import Target, writer_class
from train.run_folder import RunFolder
from train.run_record import read_record

pytestmark = pytest.mark.usefixtures("deadline")

LIMIT = 1 << 24


def segment(marker, payload):
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(payload) + 2) + payload


def two_faced(ours, others):
    """A JPEG in which we find one frame header, and libjpeg another; sizes are (width, height).

    A restart marker has no length. We read one, and land within what libjpeg takes for a remark.
    """
    whole = simplejpeg.encode_jpeg(np.full((others[1], others[0], 3), 90, np.uint8), 50)
    frame = struct.pack(">BHHB", 8, ours[1], ours[0], 3) + b"\1\x22\0\2\x11\1\3\x11\1"
    hidden = bytearray(b"\xff\xd0" + segment(0xFE, bytes(64998)) + segment(0xFE, bytes(998)))
    hidden[65536:65555] = segment(0xC0, frame)
    return whole[:2] + bytes(hidden) + whole[2:]


@pytest.mark.parametrize("sizes", [((64, 48), (1500, 1000)), ((3000, 300), (64, 48))])
@pytest.mark.parametrize("scratch", [None, Scratch()])
def test_a_jpeg_with_two_sizes(sizes, scratch):
    data = two_faced(*sizes)
    header = probe(data, LIMIT)
    assert (header.width, header.height) == sizes[0]
    box = Box(0, 0, header.width, header.height)
    with pytest.raises(BadSample, match=r"header says|too small"):
        decode(data, header, box, scratch)
    with pytest.raises(BadSample, match="header says"):  # it read beside its memory
        decode_scaled(data, header, box, 4, scratch)


def test_a_window_without_a_scan():
    packed = windows.pack(simplejpeg.encode_jpeg(pictures.scene(90, 50), 80), 16)
    scan = packed.rindex(b"\xff\xda")
    data = packed[: scan + 1] + b"\0" + packed[scan + 2 :]
    with pytest.raises(BadSample, match="it has no scan"):
        decode(data, probe(data, LIMIT), Box(0, 0, 10, 10))


def test_a_scan_a_dozen_bytes():
    head = b"\xff\xd8" + segment(0xDB, bytes(65))
    head += segment(0xC2, struct.pack(">BHHB", 8, 16, 16, 1) + b"\1\x11\0")
    scan = segment(0xDA, b"\1\1\0\1\x3f\0") + b"\0"
    assert probe(head + scan * MAX_SCANS + b"\xff\xd9", LIMIT).kind == "jpeg"
    with pytest.raises(BadSample, match=f"more than {MAX_SCANS} scans"):
        probe(head + scan * (MAX_SCANS + 1) + b"\xff\xd9", LIMIT)


def tiff(*more):
    """8 x 8 pixels, grey, LZW; further tags are (number, kind, how many values, value)."""
    tags = [(256, 8), (257, 8), (258, 8), (259, 5), (262, 1), (277, 1)]
    tags = [(tag, 4, 1, value) for tag, value in tags] + list(more)
    entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return (b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries).ljust(400, b"\0")


def test_a_tile_that_is_far_larger_than_its_picture():
    tiles = [(322, 4, 1, 32768), (323, 4, 1, 32768), (324, 4, 1, 200), (325, 4, 1, 50)]
    with pytest.raises(BadSample, match="tiles of 32768 x 32768 pixels for a picture of 8 x 8"):
        probe(tiff(*tiles), LIMIT)


def test_a_tag_that_is_no_number():
    strips = [(273, 4, 1, 200), (279, 4, 1, 50), (322, 2, 4, 0), (323, 4, 1, 8), (324, 4, 1, 200)]
    with pytest.raises(BadSample, match="damaged header: ValueError"):
        probe(tiff(*strips), LIMIT)


def test_sixteen_bits_take_no_more_memory_than_they_must():
    row = np.arange(2000).astype(">u2").tobytes()
    data = pictures.png(2000, 500, [row] * 500, 0, 16)
    header = probe(data, LIMIT)
    tracemalloc.start()
    try:
        decode(data, header, Box(0, 0, 2000, 500))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * 2000 * 500


def test_a_name_of_a_million_dots_and_slashes():
    assert _plain(b"./" * (1 << 21) + b"a") == "a"
    assert _plain(b".//./a/./b") == "a/./b"


class Trap:
    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_an_index_can_not_make_us_unpickle(tmp_path):
    trap = Trap()
    trap.path = str(tmp_path / "sprung")
    path = str(tmp_path / "a.tar")
    container_files.write_tar(path, [("a", 0, pickle.dumps(trap))])
    opened = open_tar([path])
    assert len(opened.source) == 1
    (header, arrays), info = index_file.read(path + ".index", check=True), os.stat(path)
    forged = index_file.pack(
        "0" * 16, "tar", (info.st_size, info.st_mtime_ns), {}, header.meta,
        {**arrays, "pickled": np.ones(1, np.uint8)},
    )  # fmt: skip
    with open(path + ".index", "wb") as file:
        file.write(b"".join(forged))
    source = pickle.loads(pickle.dumps(open_tar([path]).source))
    assert "pickled" in source._indexes[0]  # it was taken for ours
    assert bytes(source[0].data) == pickle.dumps(trap)
    assert not (tmp_path / "sprung").exists()


def _forge(name, change):
    def forge(arrays, meta):
        arrays[name] = change(arrays[name])

    return forge


@pytest.mark.parametrize(
    "forge",
    [
        lambda arrays, meta: arrays.pop("offsets"),
        lambda arrays, meta: arrays.pop("labels"),
        lambda arrays, meta: arrays.pop("keys_ends"),
        lambda arrays, meta: arrays.pop("skipped"),
        lambda arrays, meta: meta.update(notes=5),
        lambda arrays, meta: meta.update(notes=[5]),
        _forge("lengths", lambda array: array[:-1]),
        _forge("lengths", lambda array: -array),
        _forge("labels", lambda array: array.astype(np.float64)),
        _forge("keys_ends", lambda array: array[::-1]),
        _forge("keys_ends", lambda array: array + 1000),
        _forge("skipped_ends", lambda array: np.zeros(2, np.int64)),
    ],
)
def test_an_index_whose_parts_do_not_belong_together_is_built_again(tmp_path, forge):
    path = str(tmp_path / "a.tar")
    container_files.write_tar(path, [(f"{n}", n, b"x" * (n + 9)) for n in range(4)])
    open_tar([path])
    header, arrays = index_file.read(path + ".index", check=True)
    arrays, meta = dict(arrays), dict(header.meta)
    forge(arrays, meta)
    blocks = index_file.pack("0" * 16, "tar", header.fingerprint, {}, meta, arrays)
    with open(path + ".index", "wb") as file:
        file.write(b"".join(blocks))
    opened = open_tar([path])
    assert any("built again" in note for note in opened.notes)
    assert [bytes(record.data) for record in map(opened.source.__getitem__, range(4))] == [
        b"x" * (n + 9) for n in range(4)
    ]


@pytest.mark.parametrize(
    "text", [b'{"arrays": []}', b'{"arrays": {"a": ["<i8", [1e999], 0]}}', b"[" * 9999]
)
def test_the_header_of_an_index_may_be_anything(tmp_path, text):
    start = index_file._START.pack(index_file._MAGIC, index_file.VERSION, len(text), 0, 0)
    (tmp_path / "a.index").write_bytes(fuzz_formats.mend_index(start + text))
    assert index_file.read(str(tmp_path / "a.index"), check=True) is None


def lmdb_file(tmp_path, entries):
    container_files.put_lmdb(tmp_path / "db", entries)
    return tmp_path / "db/data.mdb"


def leaf(data):
    """Where the leaf with the entries begins, and the places of its nodes."""
    for at in range(8192, len(data), 4096):
        flags, lower = struct.unpack_from("<HH", data, at + 10)
        if flags & 2 and lower > 20:
            return at, list(struct.unpack_from(f"<{(lower - 16) // 2}H", data, at + 16))
    raise AssertionError("no leaf")


def test_nodes_of_an_lmdb_page_that_lie_over_each_other(tmp_path):
    path = lmdb_file(tmp_path, {b"%08d" % n: b"v" * 90 for n in range(30)})
    data = bytearray(path.read_bytes())
    at, places = leaf(data)
    struct.pack_into("<H", data, at + 12, 16 + 2 * 200)  # 200 nodes, all at one place
    struct.pack_into("<200H", data, at + 16, *places[:1] * 200)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"page . is damaged"):
        open_lmdb(str(path))


@pytest.mark.parametrize("last", [b"", b"v", b"v" * 3])
def test_a_full_lmdb_page_is_sound(tmp_path, last):
    values = {b"%08d" % n: b"vvvvv" + b"v" * (n % 9) for n in range(500)}
    path = lmdb_file(tmp_path, {**values, b"00000000": last, b"99999999": last})
    assert len(open_lmdb(str(path)).source) == 501


def test_a_special_key_of_an_lmdb_file_is_there_once(tmp_path):
    entries = {b"00000000": b"v" * 90, b"__keys__": b"a", b"__len__": b"1"}
    path = lmdb_file(tmp_path, entries)
    data = path.read_bytes()
    assert data.count(b"__len__") == 1
    path.write_bytes(data.replace(b"\x08\0__keys__", b"\x07\0__len__\0"))
    with pytest.raises(DataError, match="has the key b'__len__' twice"):
        open_lmdb(str(path))


def test_the_least_label_of_a_tfrecord_less_one(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(encode_record(b"x" * 50, -(1 << 63), b"a"))
    opened = open_tfrecord([str(path)], first_label=1)
    assert len(opened.source) == 0
    assert opened.skipped[0].reason == "bad_label"


def hdf5_file(path, shape, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("images", shape, np.uint8, **options)
        file.create_dataset("labels", shape[:1], np.int64, chunks=(4,))
    return str(path)


def test_an_hdf5_file_with_more_records_than_bytes(tmp_path):
    path = hdf5_file(tmp_path / "a.h5", (1 << 40, 2, 2, 3), chunks=(1024, 2, 2, 3))
    with pytest.raises(DataError, match="says that it has 1,099,511,627,776 records, in"):
        open_hdf5(path)


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [((4, 30_000, 20_000, 3), (1, 10, 10, 3)), ((400, 2000, 2000, 3), (100, 2000, 2000, 3))],
)
def test_an_hdf5_file_whose_pieces_fill_the_memory(tmp_path, shape, chunks):
    path = hdf5_file(tmp_path / "a.h5", shape, chunks=chunks, compression="gzip")
    with pytest.raises(DataError, match=r"one image takes 1,[28]00,000,000 bytes"):
        open_hdf5(path)


def test_the_child_that_scans_has_an_end_to_its_memory(tmp_path):
    """A damaged heap may say that it has any size, and the library takes as much."""
    scan = "class Damaged(Exception): pass\nclass Refused(Exception): pass\n"
    scan += f"def scan(path, report):\n    bytearray({MEMORY_BYTES + (1 << 29)})\n"
    scan += "    return {}, {}\n"
    (tmp_path / "scan.py").write_text(scan)
    with pytest.raises(DataError, match="MemoryError"):
        probe_in_child(str(tmp_path / "scan"), str(tmp_path / "a.h5"))


def test_whatever_h5py_raises_is_a_bad_sample(tmp_path, monkeypatch):
    path = tmp_path / "a.h5"
    pixels = np.zeros((3, 4, 5, 3), np.uint8)
    container_files.write_pixels(path, pixels, [0, 1, 0], compression="gzip")
    source = open_hdf5(str(path)).source
    for error in (RuntimeError("x"), KeyError("x"), ValueError("x"), MemoryError()):
        handles.close_all()

        def raising(path, error=error):
            raise error

        monkeypatch.setattr("train.data.sources.hdf5_source._open", raising)
        with pytest.raises(BadSample, match=r"HDF5 can't read it|memory"):
            source[0]
    handles.close_all()


@pytest.mark.parametrize("container", get_args(Container))
@pytest.mark.parametrize(
    "state",
    [
        {},
        {"shard": [], "size": "x", "entries": None, "keys": {}},
        {"shard": float("inf"), "size": float("inf"), "entries": float("inf"), "keys": 0},
    ],
)
def test_a_journal_whose_writer_says_nothing_useful(tmp_path, container, state):
    target = Target(tmp_path, "train", ("a",), 1000)
    for name in (".train.spool", "train.keys"):
        (tmp_path / name).write_bytes(b"x" * 100)
    assert writer_class(container).usable(target, state) in (False, container == "folder")


@pytest.mark.parametrize(
    "change", [{"short_side": []}, {"quality": {}}, {"shard_size": None, "container": []}, None]
)
def test_a_pack_whose_options_make_no_sense(tmp_path, change):
    options = PackOptions("src", "dst").lasting()
    marker = {"format": "wellfed pack", "options": options, "records": {"train": 1}, "counts": {}}
    (tmp_path / MARKER).write_text(json.dumps(marker))
    assert read_marker(tmp_path) is not None
    if change is None:
        del options["short_side"]
    else:
        options.update(change)
    (tmp_path / MARKER).write_text(json.dumps(marker))
    assert read_marker(tmp_path) is None


@pytest.mark.parametrize(
    "counts", [{"bad": "1"}, {"bad": -1}, {"bad": None}, {"reasons": []}, {"reasons": {"a": "b"}}]
)
def test_counts_that_can_not_be_counted_on(tmp_path, counts):
    with Partial(tmp_path / "out", {"a": 1}, anew=False) as partial:
        partial.write(Position("train", 1, None, {}, {"bad": 1, "reasons": {"CMYK": 1}}))
        partial.write(Position("train", 2, None, {}, counts))
    with Partial(tmp_path / "out", {"a": 1}, anew=False) as partial:
        assert [position.next for position in partial.lines] == [1]


def test_lines_that_are_nested_too_deeply_are_torn_ones(tmp_path):
    lines = b'{"epoch": 0}\n' + b"[" * 99_999 + b'\n{"epoch": 1}\n'
    run = RunFolder(tmp_path)
    run.metrics.write_bytes(lines)
    assert [row["epoch"] for row in run.read_metrics()] == [0, 1]
    run.bad_samples.write_bytes(b'{"key": "a", "reason": "b"}\n' + b"[" * 99_999)
    assert list(Ledger(run.bad_samples, 10, 1.0).entries) == ["a"]


def test_a_date_that_is_none_in_a_runs_settings(tmp_path):
    (tmp_path / "config.yaml").write_text("run: {seed: !!timestamp x}\n")
    record = read_record(tmp_path)
    assert record.config == {}
    assert "config.yaml is damaged: it is shown as it stands" in record.notes
