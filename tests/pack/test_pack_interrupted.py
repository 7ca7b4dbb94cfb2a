"""A pack that is stopped or killed at any point goes on, and becomes the same, byte for byte."""

import os
import signal
import subprocess
import sys
import time

import pytest
from packing import CONTAINERS, die, files, pack, pack_and_die, write_source

import train.pack.target
import train.pack.write
from train.errors import Interrupted, SetupError
from train.pack import run
from train.pack.journal import Partial
from train.pack.write import SplitWriting
from train.pack.writers import writer_class

RECORDS = 3
"""Records between two commits, so that a small source has many."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_source(tmp_path_factory.mktemp("interrupted") / "source", count=5)


@pytest.fixture(autouse=True)
def small_commits(monkeypatch):
    monkeypatch.setattr("train.pack.write.COMMIT_RECORDS", RECORDS)


def at_record(number):
    """Killed when so many records were taken."""

    def hook():
        real, left = SplitWriting._take, [number]

        def take(self, item):
            real(self, item)
            left[0] -= 1
            if left[0] == 0:
                die()

        SplitWriting._take = take

    return hook


def around(owner, name, before, calls=1):
    """Killed before or after the so-manieth call of a method."""

    def hook():
        real, left = getattr(owner, name), [calls]

        def called(*args):
            left[0] -= 1
            if left[0] == 0 and before:
                die()
            result = real(*args)
            if left[0] == 0:
                die()
            return result

        setattr(owner, name, called)

    return hook


def torn_line():
    """Killed when half a line of the journal was written."""
    left = [2]

    def write(self, position):
        left[0] -= 1
        if left[0] == 0:
            self._journal.write(b'{"split": "tra')
            self._journal.flush()
            die()
        real(self, position)

    real, Partial.write = Partial.write, write


def points(container):
    """Where a process is killed, one after the other."""
    writer = writer_class(container)
    yield at_record(1)
    yield around(writer, "flush", before=True)
    yield around(writer, "flush", before=False, calls=2)  # in LMDB all, in others nothing is lost
    yield around(Partial, "write", before=False)  # the journal is ahead of LMDB
    yield around(writer, "commit", before=False)
    yield torn_line
    yield at_record(7)
    yield around(writer, "finish", before=True)
    yield around(writer, "finish", before=False)
    yield at_record(4)  # in val
    yield around(run, "_write_indexes", before=False)
    yield around(Partial, "remove_traces", before=False)


@pytest.mark.parametrize("container", CONTAINERS)
def test_killed_again_and_again(source, tmp_path, monkeypatch, container):
    monkeypatch.setattr("train.pack.run.MB", 8_000)  # several shards
    options = {"container": container, "content": "jpeg", "short_side": 40, "shard_size": 1}
    pack(source, tmp_path / "whole", **options)
    killed = 0
    for hook in points(container):
        killed += pack_and_die(source, tmp_path / "cut", hook, **options)
        if (tmp_path / "cut").exists():
            break
    assert killed >= 10
    if not (tmp_path / "cut").exists():
        pack(source, tmp_path / "cut", **options)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut", "whole"]


def test_killed_while_the_hdf5_file_is_made(source, tmp_path):
    from train.pack.writers import hdf5_writer

    pack(source, tmp_path / "whole", container="hdf5", content="original")
    for hook in (
        around(hdf5_writer, "_write_rows", before=False),
        around(hdf5_writer.os, "replace", before=False),
    ):
        assert pack_and_die(source, tmp_path / "cut", hook, container="hdf5", content="original")
    pack(source, tmp_path / "cut", container="hdf5", content="original")
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_killed_while_the_lmdb_is_finished(source, tmp_path):
    from train.pack.writers import lmdb_writer

    pack(source, tmp_path / "whole", container="lmdb", content="original")
    last = around(lmdb_writer.LmdbWriter, "_put", before=False, calls=8)  # 19 images in 7 parts
    options = {"container": "lmdb", "content": "original"}
    assert pack_and_die(source, tmp_path / "cut", last, **options)
    assert (tmp_path / "cut.partial/.train.keys").exists()
    pack(source, tmp_path / "cut", **options)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_killed_between_the_two_renames(source, tmp_path):
    out = tmp_path / "out"
    pack(source, out, content="original")
    again = {"content": "jpeg", "overwrite": True}
    rename = around(train.pack.target.os, "rename", before=False)
    assert pack_and_die(source, out, rename, **again)
    assert not out.exists()
    pack(source, out, **again)
    pack(source, tmp_path / "whole", content="jpeg")
    assert files(out) == files(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whole"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_signal_stops_it_and_the_same_command_goes_on(source, tmp_path, container):
    real, left = SplitWriting._take, [10]

    def take(self, item):
        real(self, item)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGTERM)

    options = {"container": container, "content": "original"}
    SplitWriting._take = take
    try:
        with pytest.raises(Interrupted) as stopped:
            pack(source, tmp_path / "cut", **options)
    finally:
        SplitWriting._take = real
    assert stopped.value.exit_code == 143
    done = 9 if container == "lmdb" else 10  # LMDB's transactions end at counted places
    assert f"stopped after {done} of 28 images" in str(stopped.value)
    assert (
        str(stopped.value)
        .splitlines()[-1]
        .endswith(
            f"-m train pack {source} {tmp_path / 'cut'} --container {container} --content original"
            if container != "tar"
            else f"-m train pack {source} {tmp_path / 'cut'} --content original"
        )
    )
    assert not (tmp_path / "cut").exists()
    pack(source, tmp_path / "cut", **options)
    pack(source, tmp_path / "whole", **options)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


SLOW = """
import sys, time
import train.pack.records as records
real = records.convert
def slow(*args):
    time.sleep(0.05)
    return real(*args)
records.convert = slow
from train.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_in_a_terminal(source, tmp_path):
    words = ["pack", str(source), str(tmp_path / "out"), "--content=original", "--workers=1"]
    run = subprocess.Popen(
        [sys.executable, "-c", SLOW, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        for line in run.stdout:
            if line.startswith("target"):
                break
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate(timeout=180)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 130, errors
    assert "Traceback" not in errors
    assert "stopping; a second signal ends at once" in output
    assert "SIGINT: stopped after" in errors
    assert "go on with" in errors


def test_other_options_are_not_mixed_in(source, tmp_path):
    out = tmp_path / "out"
    assert pack_and_die(source, out, at_record(10), content="original")
    with pytest.raises(SetupError, match=r"content: 'original', now 'jpeg'.*--overwrite"):
        pack(source, out, content="jpeg")
    pack(source, out, content="jpeg", overwrite=True)
    pack(source, tmp_path / "whole", content="jpeg")
    assert files(out) == files(tmp_path / "whole")


def test_a_source_that_changed_is_not_mixed_in(source, tmp_path):
    changing = write_source(tmp_path / "changing", count=4)
    assert pack_and_die(changing, tmp_path / "out", at_record(10), content="original")
    (changing / "train/dog/003.jpg").rename(changing / "train/dog/other.jpg")
    with pytest.raises(SetupError, match=r"source: .*--overwrite"):
        pack(changing, tmp_path / "out", content="original")


def test_one_process_at_a_time(source, tmp_path):
    with Partial(tmp_path / "out", {"a": 1}, False):
        child = os.fork()
        if not child:
            code = 1
            try:
                with Partial(tmp_path / "out", {"a": 1}, False):
                    pass
            except SetupError as error:
                code = 0 if "another process is packing" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
