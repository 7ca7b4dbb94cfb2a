"""Nothing is overwritten that is not a pack of ours, and every mistake is one message."""

import errno
import os
import shutil
import subprocess
import sys

import pytest
from packing import CONTAINERS, classes, files, pack, records, write_source

import train.pack.write
from train.__main__ import main
from train.data.sources.folder import FolderSource
from train.errors import DataError, SetupError
from train.pack.writers.append import AppendFile


@pytest.fixture
def source(tmp_path):
    return write_source(tmp_path / "source", count=3)


def refused(words, capsys):
    """Run; the message of what ended with code 2."""
    assert main(["pack", *map(str, words)]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return said.err


def test_an_earlier_pack_is_replaced_only_when_asked(source, tmp_path, capsys):
    out = tmp_path / "out"
    pack(source, out, content="original")
    before = files(out)
    assert "add --overwrite" in refused([source, out], capsys)
    assert files(out) == before
    pack(source, out, container="lmdb", content="original", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]
    assert not list(out.glob("*.tar"))
    assert len(records(out)["train"]) == len(records(source)["train"])


def test_nothing_foreign_is_ever_replaced(source, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    assert "is no pack made by train pack" in refused([source, mine, "--overwrite"], capsys)
    pack(source, tmp_path / "out", content="original")
    (tmp_path / "out/thesis.tex").write_text("years of work")
    assert "holds more than a pack ('thesis.tex')" in refused(
        [source, tmp_path / "out", "--overwrite"], capsys
    )
    (tmp_path / "file").write_text("x")
    assert "is no pack" in refused([source, tmp_path / "file", "--overwrite"], capsys)
    (tmp_path / "new.partial").mkdir()
    (tmp_path / "new.partial/thesis.tex").write_text("years of work")
    assert "holds other files" in refused([source, tmp_path / "new", "--overwrite"], capsys)
    assert (tmp_path / "new.partial/thesis.tex").read_text() == "years of work"


def test_an_empty_folder_is_a_target(source, tmp_path):
    (tmp_path / "out").mkdir()
    pack(source, tmp_path / "out", content="original")
    assert classes(tmp_path / "out") == ("bird", "cat", "dog")


def test_source_and_target_are_never_the_same(source, tmp_path, capsys):
    pack(source, tmp_path / "out", content="original")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/train").symlink_to(tmp_path / "out")
    before = files(tmp_path / "out")
    for src, dst in (
        (source, source),
        (source, source / "packed"),
        (source, source / "train/cat/packed"),
        (source / "train", source),
        (tmp_path / "out", tmp_path / "out"),
        (tmp_path / "out/train-000000.tar", tmp_path / "out"),
        (tmp_path / "link", tmp_path / "out"),
        (tmp_path / "out", tmp_path / "link"),
        (tmp_path / "linked", tmp_path / "out"),
        (tmp_path / "out" / ".." / "out", tmp_path / "out"),
    ):
        message = refused([src, dst, "--overwrite"], capsys)
        assert "are the same or lie in each other" in message, (src, dst)
    assert files(tmp_path / "out") == before
    assert not (source / "packed").exists()


def test_a_target_that_is_a_link(source, tmp_path, capsys):
    pack(source, tmp_path / "out", content="original")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    assert "is a link" in refused([source, tmp_path / "link", "--overwrite"], capsys)


def test_a_target_that_can_not_be_made(source, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("x")
    assert "cannot write" in refused([source, tmp_path / "file/out"], capsys)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.geteuid() == 0:  # root may write everywhere: say what the system says to others
        real = os.mkdir

        def mkdir(path, *args, **options):
            if str(path).startswith(str(locked)):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return real(path, *args, **options)

        monkeypatch.setattr("os.mkdir", mkdir)
        monkeypatch.setattr("pathlib.Path.mkdir", lambda self, *_, **__: mkdir(self))
    message = refused([source, locked / "out"], capsys)
    assert "cannot write" in message
    assert "ermission denied" in message


def test_a_source_that_is_not_there(tmp_path, capsys):
    assert "no such folder" in refused([tmp_path / "nowhere", tmp_path / "out"], capsys)
    assert not (tmp_path / "out.partial").exists()


def test_an_unreadable_image(source, tmp_path, monkeypatch):
    locked = source / "train/cat/001.jpg"
    locked.chmod(0)
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: str(path) != str(locked) and real(path, mode)
    )
    with pytest.raises(DataError, match=r"cat/001\.jpg.*permission denied"):
        pack(source, tmp_path / "out")


def test_a_class_that_can_be_no_folder(source, tmp_path):
    pack(source, tmp_path / "tar", content="original")
    (tmp_path / "tar/classes.json").write_text('["bird", "a/b", "dog"]')
    with pytest.raises(DataError, match="the class name 'a/b' can't be that of a class folder"):
        pack(tmp_path / "tar", tmp_path / "out", container="folder", content="original")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "b", "--content", "original", "--short-side", "256"], "--short-side changes images"),
        (["a", "b", "--content", "raw", "--quality", "80"], "--quality has no effect"),
        (["a", "b", "--quality", "0"], "--quality must be 1 to 100, got 0"),
        (["a", "b", "--short-side", "2"], "--short-side must be 8 to 65500"),
        (["a", "b", "--shard-size", "0"], "--shard-size must be >= 1 MB"),
        (["a", "b", "--workers", "0"], "--workers must be 'auto' or >= 1"),
        (["a", "b", "--container", "zip"], "container"),
        (["a", "b", "--colour", "red"], "train pack --help"),
        (["a"], "where to?"),
        (["a", "--verify", "--overwrite"], "--overwrite needs a DST"),
    ],
)
def test_options_that_make_no_sense(words, message, capsys):
    assert message in refused(words, capsys)


