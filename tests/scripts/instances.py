"""Copies of the template, as somebody has who cloned it."""

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def git(folder, *words):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def files_of_the_template():
    """What is in the repository, or would be after `git add`."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout, so nobody knows what belongs to it")
    names = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return [name for name in sorted(set(names.split("\0"))) if name and (ROOT / name).is_file()]


def copy_of_the_template(folder):
    for name in files_of_the_template():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "begin")
    return folder


def lend_environment(folder):
    """Give a copy the packages of this environment, in a .venv of its own; nothing is installed.

    The copy has the same locks, so `make env` finds it ready. Its own checkout is what is imported.
    """
    marker = Path(sys.prefix, "wellfed.json")
    if not marker.is_file() or "-" in Path(sys.prefix).name:
        pytest.skip("this is no .venv of make env with the locked versions: nothing to lend")
    own = folder / ".venv"
    venv.create(own, symlinks=True)
    for name in ("python", "python3"):
        (own / "bin" / name).unlink(missing_ok=True)
    (own / "bin/python").symlink_to(Path(sys.executable).resolve())
    (site,) = own.glob("lib/python3*/site-packages")
    (site / "wellfed.pth").write_text(f"{folder}\n{sysconfig.get_path('purelib')}\n")
    made = json.loads(marker.read_text())
    made.update(prefix=str(own), checkout=str(folder))
    lines = ",\n ".join(f"{json.dumps(key)}: {json.dumps(made[key])}" for key in made)
    (own / "wellfed.json").write_text("{" + lines + "}\n")
