"""Install a conda lock into a folder, without conda.

    conda_install.py --lock conda-lock.yml --prefix .venv

The packages are fetched, held against their hashes and linked by py-rattler, the engine of pixi.
What stands in the folder afterwards is an ordinary conda environment (`conda activate ./.venv`
works). Run again, it completes a half-made one: packages that are whole stay, the others are
installed anew.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import List, Set

try:
    from conda_errors import explain
    from lock_files import CondaPin, LockError, read_conda_lock
except ImportError as missing:
    print(
        f"error: this Python lacks something ({missing}); run it with .tools/bin/python",
        file=sys.stderr,
    )
    sys.exit(2)

ATTEMPTS = 3


def check_hashes(pins: List[CondaPin]) -> None:
    """Refuse a lock with a package that nothing vouches for."""
    for pin in pins:
        for digest, size in ((pin.sha256, 64), (pin.md5, 32)):
            if digest and (len(digest) != size or set(digest) - set("0123456789abcdef")):
                raise LockError(
                    f"{pin.name} has a hash that is none: {digest[:70]!r}; "
                    "restore the lock from git"
                )
        if not pin.sha256 and not pin.md5:
            raise LockError(f"{pin.name} has no hash in the lock; restore the lock from git")


def damaged(prefix: Path, pins: List[CondaPin]) -> Set[str]:
    """Names of locked packages of which a file is missing; drops notes that can't be read.

    rattler writes a package's note in conda-meta after its files, so a package without a note is
    installed again.
    """
    names = set()
    wanted = {note_name(pin): pin for pin in pins}
    for note in (prefix / "conda-meta").glob("*.json"):
        try:
            data = json.loads(note.read_text(encoding="utf-8"))
            pin = wanted.get(note.name)
            if pin is None:
                continue  # rattler removes it
            whole = data["url"] == pin.url
            kind = "sha256" if pin.sha256 else "md5"
            whole = whole and data.get(kind) == getattr(pin, kind)
            whole = whole and all(os.path.lexists(prefix / path) for path in data["files"])
            if not whole:
                names.add(pin.name)
        except (ValueError, KeyError, TypeError):
            note.unlink()
    return names


def note_name(pin: CondaPin) -> str:
    """The file in conda-meta that says that a package is installed."""
    return f"{pin.name}-{pin.version}-{pin.build}.json"


def missing_pins(prefix: Path, pins: List[CondaPin]) -> List[CondaPin]:
    """The locked packages that conda-meta doesn't know."""
    present = {path.name for path in (prefix / "conda-meta").glob("*.json")}
    return [pin for pin in pins if note_name(pin) not in present]


def forget_other_contents(cache: Path, pins: List[CondaPin]) -> None:
    """Drop cached packages of the same name and build that were fetched under another hash.

    rattler 0.25 fetches such a package again and refuses it when the hash is wrong, but it has
    noted the new hash by then: the second try would take the old content for the locked one
    (seen; a test shows it).
    """
    for pin in pins:
        folder = cache / f"{pin.name}-{pin.version}-{pin.build}"
        lock = folder.with_name(folder.name + ".lock")
        # rattler's note: a counter of 8 bytes, then the sha256; nothing where there is an md5 alone
        noted = lock.read_bytes()[8:40].hex() if lock.exists() else ""
        if not pin.sha256 or noted != pin.sha256:
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)


def unpacked_mib(cache: Path, pins: List[CondaPin]) -> float:
    """Size of what the cache holds of these packages, in MiB."""
    total = 0
    for pin in pins:
        for folder, _, names in os.walk(cache / f"{pin.name}-{pin.version}-{pin.build}"):
            total += sum(os.lstat(os.path.join(folder, name)).st_size for name in names)
    return total / 2**20


