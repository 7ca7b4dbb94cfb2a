"""What several test files share: image folders, the bad data, and an end to every wait."""

import multiprocessing
import os
import signal
import sys
import tarfile
from pathlib import Path

import bad_data as bad_data_files
import pictures
import processes
import pytest
import ranks

# Before torch is imported: threads that wait sleep, or a busy machine is ten times as slow.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A shell starts what runs in its background with SIGINT ignored, and children inherit that: the
# tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# So does nohup with SIGHUP.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# One server forks all processes of this kind, and it heeds this only before its start: a test of
# loader workers may start it, and each rank of later tests would import all of it anew.
multiprocessing.get_context("forkserver").set_forkserver_preload(ranks.PRELOADED)

DEADLINE_S = 300


@pytest.fixture
def deadline():
    """End a test that waits for what never comes; forked children inherit no alarm."""

    def ring(signum, frame):
        raise TimeoutError(f"the test waited for more than {DEADLINE_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    # Again and again: what is cleaned up after the first one may wait as well.
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_S, 5)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def tree(tmp_path):
    """A folder of 24 small JPEGs in three classes."""
    return pictures.write_tree(tmp_path / "tree")


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """The folder $PHOTOS where it is, else generated JPEGs of the same kinds."""
    folder = os.environ.get("PHOTOS")
    if folder and os.path.isdir(folder):
        return Path(folder)
    return pictures.write_tree(tmp_path_factory.mktemp("photos") / "photos", count=25)


@pytest.fixture(scope="session")
def bad_data(tmp_path_factory):
    """A folder with manifest.json, files/ and trees/: from the archive $BAD_DATA, or generated."""
    folder = tmp_path_factory.mktemp("bad_data")
    archive = os.environ.get("BAD_DATA")
    if archive and os.path.isfile(archive):
        # Links that point nowhere are among the cases, so nothing may be filtered.
        options = {"filter": "fully_trusted"} if hasattr(tarfile, "data_filter") else {}
        with tarfile.open(archive) as file:
            file.extractall(folder, **options)
    else:
        bad_data_files.write(folder)
    return folder


@pytest.fixture
def no_child_left():
    """A test must leave no worker process behind."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    before = set(processes.workers())
    yield
    left = set(processes.workers()) - before
    for worker in multiprocessing.active_children():
        worker.kill()  # or the whole session would wait for it
        worker.join()
    assert not left, f"worker processes left behind: {left}"
