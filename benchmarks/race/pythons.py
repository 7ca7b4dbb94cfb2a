"""Finds the Pythons of this machine: on PATH, and pyenv's own folders.

pyenv puts scripts on PATH that choose a Python by the current folder, so every find is asked where
it really is.
"""

import os
import shutil
import subprocess
from pathlib import Path

NEWEST = (3, 13)
"""Newer ones are left out: wheels of some peers were not there yet when the locks were made."""

_ASK = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])"


def _ask(path):
    """The real path and the version of a Python, None when it does not run."""
    try:
        asked = subprocess.run(
            [path, "-I", "-c", _ASK], capture_output=True, text=True, timeout=30, check=True
        )
        executable, version = asked.stdout.split("\n")[:2]
        return executable, tuple(int(part) for part in version.split("."))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _candidates(minor):
    on_path = shutil.which(f"python3.{minor}")
    if on_path:
        yield on_path
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(map(str, root.glob(f"versions/3.{minor}.*/bin/python3.{minor}")))


def find(lowest, highest=NEWEST):
    """The newest Python from `lowest` to `highest`, each (3, minor).

    Returns:
        (path, (3, minor)), or None where there is none.
    """
    for minor in range(highest[1], lowest[1] - 1, -1):
        for path in _candidates(minor):
            found = _ask(path)
            if found and found[1] == (3, minor):
                return found
    return None
