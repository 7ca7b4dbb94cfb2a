"""One open file a path and process; none crosses a fork; threads share them safely."""

import os
import threading

import pytest

from train.data.sources import handles
from train.data.sources.handles import Stamp, close_all, count_open, library_file, read_at
from train.errors import DataError

pytestmark = pytest.mark.usefixtures("deadline")


@pytest.fixture(autouse=True)
def nothing_open():
    close_all()
    yield
    close_all()


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_bytes(bytes(range(256)) * 100)
    return str(tmp_path / "file")


def descriptors(path):
    """How many descriptors of this process lead to a file."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}") == path
        except OSError:
            continue
    return found


def test_a_file_is_opened_at_first_use_and_once(path):
    assert count_open() == descriptors(path) == 0
    assert [read_at(path, n, 3) for n in (0, 256, 25597)] == [b"\0\1\2", b"\0\1\2", b"\xfd\xfe\xff"]
    assert count_open() == descriptors(path) == 1
    close_all()
    assert count_open() == descriptors(path) == 0
    assert read_at(path, 1, 1) == b"\1"


@pytest.mark.parametrize(
    ("offset", "length"), [(25599, 2), (30000, 1), (0, 1 << 60), (-1, 3), (1, -1)]
)
def test_what_lies_beyond_the_end_is_an_error_of_the_system(path, offset, length):
    with pytest.raises(OSError, match=r"the file ends at byte 25,600, expected"):
        read_at(path, offset, length)


def test_a_file_that_was_cut_while_it_is_open_is_an_error_of_the_system(path):
    assert read_at(path, 0, 1) == b"\0"
    os.truncate(path, 100)
    with pytest.raises(OSError, match=r"ends at byte 100, expected 60 bytes from 50"):
        read_at(path, 50, 60)


def test_another_file_than_was_indexed_is_refused_by_name(path):
    stamp = Stamp(os.stat(path).st_size, os.stat(path).st_mtime_ns)
    assert read_at(path, 0, 1, stamp) == b"\0"
    with pytest.raises(DataError, match=r"file' has changed since it was indexed: 25,600 bytes"):
        read_at(path, 0, 1, Stamp(25600, stamp.mtime_ns + 1))
    with pytest.raises(DataError, match=r"expected 7"):
        read_at(path, 0, 1, Stamp(7, stamp.mtime_ns))


def test_a_file_that_was_replaced_is_opened_anew(path, tmp_path):
    old = read_at(path, 0, 2)
    (tmp_path / "new").write_bytes(b"new content")
    (tmp_path / "new").replace(path)
    stamp = Stamp(11, os.stat(path).st_mtime_ns)
    assert read_at(path, 0, 3, stamp) == b"new" != old
    assert descriptors(path) == 1


def test_more_files_than_a_process_may_open(tmp_path, monkeypatch):
    monkeypatch.setattr(handles, "MOST_FILES", 3)
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
    for _ in range(2):
        for number in range(10):
            assert read_at(str(tmp_path / str(number)), 0, 1) == b"%d" % number
    assert count_open() == 3


def test_threads_read_while_files_are_dropped_and_processes_forked(path):
    wrong, end = [], threading.Event()

    def read():
        while not end.is_set():
            for offset in range(0, 25000, 977):
                data = read_at(path, offset, 200)
                if data != (bytes(range(256)) * 2)[offset % 256 :][:200]:
                    wrong.append(offset)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = []
    for _ in range(20):
        close_all()
        child = os.fork()
        if child == 0:
            os._exit(0 if read_at(path, 3, 2) == b"\3\4" else 1)
        codes.append(os.waitpid(child, 0)[1])
    end.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert codes == [0] * 20


def test_a_child_opens_its_own(path):
    read_at(path, 0, 1)
    child = os.fork()
    if child == 0:
        before = (count_open(), descriptors(path))
        read_at(path, 0, 1)
        os._exit(0 if (before, descriptors(path)) == ((0, 0), 1) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert read_at(path, 0, 1) == b"\0"


class Library:
    """Stands for a library's file."""

    opened = closed = 0

    def __init__(self):
        Library.opened += 1

    def close(self):
        Library.closed += 1


def test_a_librarys_file_is_closed_before_a_fork_and_opened_again(path, monkeypatch):
    monkeypatch.setattr(Library, "opened", 0)
    monkeypatch.setattr(Library, "closed", 0)
    with library_file(path, Library) as first, pytest.raises(AssertionError):
        raise AssertionError  # an error in use leaves no lock behind
    with library_file(path, Library) as again:
        assert again is first
    child = os.fork()
    if child == 0:
        with library_file(path, Library) as other:
            os._exit(0 if other is not first and Library.closed == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    with library_file(path, Library) as other:
        assert other is not first
    assert (Library.opened, Library.closed) == (2, 1)
    close_all()
    assert (Library.closed, count_open()) == (2, 0)


def test_a_library_that_cannot_open_may_try_again(path):
    def refuse():
        raise OSError("no")

    for _ in range(2):
        with pytest.raises(OSError, match="no"), library_file(path, refuse):
            pass
    assert count_open() == 0
