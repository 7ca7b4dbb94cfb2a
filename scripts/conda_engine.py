"""What `conda_install.py` asks of py-rattler: records from a lock, one try at installing them."""

import asyncio
import platform
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional, Set

import rattler
from lock_files import CondaPin, LockError
from rattler.networking import Client

RETRIES = 3  # rattler's own, for one request
UNPACKED = 4  # what conda packages grow to, about; only for the message of a full disk


class Progress:
    """What rattler reports: bytes fetched, the last sign of life, sizes for messages."""

    def __init__(self, total: int, stall_s: float, stream=sys.stdout):
        self.total, self.stall_s, self.stream = total, stall_s, stream
        self.linked = 0
        self.sizes: Dict[int, List[int]] = {}
        self.open: Dict[int, str] = {}
        self.tokens = 0
        self.alive = time.monotonic()
        self._shown = -1

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:
        """A package begins its way into the cache: asked for, fetched, unpacked."""
        self._sign_of_life()
        self.tokens += 1
        self.open[self.tokens] = package_name
        return self.tokens

    def on_populate_cache_complete(self, cache_entry: int) -> None:
        """A package is whole in the cache."""
        self._sign_of_life()
        self.open.pop(cache_entry, None)

    def on_download_start(self, cache_entry: int) -> int:
        """A download begins; its bytes are counted under the package's token."""
        self._sign_of_life()
        return cache_entry

    def on_download_progress(self, download_idx: int, progress: int, total: Optional[int]) -> None:
        """Bytes came in."""
        self._sign_of_life()
        self.sizes[download_idx] = [progress, total or progress]

    def on_link_complete(self, index: int) -> None:
        """A package stands in the prefix; says so at every tenth of the way."""
        self._sign_of_life()
        self.linked += 1
        tenth = 10 * self.linked // max(self.total, 1)
        if tenth > self._shown:
            self._shown = tenth
            mib = sum(done for done, _ in self.sizes.values()) / 2**20
            print(
                f"conda: {self.linked} of {self.total} packages, {mib:.0f} MiB fetched",
                file=self.stream,
                flush=True,
            )

    def _sign_of_life(self) -> None:
        self.alive = time.monotonic()

    def stalled(self) -> bool:
        """Whether packages are on their way and nothing has come for `stall_s` seconds."""
        return bool(self.open) and time.monotonic() - self.alive > self.stall_s

    def needed_mib(self) -> float:
        """MiB that the open downloads still take, packed and unpacked."""
        return sum(total - done for done, total in self.sizes.values()) / 2**20 * (1 + UNPACKED)

    def __getattr__(self, name: str):
        """Rattler's other callbacks: each is a sign of life; some must hand back a token."""
        if not name.startswith("on_"):
            raise AttributeError(name)

        def callback(*args) -> int:
            self._sign_of_life()
            return 0

        return callback


def make_records(pins: List[CondaPin]) -> list:
    """Rattler's records of the locked packages.

    Raises:
        LockError: a version or a URL is none; names the package.
    """
    records = []
    for pin in pins:
        digests = (
            {"sha256": bytes.fromhex(pin.sha256)} if pin.sha256 else {"md5": bytes.fromhex(pin.md5)}
        )
        numbers = (pin.name, pin.version, pin.build, pin.build_number, pin.subdir)
        try:
            package = rattler.PackageRecord(*numbers, depends=list(pin.depends), **digests)
            records.append(rattler.RepoDataRecord(package, pin.file_name, pin.url, pin.channel))
        except Exception as error:  # rattler has an own type for each kind of bad field
            raise LockError(
                f"{pin.name} in the lock is not usable: {error}; restore it from git"
            ) from None
    return records


def check_machine(pins: List[CondaPin]) -> None:
    """Refuse a machine that the packages can't run on.

    Raises:
        LockError: the platform is another one, or its kernel or C library is too old.
    """
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
                raise LockError(
                    f"{pin.name} needs {need}, this machine has {has}; use ENV_FROM=wheels"
                )


async def install_once(
    records: list, prefix: Path, cache: Path, again: Set[str], progress: Progress
) -> None:
    """Let rattler bring `prefix` to `records`; packages named in `again` are installed anew.

    Raises:
        TimeoutError: the server keeps the connection open and sends nothing.
        Exception: rattler's own errors; the text says what happened.
    """
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
            name = next(iter(progress.open.values()), "")
            cause = f"operation timed out: no data for {progress.stall_s:g} s"
            raise TimeoutError(f"failed to fetch {name}\nCaused by: {cause}")
    work.result()