def test_too_little_room_is_told_before_anything_is_done(source, tmp_path, capsys, monkeypatch):
    class Room:
        f_bavail, f_frsize = 10, 4096

    monkeypatch.setattr("train.pack.plan.os.statvfs", lambda path: Room)
    message = refused([source, tmp_path / "out"], capsys)
    assert "not enough room" in message
    assert "40.0 KiB are free" in message
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_disk_that_fills_up_is_one_message_and_it_goes_on(
    source, tmp_path, monkeypatch, container
):
    monkeypatch.setattr("train.pack.write.COMMIT_RECORDS", 4)
    real, left = train.pack.write.SplitWriting._commit, [2]

    def full(self):
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device", "some/file")
        real(self)

    monkeypatch.setattr(train.pack.write.SplitWriting, "_commit", full)
    with pytest.raises(SetupError, match=r"No space left on device.*go on with:\n.*train pack"):
        pack(source, tmp_path / "out", container=container, content="original")
    monkeypatch.undo()
    pack(source, tmp_path / "out", container=container, content="original")
    assert records(tmp_path / "out") == records(source)


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mount"), reason="only root can mount a small disk"
)
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_disk_that_is_really_full(tmp_path, capsys, monkeypatch, container):
    source = write_source(tmp_path / "source", count=3)
    for number in range(60):  # more than the disk has
        name = source / f"train/dog/large{number:02}.jpg"
        name.write_bytes((source / "train/dog/000.jpg").read_bytes() + bytes(100_000))
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(disk)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount")
    try:
        monkeypatch.setattr("train.pack.run.check_room", lambda *_: None)
        monkeypatch.setattr("train.pack.write.COMMIT_RECORDS", 16)
        words = [source, disk / "out", "--container", container, "--content", "original"]
        message = refused(words, capsys)
        assert "No space left on device" in message
        assert "go on with" in message
        subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)
        pack(source, disk / "out", container=container, content="original")
        pack(source, tmp_path / "whole", container=container, content="original")
        assert files(disk / "out") == files(tmp_path / "whole")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_write_that_fails_half_way(source, tmp_path, monkeypatch):
    real, left = AppendFile.write, [9]

    def fails(self, data):
        left[0] -= 1
        if left[0] == 0:
            real(self, data[: len(data) // 2])
            raise OSError(errno.EIO, "Input/output error", str(self.path))
        real(self, data)

    monkeypatch.setattr(AppendFile, "write", fails)
    with pytest.raises(SetupError, match="Input/output error"):
        pack(source, tmp_path / "out", content="original")
    monkeypatch.undo()
    pack(source, tmp_path / "out", content="original")
    pack(source, tmp_path / "whole", content="original")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_help_teaches():
    done = subprocess.run(
        [sys.executable, "-m", "train", "pack", "--help"],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    for word in ("--content", "lossless", "train pack DIR OUT --verify", "Exit codes", "Ctrl-C"):
        assert word in done.stdout


def test_it_says_what_it_did_and_what_to_expect(source, tmp_path, capsys):
    assert main(["pack", str(source), str(tmp_path / "out"), "--verify"]) == 0
    output = capsys.readouterr().out
    for word in (
        "made decodable in parts, without loss",
        "1 encoded as JPEG of quality 90, colour 4:2:0",
        "before",
        "images/s",
        "every image is as it should be",
        "speed to expect at 224 px",
        "<- packed",
        "recommended:",
    ):
        assert word in output


def test_unreadable_sources_name_what_to_do(source, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        FolderSource, "__getitem__", lambda *_: (_ for _ in ()).throw(OSError(5, "gone"))
    )
    assert "is the source's disk still there" in refused([source, tmp_path / "out"], capsys)


def test_a_pack_that_a_person_called_replaced_is_left_alone(source, tmp_path, capsys):
    for name in ("out", "mine"):
        pack(source, tmp_path / name, content="original")
    (tmp_path / "mine").rename(tmp_path / "out.replaced")
    before = files(tmp_path / "out.replaced")
    for words in (["--overwrite"], [], ["--verify"]):
        main(["pack", str(source), str(tmp_path / "out"), *words])
        assert files(tmp_path / "out.replaced") == before
    assert "add --overwrite" not in refused([source, tmp_path / "out", "--overwrite"], capsys)
    (tmp_path / "out").rename(tmp_path / "away")
    assert "is in the way" in refused([source, tmp_path / "out"], capsys)


@pytest.mark.parametrize("name", ["out.partial", "out.replaced"])
def test_names_of_packs_that_are_being_made_are_no_targets(source, tmp_path, capsys, name):
    assert "choose another name" in refused([source, tmp_path / name], capsys)


def test_an_unfinished_pack_behind_a_link_or_with_a_thesis_in_it(source, tmp_path, capsys):
    pack(source, tmp_path / "other", content="original")
    before = files(tmp_path / "other")
    (tmp_path / "out.partial").symlink_to(tmp_path / "other")
    assert "is in the way" in refused([source, tmp_path / "out", "--overwrite"], capsys)
    assert files(tmp_path / "other") == before
    (tmp_path / "out.partial").unlink()
    (tmp_path / "other").rename(tmp_path / "out.partial")
    (tmp_path / "out.partial/thesis.tex").write_text("years of work")
    words = [source, tmp_path / "out", "--overwrite", "--content", "jpeg"]
    assert "holds more than a pack ('thesis.tex')" in refused(words, capsys)


@pytest.mark.parametrize("words", [["", "out"], ["source", ""], ["", "--verify"], ["/", "/"]])
def test_paths_that_are_none(words, capsys):
    refused(words, capsys)


def test_the_root_is_no_target(source, capsys):
    refused([source / "train/cat/000.jpg", "/"], capsys)


def test_a_name_that_is_too_long_for_what_stands_beside_it(source, tmp_path, capsys):
    assert "File name too long" in refused([source, tmp_path / ("n" * 250)], capsys)


@pytest.mark.parametrize(
    "line",
    [
        b'{"about": 5}\n',
        b"[" * 100_000,
        b'{"about": {}}\n{"split": 5, "next": 1, "writer": null, "sizes": {}, "counts": {}}\n',
    ],
    ids=["a number", "brackets", "a line"],
)
def test_a_journal_that_makes_no_sense(source, tmp_path, line, capsys):
    partial = tmp_path / "out.partial"
    partial.mkdir()
    (partial / ".journal.jsonl").write_bytes(line)
    pack(source, tmp_path / "out", content="original", overwrite=True)
    assert records(tmp_path / "out") == records(source)


def test_a_journal_that_is_a_folder(source, tmp_path, capsys):
    (tmp_path / "out.partial/.journal.jsonl").mkdir(parents=True)
    assert "Is a directory" in refused([source, tmp_path / "out"], capsys)
