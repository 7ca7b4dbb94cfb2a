"""Files that the system is asked to forget."""

import os
import sys
from pathlib import Path

import pytest

from train.doctor.cold import cached_share, forget, total_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="posix_fadvise and mincore")


@pytest.fixture
def files(tmp_path):
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(os.urandom(100_000))
        paths.append(str(path))
    return paths


def test_what_was_just_written_is_in_memory(files):
    assert cached_share(files) == 1.0
    assert total_bytes(files) == 300_000


def test_forgetting_changes_no_content_and_raises_nothing(files, tmp_path):
    before = [Path(path).read_bytes() for path in files]
    forget([*files, str(tmp_path / "gone"), str(tmp_path)])
    assert 0.0 <= cached_share(files) <= 1.0
    assert [Path(path).read_bytes() for path in files] == before


def test_what_is_unknown_counts_as_cached(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert cached_share([]) == 1.0
    assert cached_share([str(tmp_path / "gone"), str(tmp_path / "empty")]) == 1.0
    assert total_bytes([str(tmp_path / "gone")]) == 0
