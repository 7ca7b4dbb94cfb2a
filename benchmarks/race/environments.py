"""A throwaway environment for each peer, from its lock file alone; kept in build/bench-envs/.

A peer that cannot be installed is `Unavailable`, with the reason: it is printed, never left out in
silence.
"""

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple, Tuple

from race import pythons

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "benchmarks" / "peers"
ENVIRONMENTS = ROOT / "build" / "bench-envs"
INSTALL_S = 1800
FORMAT = 1
"""Raised when environments are made in another way: old ones are then made anew."""

# scripts/env/ways.sh knows how packages are reached here: index, proxy, certificates.
_SETTINGS = '. "$1"; clean_settings; pip_settings "$2"; shift 2; exec "$@"'


class Unavailable(Exception):
    """This peer can't run here; the message says why and what would help."""


class Peer(NamedTuple):
    """What a peer's environment needs.

    Attributes:
        name: of its folder in benchmarks/peers/.
        pythons: lowest and highest Python that its lock was made for.
        imports: what must import afterwards.
        libraries: names for pkg-config that building it needs, with Debian's package for each.
        runs: the folder whose run.py it runs; "": its own.
    """

    name: str
    pythons: Tuple[Tuple[int, int], Tuple[int, int]] = ((3, 11), pythons.NEWEST)
    imports: str = ""
    libraries: Tuple[Tuple[str, str], ...] = ()
    runs: str = ""

    @property
    def lock(self):
        """The file that pins every package with its hash."""
        return PEERS / self.name / "requirements.lock"

    @property
    def script(self):
        """The program that runs this peer's arms."""
        return PEERS / (self.runs or self.name) / "run.py"


PY39 = ((3, 9), (3, 9))
PEER_LIST = (
    Peer("torchvision", PY39, "torchvision"),
    Peer("torchvision_new", imports="torchvision", runs="torchvision"),
    Peer("timm", imports="timm"),
    Peer("webdataset", imports="webdataset"),
    Peer("litdata", imports="litdata"),
    Peer("streaming", imports="streaming"),
    Peer(
        "ffcv",
        PY39,
        "ffcv",
        (("opencv4", "libopencv-dev"), ("libturbojpeg", "libturbojpeg0-dev")),
    ),
    Peer("dali", imports="nvidia.dali"),
    Peer("spdl", imports="spdl.io, spdl.io.lib"),
    Peer("grain", imports="grain"),
    Peer("written", imports="cv2, simplejpeg, grain"),
)
PEER_OF = {peer.name: peer for peer in PEER_LIST}


def _installer():
    """The path of uv where it is found, else None: pip serves too, more slowly."""
    tools = Path(os.environ.get("TOOLS") or ROOT / ".tools") / "bin" / "uv"
    return str(tools) if tools.exists() else shutil.which("uv")


@functools.cache
def _cache_folder(uv):
    """Where uv keeps what it downloads: its own cache if files can be hard-linked from there.

    Five environments hold the same PyTorch of 5 GB: with links it lies on the disk once.
    """
    asked = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=False)
    folder, trial = Path(asked.stdout.strip()), ENVIRONMENTS / "link-trial"
    trial.unlink(missing_ok=True)
    try:
        os.link(folder / "CACHEDIR.TAG", trial)
        trial.unlink()
        return str(folder)
    except OSError:  # another file system, another mount of the same one, or no cache yet
        return str(ENVIRONMENTS / "cache")


def _last_words(text, count=3):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-count:])[-400:]


def _run(command, log, what, settings=False):
    """Run one step; Unavailable with the end of its output when it fails."""
    if settings:
        ways = str(ROOT / "scripts" / "env" / "ways.sh")
        command = ["bash", "-c", _SETTINGS, "bash", ways, sys.executable, *command]
    with open(log, "ab") as file:
        start = file.tell()
        try:
            code = subprocess.run(
                command, stdout=file, stderr=subprocess.STDOUT, timeout=INSTALL_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{what} took longer than {INSTALL_S} s; see {log}") from None
    if code:
        with open(log, "rb") as file:
            file.seek(start)
            said = file.read().decode(errors="replace")
        raise Unavailable(f"{what} failed: {_last_words(said)} (all of it: {log})")


def _require_libraries(peer):
    """What a source build needs is asked for first: a failed build says less."""
    for name, package in peer.libraries:
        try:
            found = subprocess.run(["pkg-config", "--exists", name], check=False).returncode == 0
        except OSError:
            raise Unavailable("it is built from source, and pkg-config is missing") from None
        if not found:
            raise Unavailable(
                f"it is built from source and pkg-config finds no {name} "
                f"(on Debian and Ubuntu: apt-get install {package})"
            )


def _install(peer, base, folder, log):
    python = str(folder / "bin" / "python")
    uv = _installer()
    # The lock constrains what a source build gets, too.
    lock = str(peer.lock)
    if uv:
        os.environ.update(UV_CACHE_DIR=_cache_folder(uv), UV_LINK_MODE="hardlink")
        _run([uv, "venv", "--quiet", "--python", base, str(folder)], log, "making it", True)
        # As pip does it: else every start of an arm would compile its packages again.
        command = [uv, "pip", "sync", "--compile-bytecode", "--python", python, "--require-hashes"]
        _run([*command, "--build-constraints", lock, lock], log, "installing", True)
        return
    _run([base, "-I", "-m", "venv", str(folder)], log, "making it")
    command = [python, "-m", "pip", "install", "--require-hashes", "--no-deps", "-r", lock]
    _run(command, log, "installing", True)


def python_of(peer, say=print):
    """The Python of a peer's environment, which is made when it is missing or of another lock.

    Raises:
        Unavailable: it can't be made, or what it holds does not import.
    """
    base = pythons.find(*peer.pythons)
    if base is None:
        low, high = (f"{major}.{minor}" for major, minor in peer.pythons)
        wanted = f"Python {low}" if low == high else f"Python {low} to {high}"
        raise Unavailable(f"it needs {wanted}, and none was found on PATH or among pyenv's")
    _require_libraries(peer)
    folder, log = ENVIRONMENTS / peer.name, ENVIRONMENTS / f"{peer.name}.log"
    lock = hashlib.sha256(peer.lock.read_bytes()).hexdigest()
    stamp = {"format": FORMAT, "lock": lock, "python": base[0]}
    marker = folder / "bench.json"
    if not (marker.exists() and json.loads(marker.read_text()) == stamp):
        ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        log.unlink(missing_ok=True)
        begin = time.monotonic()
        say(f"{peer.name}: installing {peer.lock.relative_to(ROOT)} for Python 3.{base[1][1]} ...")
        _install(peer, base[0], folder, log)
        if peer.imports:
            command = [str(folder / "bin" / "python"), "-c", f"import {peer.imports}"]
            _run(command, log, "importing it")
        marker.write_text(json.dumps(stamp))
        say(f"{peer.name}: installed in {time.monotonic() - begin:.0f} s")
    return str(folder / "bin" / "python")
