"""Install a conda lock into a folder, without conda: `conda_install.py --lock conda-lock.yml --prefix .venv`.

The packages are fetched, held against their hashes and linked by py-rattler, the engine of pixi. What stands in the
folder afterwards is an ordinary conda environment (`conda activate ./.venv` works). Run again, it completes a
half-made one: packages that are whole stay, the others are installed anew.
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional, Set

from conda_errors import explain
from lock_files import CondaPin, LockError, read_conda_lock

PLATFORM = "linux-64"
ATTEMPTS = 3
RETRIES = 3  # rattler's own, for one request
STALL_S = 60.0  # no byte of any download for so long: the connection is dead


class Progress:
    """What rattler reports: bytes for the line shown, the time of the last sign of life, sizes for messages."""

    def __init__(self, total: int, stream=sys.stdout):
        self.total, self.stream = total, stream
        self.linked = 0
        self.sizes: Dict[int, List[int]] = {}
        self.running: Set[int] = set()
        self.alive = time.monotonic()
        self._shown = -1

    def on_download_start(self, cache_entry: int) -> int:
        """A download begins."""
        self._sign_of_life()
        self.running.add(cache_entry)
        return cache_entry

    def on_download_progress(self, download_idx: int, progress: int, total: Optional[int]) -> None:
        """Bytes came in."""
        self._sign_of_life()
        self.sizes[download_idx] = [progress, total or progress]

    def on_download_completed(self, download_idx: int) -> None:
        """A download is whole."""
        self._sign_of_life()
        self.running.discard(download_idx)

    def on_link_complete(self, index: int) -> None:
        """A package stands in the prefix; says so at every tenth of the way."""
        self._sign_of_life()
        self.linked += 1
        tenth = 10 * self.linked // max(self.total, 1)
        if tenth > self._shown:
            self._shown = tenth
            mib = sum(done for done, _ in self.sizes.values()) / 2**20
            print(f"conda: {self.linked} of {self.total} packages, {mib:.0f} MiB fetched", file=self.stream, flush=True)

    def _sign_of_life(self) -> None:
        self.alive = time.monotonic()

    def stalled(self) -> bool:
        """Whether downloads are open and nothing has come for STALL_S seconds."""
        return bool(self.running) and time.monotonic() - self.alive > STALL_S

    def missing_mib(self) -> float:
        """MiB of the downloads begun that are not here yet."""
        return sum(total - done for done, total in self.sizes.values()) / 2**20

    def __getattr__(self, name: str):
        """rattler's other callbacks: each is a sign of life, those that begin something hand back a token."""
        if not name.startswith("on_"):
            raise AttributeError(name)

        def callback(*args) -> int:
            self._sign_of_life()
            return 0

        return callback


def make_records(pins: List[CondaPin]) -> list:
    """rattler's records of the locked packages."""
    import rattler

    records = []
    for pin in pins:
        digests = {"sha256": bytes.fromhex(pin.sha256)} if pin.sha256 else {"md5": bytes.fromhex(pin.md5)}
        package = rattler.PackageRecord(
            pin.name, pin.version, pin.build, pin.build_number, pin.subdir, depends=list(pin.depends), **digests
        )
        records.append(rattler.RepoDataRecord(package, pin.file_name, pin.url, pin.channel))
    return records


def check_machine(pins: List[CondaPin]) -> None:
    """Refuse a machine that the packages can't run on.

    Raises:
        LockError: the platform is another one, or its kernel or C library is too old.
    """
    import rattler

    here = f"{platform.system()} on {platform.machine()}"
    if here != "Linux on x86_64":
        raise LockError(f"the lock is for Linux on x86_64 and this is {here}; use ENV_FROM=wheels")
    found = {}
    for virtual in rattler.VirtualPackage.detect():
        generic = virtual.into_generic()
        name, version = generic.name.source, str(generic.version)
        found[name] = rattler.PackageRecord(name, version, generic.build_string or "0", 0, "noarch")
    for pin in pins:
        for need in pin.depends:
            name = need.split(" ")[0]
            if not name.startswith("__") or name == "__cuda":
                continue  # the image is built on machines without a GPU
            if name not in found or not rattler.MatchSpec(need).matches(found[name]):
                has = str(found[name].version) if name in found else "none"
                raise LockError(f"{pin.name} needs {need}, this machine has {has}; use ENV_FROM=wheels")


