"""The loopback channel that the conda tests install from, and one way to run the installer."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator

import loopback

PLACEHOLDER = "/opt/placeholder_" + "x" * 200
NAMES = ("python", "pip", "native", "hello")
ACTIVATE = b"export NATIVE_WAS_ACTIVATED=$CONDA_PREFIX\n"


def build(folder: Path) -> None:
    """Write four packages: a Python that runs, pip, a library with prefixes, a noarch program."""
    version = "{}.{}.{}".format(*sys.version_info[:3])
    files = loopback.python_files()
    config = next(path for path in files if "_sysconfigdata" in path)
    prefixes = {config: (sys.base_prefix, "text")}
    loopback.conda_package(folder, "python", version, "h1_0", files, prefixes=prefixes)
    loopback.conda_package(
        folder,
        "pip",
        "26.0",
        "py_0",
        loopback.pip_files(),
        depends=["python >=3.9"],
        noarch="python",
        entry_points=["pip = pip._internal.cli.main:main"],
    )
    loopback.conda_package(
        folder,
        "native",
        "2.1",
        "h2_3",
        {
            "lib/native.bin": b"\0\1" + PLACEHOLDER.encode() + b"/lib\0tail",
            "etc/native.conf": f"root={PLACEHOLDER}/share\n".encode(),
            "etc/conda/activate.d/native.sh": ACTIVATE,
        },
        depends=["__glibc >=2.17,<3.0.a0"],
        prefixes={
            "lib/native.bin": (PLACEHOLDER, "binary"),
            "etc/native.conf": (PLACEHOLDER, "text"),
        },
    )
    loopback.conda_package(
        folder,
        "hello",
        "1.0",
        "py_0",
        {"site-packages/hello.py": b"def main():\n    print('hello from', __file__)\n"},
        depends=["python >=3.9", "native >=2"],
        noarch="python",
        entry_points=["hello = hello:main"],
    )


class Channel:
    """The served channel, with its lock as text."""

    def __init__(self, folder: Path, server):
        self.folder, self.server = folder, server
        lock = folder / "conda-lock.yml"
        script = Path(__file__).with_name("solve_channel.py")
        command = [str(loopback.tools_python()), str(script), str(folder), server.url, str(lock)]
        done = subprocess.run(
            [*command, "hello", "pip"], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        self.lock = lock.read_text()

    def file_of(self, name: str) -> str:
        """The file name of a package."""
        return re.search(rf"/({name}-[^/\s]+)$", self.lock, flags=re.M).group(1)

    def spoiled(self, name: str, pattern: str, replacement: str) -> str:
        """The lock with one package's entry changed."""
        found = re.search(rf"^- name: {name}\n.*?(?=^- name: |\Z)", self.lock, flags=re.M | re.S)
        entry, count = re.subn(pattern, replacement, found.group(0))
        assert count
        return self.lock.replace(found.group(0), entry)


@contextmanager
def served(folder: Path) -> Iterator[Channel]:
    """Build the channel in `folder`, serve it, solve it and lock it."""
    build(folder)
    with loopback.serve(folder) as server:
        yield Channel(folder, server)


class Place:
    """A prefix, a cache and a lock in a test's own folder."""

    def __init__(self, folder: Path, channel: Channel):
        self.folder, self.prefix, self.cache = folder, folder / "env", folder / "cache"
        self.lock = folder / "lock.yml"
        self.channel = channel

    def command(self, lock: str, *more: str) -> list:
        self.lock.write_text(lock)
        script = loopback.ROOT / "scripts" / "conda_install.py"
        paths = ["--lock", self.lock, "--prefix", self.prefix, "--cache", self.cache]
        return [str(part) for part in (loopback.tools_python(), script, *paths, *more)]

    def start(self, lock: str) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(lock),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ(),
        )

    def install(self, lock: str, *more: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(lock, *more),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=self.environ(),
        )

    def fails(self, lock: str, *more: str) -> str:
        """Install, see that it ends with exit code 2 and one line, and return that line."""
        done = self.install(lock, *more)
        assert done.returncode == 2, done.stdout + done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("error: ")
        return lines[0]

    @staticmethod
    def environ() -> Dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        return {**kept, "NO_PROXY": "127.0.0.1"}

    def run(self, *command: str) -> str:
        """The output of a program of the prefix."""
        done = subprocess.run(
            [str(self.prefix / "bin" / command[0]), *command[1:]],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
