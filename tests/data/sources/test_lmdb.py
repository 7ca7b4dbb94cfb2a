"""LMDB: the tree read by position, our layout, damage, and pickles that are not run."""

import os
import pickle
import random
import struct

import container_files as files
import lmdb
import numpy as np
import pytest

from train.data.sources.handles import close_all
from train.data.sources.lmdb_index import quote, unquote
from train.data.sources.lmdb_source import open_lmdb
from train.data.sources.lmdb_tree import Damaged, walk
from train.errors import BadSample, DataError

pytestmark = pytest.mark.usefixtures("deadline")

SIZES = [0, 1, 4, 100, 500, 1500, 1900, 2040, 2050, 4080, 5000, 70000]


def entries(path):
    """What the tree reader finds: (key, value)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return [(v.key, os.pread(descriptor, v.size, v.offset)) for v in walk(descriptor)]
    finally:
        os.close(descriptor)


def random_database(folder, seed, most=200, sizes=SIZES):
    """A database after some transactions that put and delete; returns what the library reads."""
    chance = random.Random(seed)
    with lmdb.open(str(folder), map_size=1 << 28, sync=False, lock=False) as environment:
        for _ in range(chance.randint(1, 3)):
            with environment.begin(write=True) as transaction:
                count = chance.randint(1, most)
                keys = [b"%08d" % chance.randrange(most * 2) for _ in range(count)]
                for key in keys:
                    transaction.put(key, os.urandom(chance.choice(sizes)))
                for key in chance.sample(keys, chance.randint(0, count)):
                    transaction.delete(key)
        with environment.begin() as transaction:
            return list(transaction.cursor())


def newest_size(path):
    """The size that the meta pages tell."""
    with open(path, "rb") as file:
        head = file.read(8192)
    pages = [struct.unpack_from("<QQ", head, at + 136) for at in (0, 4096)]
    return (max(pages, key=lambda page: page[1])[0] + 1) * 4096


def test_the_tree_is_read_as_the_library_reads_it(tmp_path):
    for seed in range(60):
        expected = random_database(tmp_path / str(seed), seed)
        assert entries(tmp_path / str(seed) / "data.mdb") == expected
    files.put_lmdb(tmp_path / "empty", {})
    assert entries(tmp_path / "empty" / "data.mdb") == []


def test_a_sound_file_may_be_shorter_than_its_meta_page_says(tmp_path):
    """Pages that a writer took and gave back are counted, and never written."""
    path = tmp_path / "x" / "data.mdb"
    short = 0
    for seed in range(400):
        expected = random_database(tmp_path / "x", seed, 60, [100, 500, 1500, 1900])
        if path.stat().st_size < newest_size(path):
            short += 1
            assert entries(path) == expected
        path.unlink()
        if short == 2:
            break
    assert short == 2


def test_a_file_cut_anywhere_is_damage_or_reads_the_same(tmp_path):
    expected = random_database(tmp_path / "x", 3)
    path = tmp_path / "x" / "data.mdb"
    whole = path.read_bytes()
    refused = 0
    for pages in range(len(whole) // 4096):
        path.write_bytes(whole[: pages * 4096 + 100])
        try:
            assert entries(path) == expected
        except Damaged:
            refused += 1
    assert refused > 10


@pytest.mark.parametrize("seed", range(4))
def test_bytes_changed_at_random_never_crash_or_hang(tmp_path, seed):
    random_database(tmp_path / "x", seed, sizes=[0, 1, 100, 500, 1500])
    path = tmp_path / "x" / "data.mdb"
    whole, chance = path.read_bytes(), random.Random(seed)
    refused = 0
    for _ in range(150):
        broken = bytearray(whole)
        for _ in range(chance.randint(1, 20)):
            page = chance.randrange(len(whole) // 4096) * 4096
            broken[page + chance.randrange(80)] = chance.randrange(256)  # headers lie in front
        path.write_bytes(broken)
        try:
            entries(path)
        except Damaged:
            refused += 1
    assert refused > 10


def samples(count=12):
    return [(f"k/{n} ü.jpg", n % 3, bytes([n]) * (n * 700 + 1)) for n in range(count)]


@pytest.mark.parametrize("single", [False, True])
def test_our_layout_in_a_folder_and_in_a_file(tmp_path, single):
    files.write_lmdb(tmp_path / "x.lmdb", samples())
    path = tmp_path / "x.lmdb"
    if single:
        path = tmp_path / "single.lmdb"
        (tmp_path / "x.lmdb" / "data.mdb").rename(path)
    told = []
    database = open_lmdb(str(path), progress=told.append)
    source = database.source
    assert [tuple(source[n]) for n in range(12)] == [(d, c, k) for k, c, d in samples()]
    assert source.labels.tolist() == [n % 3 for n in range(12)]
    assert [source.key(n) for n in range(12)] == [key for key, _, _ in samples()]
    assert database.notes == []
    for index in (-1, 12):
        with pytest.raises(IndexError):
            source[index]
    again = pickle.loads(pickle.dumps(source))
    assert again[5] == source[5]


def test_names_that_hold_line_ends_and_signs(tmp_path):
    names = [b"a\nb", b"100%", b"%0A", b"%25", b"\xe9", b"%%\n\n"]
    assert [unquote(quote(name)) for name in names] == names
    assert not any(b"\n" in quote(name) for name in names)
    kept = [(os.fsdecode(name), 0, b"x") for name in names]
    files.write_lmdb(tmp_path / "x", kept)
    source = open_lmdb(str(tmp_path / "x")).source
    assert [source.key(n) for n in range(6)] == [os.fsdecode(name) for name in names]


def test_numbers_that_are_not_padded_are_in_the_order_of_numbers(tmp_path):
    values = {b"%d" % n: struct.pack("<I", n % 2) + b"%d" % n for n in range(12)}
    files.put_lmdb(tmp_path / "x", values)
    source = open_lmdb(str(tmp_path / "x")).source
    assert [source[n].data for n in range(12)] == [b"%d" % n for n in range(12)]


def test_missing_records_are_told_however_many(tmp_path):
    values = files.lmdb_values(samples())
    del values[b"00000004"]
    files.put_lmdb(tmp_path / "x", {**values, b"__len__": b"999999999999"})
    database = open_lmdb(str(tmp_path / "x"))
    assert len(database.source) == 11
    assert database.missing[:2] == ["00000004", "00000012"]
    assert len(database.missing) == 1000
    assert "should have 999999999999 records" in database.notes[0]
    assert "'00000004', '00000012'" in database.notes[0]
    assert open_lmdb(str(tmp_path / "x")).notes == database.notes  # from the index as well


def test_other_layouts_are_explained(tmp_path):
    files.put_lmdb(tmp_path / "x", {b"image-000001": b"a" * 9, b"label-000001": b"b" * 9})
    with pytest.raises(DataError, match=r"has the key 'image-000001', expected the numbers"):
        open_lmdb(str(tmp_path / "x"))
    files.put_lmdb(tmp_path / "y", {b"00000000": b"a" * 9, b"__len__": b"many"})
    with pytest.raises(DataError, match=r"b'many' as its __len__, expected a number"):
        open_lmdb(str(tmp_path / "y"))
    (tmp_path / "z").write_bytes(b"no database" * 999)
    with pytest.raises(DataError, match=r"z' can't be used: it is no LMDB file"):
        open_lmdb(str(tmp_path / "z"))


def test_a_file_that_changed_is_indexed_anew(tmp_path):
    files.write_lmdb(tmp_path / "x", samples())
    old = open_lmdb(str(tmp_path / "x")).source
    assert len(old) == 12
    (tmp_path / "x" / "data.mdb").unlink()
    files.write_lmdb(tmp_path / "x", samples(3))
    close_all()
    assert len(open_lmdb(str(tmp_path / "x")).source) == 3
    with pytest.raises(DataError, match="has changed since it was indexed"):
        old[0]


class Bomb:
    """Unpickling it leaves a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_pickles_are_not_run_unless_trusted(tmp_path):
    trap = str(tmp_path / "trap")
    plain = {b"%d" % n: pickle.dumps((b"image %d" % n, n % 2)) for n in range(4)}
    files.put_lmdb(tmp_path / "all", {**plain, b"4": pickle.dumps(Bomb(trap))})
    keys = {b"__keys__": pickle.dumps([b"3", b"1"]), b"__len__": pickle.dumps(2)}
    files.put_lmdb(tmp_path / "keys", {**plain, **keys})
    for name in ("all", "keys"):
        with pytest.raises(DataError, match=r"holds Python pickles, .*data\.trust=code"):
            open_lmdb(str(tmp_path / name))
    assert not os.path.exists(trap)
    trusted = open_lmdb(str(tmp_path / "all"), trust=True).source
    assert os.path.exists(trap)
    assert [tuple(trusted[n])[:2] for n in range(4)] == [(b"image %d" % n, n % 2) for n in range(4)]
    with pytest.raises(BadSample):
        trusted[4]
    listed = open_lmdb(str(tmp_path / "keys"), trust=True).source
    assert [tuple(listed[n]) for n in range(2)] == [(b"image 3", 1, "3"), (b"image 1", 1, "1")]