def install(pins: List[CondaPin], prefix: Path, cache: Path, stall_s: float) -> None:
    """Bring `prefix` to exactly the locked packages.

    Raises:
        LockError: what went wrong, in one line.
    """
    from conda_engine import Progress, install_once, make_records

    records = make_records(pins)
    for attempt in range(1, ATTEMPTS + 1):
        again = damaged(prefix, pins)
        missing = missing_pins(prefix, pins)
        todo = missing + [pin for pin in pins if pin.name in again]
        forget_other_contents(cache, todo)
        progress = Progress(len(todo), stall_s)
        try:
            asyncio.run(install_once(records, prefix, cache, again, progress))
            break
        except Exception as error:  # rattler has its own types; the text says what happened
            left = missing_pins(prefix, pins)
            need = progress.needed_mib() + unpacked_mib(cache, left)
            message, transient = explain(str(error), cache, prefix, len(left), need)
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
        lines = [
            f"+{pin.channel}/{pin.subdir}::{pin.name}-{pin.version}-{pin.build}" for pin in pins
        ]
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        history.write_text(
            f"==> {stamp} <==\n# cmd: conda_install.py\n" + "\n".join(lines) + "\n",
            encoding="utf-8",
        )
    left = damaged(prefix, pins)
    left |= {pin.name for pin in missing_pins(prefix, pins)}
    if left:
        raise LockError(
            f"after installing, {', '.join(sorted(left)[:5])} are not whole in {prefix}; delete it"
        )


def cache_folder(prefix: Path) -> Path:
    """Where fetched packages are kept: for all checkouts; not pixi's, see forget_other_contents."""
    home = os.environ.get("HOME", "")
    base = os.environ.get("XDG_CACHE_HOME") or (home and os.path.join(home, ".cache"))
    if not base or not os.access(
        os.path.dirname(base) if not os.path.exists(base) else base, os.W_OK
    ):
        base = str(prefix.parent / ".cache")  # no home, or one that is not ours
    return Path(base, "wellfed", "conda")


def run(args: argparse.Namespace) -> None:
    """Read, check, install.

    Raises:
        LockError: what is wrong, in one line.
    """
    pins = read_conda_lock(args.lock)
    check_hashes(pins)
    prefix = args.prefix.absolute()
    if (prefix / "pyvenv.cfg").exists() or (prefix.exists() and not prefix.is_dir()):
        raise LockError(
            f"{prefix} is not a conda environment; delete it, or choose another --prefix"
        )
    try:
        from conda_engine import check_machine
    except ImportError as error:
        raise LockError(
            f"py-rattler is not usable ({error}); run this with .tools/bin/python"
        ) from None
    check_machine(pins)
    cache = (args.cache or cache_folder(prefix)).absolute()
    try:
        (prefix / "conda-meta").mkdir(parents=True, exist_ok=True)
        cache.mkdir(parents=True, exist_ok=True)
        install(pins, prefix, cache, args.stall)
    except OSError as error:
        raise LockError(
            f"cannot write {error.filename or prefix}: {error.strerror or error}"
        ) from None
    print(f"conda: {len(pins)} packages of {args.lock} are in {prefix}")


def main() -> None:
    """Install; exit with 0, 2 (a message says why) or 130 (Ctrl-C)."""
    parser = argparse.ArgumentParser(
        description="Install a conda-lock.yml into a folder, without conda."
    )
    parser.add_argument("--lock", type=Path, required=True, help="the conda-lock.yml")
    parser.add_argument("--prefix", type=Path, required=True, help="the environment's folder")
    parser.add_argument(
        "--cache",
        type=Path,
        help="where fetched packages are kept (default: ~/.cache/wellfed/conda)",
    )
    parser.add_argument(
        "--stall", type=float, default=60.0, help="seconds without a byte until a try ends"
    )
    code = 0
    try:
        run(parser.parse_args())
    except LockError as error:
        code = 2
        print("error: " + " ".join(str(error).split()), file=sys.stderr)
    except KeyboardInterrupt:
        code = 130
        print(
            "interrupted: the environment is half made; run the same again to complete it",
            file=sys.stderr,
        )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(
        code
    )  # rattler's threads may still hold a connection: nothing of theirs is worth waiting for


if __name__ == "__main__":
    main()
