"""`--verify` finds what is damaged, tells it from what was bad before, and writes the list."""

import json
import os
import shutil

import pictures
import pytest
from packing import CONTAINERS, ledger, pack, write_source

from train.data.sources.handles import close_all
from train.errors import DataError, SetupError


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = write_source(tmp_path_factory.mktemp("verify") / "source", count=4)
    (folder / "val/dog/001.jpg").write_bytes(b"no image at all")
    return folder


@pytest.fixture(scope="module")
def packs(source, tmp_path_factory):
    root = tmp_path_factory.mktemp("verified")
    for container in CONTAINERS:
        pack(source, root / container, container=container, verify=True)
    return root


def container_files(folder):
    names = ("train-000000.tar", "train.lmdb/data.mdb", "train.h5", "train-00000.tfrecord")
    found = [folder / name for name in names if (folder / name).exists()]
    return found or sorted((folder / "train").rglob("*.jpg"))


def plant(path, needle=None):
    """Change one bit in the middle of an image, as a worn disk does."""
    data = bytearray(path.read_bytes())
    place = data.index(b"\xff\xda") + 40
    data[place] ^= 0x10
    path.write_bytes(bytes(data))
    close_all()


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_sound_pack(source, packs, container, capsys):
    pack(packs / container, None, verify=True)
    pack(source, packs / container, verify=True)
    assert "1 images can't be decoded, all others are as they should be" in capsys.readouterr().out
    assert [entry["key"] for entry in ledger(packs / container)] == ["val:dog/001.jpg"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_pack_without_bad_images_has_no_list(source, tmp_path, container):
    shutil.copytree(source, tmp_path / "mine")
    (tmp_path / "mine/val/dog/001.jpg").unlink()
    pack(tmp_path / "mine", tmp_path / "out", container=container)
    assert not (tmp_path / "out/bad_samples.jsonl").exists()
    pack(tmp_path / "mine", tmp_path / "out", verify=True)
    pack(tmp_path / "out", None, verify=True)
    assert not (tmp_path / "out/bad_samples.jsonl").exists()


def test_a_list_goes_when_what_it_names_is_mended(source, tmp_path):
    shutil.copytree(source, tmp_path / "mine")
    pack(tmp_path / "mine", None, verify=True)
    assert (tmp_path / "mine.bad_samples.jsonl").exists()
    (tmp_path / "mine/val/dog/001.jpg").unlink()
    pack(tmp_path / "mine", None, verify=True)
    assert not (tmp_path / "mine.bad_samples.jsonl").exists()


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_planted_corruption(source, packs, tmp_path, container):
    shutil.copytree(packs / container, tmp_path / "out")
    plant(container_files(tmp_path / "out")[0])
    for words in ((tmp_path / "out", None), (source, tmp_path / "out")):
        with pytest.raises(DataError, match=r"1 images of .* are damaged:\n  train:"):
            pack(*words, verify=True)
        assert len(ledger(tmp_path / "out")) == 2


def test_a_missing_image(packs, source, tmp_path):
    shutil.copytree(packs / "folder", tmp_path / "out")
    (tmp_path / "out/train/cat/001.jpg").unlink()
    with pytest.raises(DataError, match=r"in train, .* were packed"):
        pack(tmp_path / "out", None, verify=True)
    with pytest.raises(DataError, match="in train, expected"):
        pack(source, tmp_path / "out", verify=True)


def test_a_label_that_changed(packs, tmp_path):
    shutil.copytree(packs / "lmdb", tmp_path / "out")
    path = tmp_path / "out/train.lmdb/data.mdb"
    data = bytearray(path.read_bytes())
    data[data.index(b"\xff\xd8\xff") - 4] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match="the name or the label"):
        pack(tmp_path / "out", None, verify=True)


def test_a_source_that_changed(source, packs, tmp_path):
    shutil.copytree(source, tmp_path / "source")
    shutil.copytree(packs / "tar", tmp_path / "out")
    other = (tmp_path / "source/train/bird/000.jpg").read_bytes()
    (tmp_path / "source/train/bird/001.jpg").write_bytes(other)
    with pytest.raises(DataError, match="has the source changed since"):
        pack(tmp_path / "source", tmp_path / "out", verify=True)