def test_a_pickle_among_images_is_a_bad_sample(tmp_path):
    trap = str(tmp_path / "trap")
    values = files.lmdb_values(samples())
    files.put_lmdb(tmp_path / "x", {**values, b"00000002": pickle.dumps(Bomb(trap), 4)})
    source = open_lmdb(str(tmp_path / "x")).source
    assert source.labels[2] == -1
    with pytest.raises(BadSample, match=r"holds Python pickles, .*data\.trust=code"):
        source[2]
    assert source[3].label == 0
    assert not os.path.exists(trap)


def test_an_index_that_asks_for_unpickling_is_not_obeyed(tmp_path):
    """Whoever wrote the data may have put an index beside it."""
    trap = str(tmp_path / "trap")
    files.put_lmdb(tmp_path / "x", {b"0": pickle.dumps((b"image", 0))})
    planted = open_lmdb(str(tmp_path / "x"), trust=True).source.index
    assert planted.meta["pickled"]
    source = type(open_lmdb(str(tmp_path / "x"), trust=True).source)(planted, trust=False)
    with pytest.raises(BadSample, match="holds Python pickles"):
        source[0]
    assert not os.path.exists(trap)


def test_thousands_of_records_and_progress(tmp_path):
    count = 5000
    values = {b"%08d" % n: struct.pack("<I", n % 9) + b"x" * (n % 50 + 1) for n in range(count)}
    files.put_lmdb(tmp_path / "x", values)
    told = []
    source = open_lmdb(str(tmp_path / "x"), progress=told.append).source
    assert max(told) <= count
    assert len(told) >= 5
    assert np.array_equal(source.labels, np.arange(count) % 9)