def check_hashes(pins: List[CondaPin]) -> None:
    """Refuse a lock with a package that nothing vouches for."""
    for pin in pins:
        for digest, size in ((pin.sha256, 64), (pin.md5, 32)):
            if digest and (len(digest) != size or set(digest) - set("0123456789abcdef")):
                raise LockError(f"{pin.name} has a hash that is none: {digest[:70]!r}; restore the lock from git")
        if not pin.sha256 and not pin.md5:
            raise LockError(f"{pin.name} has no hash in the lock; restore the lock from git")


def damaged(prefix: Path, pins: List[CondaPin]) -> Set[str]:
    """Names of locked packages of which a file is missing; removes notes of packages that can't be read.

    rattler writes a package's note in conda-meta after its files, so a package without a note is installed again.
    """
    names = set()
    wanted = {f"{pin.name}-{pin.version}-{pin.build}.json": pin for pin in pins}
    for note in (prefix / "conda-meta").glob("*.json"):
        try:
            data = json.loads(note.read_text(encoding="utf-8"))
            pin = wanted.get(note.name)
            if pin is None:
                continue  # rattler removes it
            whole = data["url"] == pin.url and (not pin.sha256 or data.get("sha256") == pin.sha256)
            whole = whole and all(os.path.lexists(prefix / path) for path in data["files"])
            if not whole:
                names.add(pin.name)
        except (ValueError, KeyError, TypeError):
            note.unlink()
    return names


async def _install(records: list, prefix: Path, cache: Path, again: Set[str], progress: Progress) -> None:
    import rattler
    from rattler.networking import Client

    client = Client.default_client(max_retries=RETRIES, user_agent="wellfed")
    work = asyncio.ensure_future(
        rattler.install(
            records,
            prefix,
            cache_dir=cache,
            reinstall_packages=again,
            show_progress=False,
            client=client,
            reporter=progress,
        )
    )
    while not work.done():
        await asyncio.wait([work], timeout=1.0)
        if progress.stalled():
            work.cancel()
            raise TimeoutError(f"operation timed out: no data for {STALL_S:.0f} s")
    work.result()


def install(pins: List[CondaPin], prefix: Path, cache: Path) -> None:
    """Bring `prefix` to exactly the locked packages.

    Raises:
        LockError: what went wrong, in one line.
    """
    for attempt in range(1, ATTEMPTS + 1):
        again = damaged(prefix, pins)
        present = {p.name for p in (prefix / "conda-meta").glob("*.json")}
        todo = [p for p in pins if p.name in again or f"{p.name}-{p.version}-{p.build}.json" not in present]
        progress = Progress(len(todo))
        try:
            asyncio.run(_install(make_records(pins), prefix, cache, again, progress))
            break
        except Exception as error:  # rattler has its own types; the text says what happened
            message, transient = explain(str(error), cache, prefix, len(pins) - len(todo), progress.missing_mib())
            if not transient or attempt == ATTEMPTS:
                raise LockError(message) from None
            print(f"conda: {message}; trying again ({attempt + 1} of {ATTEMPTS})", flush=True)
    finish(prefix, pins)


def finish(prefix: Path, pins: List[CondaPin]) -> None:
    """Make every user able to read conda's notes, begin the history, and see that all is there."""
    notes = prefix / "conda-meta"
    for note in notes.glob("*.json"):
        note.chmod(0o644)  # rattler writes 0600; an image's user is not always the one who built it
    history = notes / "history"
    if not history.exists() or not history.read_text(encoding="utf-8").strip():
        lines = [f"+{pin.channel}/{pin.subdir}::{pin.name}-{pin.version}-{pin.build}" for pin in pins]
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        history.write_text(f"==> {stamp} <==\n# cmd: conda_install.py\n" + "\n".join(lines) + "\n", encoding="utf-8")
    left = damaged(prefix, pins)
    present = {path.name for path in notes.glob("*.json")}
    left |= {p.name for p in pins if f"{p.name}-{p.version}-{p.build}.json" not in present}
    if left:
        raise LockError(f"after installing, {', '.join(sorted(left)[:5])} are not whole in {prefix}; delete it")