def test_a_folder_before_it_is_packed(source, tmp_path, capsys):
    shutil.copytree(source, tmp_path / "mine")
    pack(tmp_path / "mine", None, verify=True)
    assert "1 images can't be decoded" in capsys.readouterr().out
    beside = tmp_path / "mine.bad_samples.jsonl"
    assert [json.loads(line)["key"] for line in beside.read_text().splitlines()] == [
        "val:dog/001.jpg"
    ]
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["train", "val"]
    (tmp_path / "mine/train/cat/000.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"2 of .* images are bad.*data\.bad_budget"):
        pack(tmp_path / "mine", None, verify=True)


def test_nothing_is_written_beside_a_whole_folder(tmp_path, capsys):
    pictures.write_tree(tmp_path / "mine", count=2)
    pack(tmp_path / "mine", None, verify=True)
    assert "every image is as it should be" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_other_options_than_it_was_made_with(source, packs):
    with pytest.raises(SetupError, match="made with other options"):
        pack(source, packs / "tar", content="raw", verify=True)


@pytest.mark.parametrize("content", ["original", "jpeg", "raw"])
def test_every_content(source, tmp_path, content):
    more = {} if content == "original" else {"short_side": 40}
    pack(source, tmp_path / "out", content=content, verify=True, **more)
    assert [entry["key"] for entry in ledger(tmp_path / "out")] == ["val:dog/001.jpg"]
    plant_at = {"original": b"\xff\xda", "jpeg": b"\xff\xda", "raw": b"P6"}[content]
    path = tmp_path / "out/train-000000.tar"
    data = bytearray(path.read_bytes())
    data[data.index(plant_at) + 40] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match="1 images of"):
        pack(tmp_path / "out", None, verify=True)


def damaged(packs, tmp_path, name, content):
    """A copy of a pack with one of its files changed."""
    shutil.copytree(packs / "tar", tmp_path / "out")
    (tmp_path / "out" / name).write_bytes(content)
    return tmp_path / "out"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 100_000,
        b'{"format": "wellfed pack"}',
        b'{"format": "wellfed pack", "records": 5, "options": [], "counts": null}',
        b'{"format": "wellfed pack", "records": {"train": "x"}, "options": {"container": "tar", '
        b'"content": "raw"}, "counts": {}}',
    ],
)
def test_a_damaged_marker_is_told(packs, source, tmp_path, content):
    out = damaged(packs, tmp_path, "pack.json", content)
    with pytest.raises(DataError, match=r"pack\.json' is missing or damaged"):
        pack(out, None, verify=True)
    with pytest.raises(SetupError, match="is no pack made by train pack"):
        pack(source, out, verify=True)


def test_a_marker_of_a_later_version(packs, tmp_path):
    marker = json.loads((packs / "tar/pack.json").read_bytes())
    later = json.dumps({**marker, "version": 99}).encode()
    with pytest.raises(SetupError, match="in a format that this version does not know"):
        pack(damaged(packs, tmp_path, "pack.json", later), None, verify=True)


@pytest.mark.parametrize("content", [b"", b"x" * 13, b"x" * 4000])
def test_checksums_that_are_cut_or_too_many(packs, source, tmp_path, content):
    out = damaged(packs, tmp_path, "pack.crc32", content)
    for words in ((out, None), (source, out)):
        with pytest.raises(DataError, match=rf"pack\.crc32' has {len(content)} bytes, expected"):
            pack(*words, verify=True)


@pytest.mark.parametrize(
    "line", [b"\xff", b"5", b'{"kept": false}', b'{"key": "a", "index": [1]}', b"[" * 100_000]
)
def test_a_damaged_list_of_bad_images_is_made_anew(packs, source, tmp_path, line):
    out = damaged(packs, tmp_path, "bad_samples.jsonl", line + b"\n")
    pack(source, out, verify=True)
    pack(out, None, verify=True)
    assert [entry["key"] for entry in ledger(out)] == ["val:dog/001.jpg"]


def test_pipes_in_a_pack_block_nobody(packs, tmp_path, deadline):
    shutil.copytree(packs / "tar", tmp_path / "out")
    for name in ("pack.json", "pack.crc32", "bad_samples.jsonl"):
        (tmp_path / "out" / name).unlink()
        os.mkfifo(tmp_path / "out" / name)
    pack(tmp_path / "out", None, verify=True)  # as any other data set
