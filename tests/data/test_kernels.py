"""Where compiled kernels are kept, and that numba is imported only when it is needed."""

import os
import re
import subprocess
import sys
import tempfile
import warnings

import pytest

from train.data import kernels


def python(code, **environment):
    """Run code in a new process of its own; its standard output."""
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return found.stdout.strip()


def test_the_line_is_imported_without_numba():
    code = "import sys, train.data, train.config; print('numba' in sys.modules)"
    assert python(code) == "False"


def test_kernels_are_kept_in_the_users_cache(tmp_path):
    code = "import train.data.kernels, numba; print(numba.config.CACHE_DIR)"
    found = python(code, XDG_CACHE_HOME=str(tmp_path))
    assert os.path.dirname(found) == str(tmp_path / "wellfed" / "numba")
    found = python(code, NUMBA_CACHE_DIR=str(tmp_path / "own"))
    assert os.path.dirname(found) == str(tmp_path / "own")


def test_a_change_of_any_kernel_gets_a_folder_of_its_own(tmp_path):
    """numba looks at the file of a kernel alone, not at those of the kernels that it calls."""
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    for file in files:
        file.write_text("1")
    before = kernels.version(files)
    assert before == kernels.version(files)
    files[1].write_text("2")
    assert kernels.version(files) != before
    names = {file.name for file in kernels.sources()}
    assert {"resize_kernels.py", "splice.py", "crc32c_kernels.py", "kernels.py"} <= names


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A user's folders: no cache (its place is a file), and one for temporary files."""
    (tmp_path / "cache").write_text("")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


def test_without_a_cache_they_are_kept_in_a_temporary_folder_and_it_is_said(temporary):
    with pytest.warns(UserWarning, match=r"cannot be written, .* set NUMBA_CACHE_DIR"):
        folder = kernels.cache_folder()
    assert folder == temporary / f"wellfed-numba-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_can_write_to_is_never_taken(temporary, mode):
    """numba unpickles what it finds there."""
    planted = temporary / f"wellfed-numba-{os.getuid()}"
    planted.mkdir()
    planted.chmod(mode)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = kernels.cache_folder()
    assert folder != planted
    assert re.fullmatch(r"wellfed-numba-\w+", folder.name)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_somebody_else_is_never_taken(temporary, monkeypatch):
    (temporary / f"wellfed-numba-{os.getuid() + 1}").mkdir(mode=0o700)
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = kernels.cache_folder()
    assert folder.name != f"wellfed-numba-{other}"
