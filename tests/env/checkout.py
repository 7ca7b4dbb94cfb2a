"""A small checkout with a fake torch on a loopback index: `env.sh` runs for real, in a second."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional

import loopback

ROOT = Path(__file__).resolve().parents[2]
BASE_PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
TORCH = '__version__ = "2.6.0+cu124"\n\n\nclass version:\n    cuda = "12.4"\n'
PROGRAMS = (
    "awk bash cat chmod cut date df dirname env find flock grep head ls mkdir mv readlink rm rmdir"
    " sed sh sha256sum sleep stat tail"
)


def tools_folder() -> Optional[Path]:
    """The tools that `make env` made in the checkout, or those the variable TOOLS names."""
    folder = Path(os.environ.get("TOOLS") or ROOT / ".tools")
    return folder if (folder / "bin" / "uv").exists() else None


class Checkout:
    """A copy of what `env.sh` needs; `server` serves its wheels and notes each request."""

    def __init__(self, folder: Path, server, index: Path):
        self.folder, self.server, self.index = folder, server, index
        self.lock = folder / "small.lock"
        self.hashes: Dict[str, str] = {}
        shutil.copytree(
            ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copy(ROOT / "Makefile", folder)
        (folder / "locks").mkdir()
        for name in ("requirements.lock", "current.lock", "tools.lock"):
            shutil.copy(ROOT / "locks" / name, folder / "locks")
        (folder / "train").mkdir()
        (folder / "train" / "__init__.py").touch()
        (folder / "train" / "__main__.py").write_text(
            "def main():\n    import sys\n\n    print(sys.argv[1:])\n"
        )
        self.add_wheel("torch", "2.6.0", TORCH)
        self.write_lock("torch==2.6.0")

    def add_wheel(self, name: str, version: str, module: str) -> None:
        """Put a wheel on the index."""
        digest = loopback.wheel(self.index / "files", name, version, module)
        self.hashes[f"{name}=={version}"] = digest
        loopback.simple_index(self.index)

    def write_lock(self, *pins: str, spoil: bool = False) -> None:
        """Lock these `name==version` wheels; `spoil` writes hashes of nothing."""
        lines = [
            f"{pin} \\\n    --hash=sha256:{'0' * 64 if spoil else self.hashes[pin]}\n"
            for pin in pins
        ]
        self.lock.write_text("".join(lines))

    def environ(self, **settings: str) -> Dict[str, str]:
        """What `env.sh` sees: nothing of the caller's but PATH, and these settings."""
        home = self.folder.parent / "home"
        home.mkdir(exist_ok=True)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "UV_CACHE_DIR": str(self.folder.parent / "uv cache"),
            "UV_DEFAULT_INDEX": f"{self.server.url}/simple",
            "PIP_INDEX_URL": f"{self.server.url}/simple",
            "UV_HTTP_RETRIES": "0",
            "PIP_RETRIES": "0",
            "NO_PROXY": "127.0.0.1",
            "PIP_LOCK": str(self.lock),
            "TOOLS": str(tools_folder()),
            "PYTHON": BASE_PYTHON,
            "NEED_GB": "0",
        }
        env.update(settings)
        return {key: value for key, value in env.items() if value != ""}

    def start(self, *arguments: str, **settings: str) -> subprocess.Popen:
        """Start `env.sh`; its output is one text."""
        return subprocess.Popen(
            ["bash", str(self.folder / "scripts" / "env.sh"), *arguments],
            env=self.environ(**settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, **settings: str) -> "Result":
        """Run `env.sh` to its end."""
        return finish(self.start(*arguments, **settings))

    def marker(self, folder: str = ".venv") -> dict:
        """The marker, or nothing."""
        file = self.folder / folder / "wellfed.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def installed(self) -> List[str]:
        """Names of what lies in the environment's site-packages."""
        return sorted(
            p.name for p in self.folder.glob(".venv/lib/python3*/site-packages/*.dist-info")
        )

    def wait_for(self, what: str) -> None:
        """Wait until the log has this text; a minute at most."""
        log = self.folder / ".cache" / "env.log"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if log.exists() and what in log.read_text():
                return
            time.sleep(0.02)
        raise AssertionError(f"{what!r} never came into {log}")


class Result:
    """Exit code and text of a run that has ended."""

    def __init__(self, code: int, text: str):
        self.code, self.text = code, text

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.text}"

    @property
    def errors(self) -> List[str]:
        """The lines that say what is wrong."""
        return re.findall(r"^error: (.*)$", self.text, re.MULTILINE)


def finish(process: subprocess.Popen) -> Result:
    """Wait for the end, two minutes at most."""
    try:
        text, _ = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Result(process.returncode, text)


def bare_path(folder: Path, python3: str = "") -> str:
    """A PATH of a few programs and no Python but this script, if any."""
    folder.mkdir()
    for name in PROGRAMS.split():
        found = shutil.which(name)
        assert found, f"{name} is missing here"
        (folder / name).symlink_to(found)
    if python3:
        script = folder / "python3"
        script.write_text(f"#!/bin/sh\n{python3}\n")
        script.chmod(0o755)
    return str(folder)
