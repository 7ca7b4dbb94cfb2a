"""Files that are either whole or not there, whatever happens while they are written."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from train import files
from train.errors import SetupError
from train.files import disk_error, write_whole

ROOT = Path(__file__).parents[1]


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "last.pt"
    write_whole(path, b"one")
    write_whole(path, memoryview(b"two"))
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["last.pt"]


def test_a_second_name_gets_the_same_content(tmp_path):
    last, best = tmp_path / "last.pt", tmp_path / "best.pt"
    write_whole(last, b"one", also=best)
    assert (last.read_bytes(), best.read_bytes()) == (b"one", b"one")
    write_whole(last, b"two")
    assert (last.read_bytes(), best.read_bytes()) == (b"two", b"one")
    assert sorted(os.listdir(tmp_path)) == ["best.pt", "last.pt"]


def test_a_second_name_is_a_copy_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(files.os, "link", refuse)
    write_whole(tmp_path / "last.pt", b"one", also=tmp_path / "best.pt")
    assert (tmp_path / "best.pt").read_bytes() == b"one"
    assert sorted(os.listdir(tmp_path)) == ["best.pt", "last.pt"]


def test_what_a_killed_process_of_the_same_number_left_is_no_obstacle(tmp_path):
    """In a container a program often gets the same process id again."""
    for ending in ("part", "link"):
        (tmp_path / f".last.pt.{os.getpid()}.{ending}").write_bytes(b"torn")
    write_whole(tmp_path / "last.pt", b"one", also=tmp_path / "best.pt")
    assert (tmp_path / "best.pt").read_bytes() == (tmp_path / "last.pt").read_bytes() == b"one"


@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_an_error_at_any_moment_leaves_the_old_file(tmp_path, monkeypatch, where):
    path = tmp_path / "last.pt"
    write_whole(path, b"old")

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    if where == "write":
        monkeypatch.setattr(files, "open", fail, raising=False)
    else:
        monkeypatch.setattr(files.os, where, fail)
    with pytest.raises(SetupError, match=r"cannot write .*last.pt.*: the disk is full"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["last.pt"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(
        SetupError, match=r"cannot write '.*gone/last\.pt': No such file.*run\.folder"
    ):
        write_whole(tmp_path / "gone" / "last.pt", b"new")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (
            errno.ENOSPC,
            r"the disk is full or a quota is reached, \d+ MiB free; what was saved before",
        ),
        (errno.EDQUOT, "the disk is full or a quota is reached"),
        (errno.EROFS, "Read-only file system; choose another place with run.folder"),
        (errno.EACCES, "Permission denied"),
    ],
)
def test_what_an_error_means_is_said_with_the_remedy(tmp_path, number, message):
    with pytest.raises(SetupError, match=message):
        raise disk_error(tmp_path / "x", OSError(number, os.strerror(number)))


def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "last.pt"
    write_whole(path, b"old")
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from train import files\n"
        "files.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_whole(Path(sys.argv[1]), b'new' * 100000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], cwd=ROOT, timeout=180, capture_output=True
    )
    assert done.returncode == -9, done.stderr
    assert path.read_bytes() == b"old"
