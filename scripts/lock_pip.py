"""Compile a pip lock that completes a conda lock.

    .tools/bin/python scripts/lock_pip.py --conda conda-lock.yml --ask locks/conda-pip.in --lock locks/conda-pip.lock

Every Python package of the conda lock is a constraint and none is written, so that pip never replaces what conda
installed. One wheel a package is listed, the one that pip prefers for CPython 3.9 on linux-64 with glibc 2.28. Beside it
stands what its metadata requires, so that `lock_check.py` can hold it against both locks without a network.
"""

import argparse
import email
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Set, Tuple

from lock_files import CondaPin, LockError, PipPin, normal_name, pypi_name, read_conda_lock, read_pip_lock
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

try:
    import tomllib
except ImportError:  # Python < 3.11: pip carries one for itself
    from pip._vendor import tomli as tomllib

PYTHON = (3, 9)
GLIBC = 28  # torch 2.6's own wheels need glibc 2.28, so nothing is won by asking for an older one
TIMEOUT_S = 60


class Wheel(NamedTuple):
    """One file of a locked package."""

    name: str
    url: str
    sha256: str


def fitting_tags() -> Dict[Tag, int]:
    """The wheel tags that CPython 3.9 on linux-64 with glibc 2.28 accepts, with their rank (0 is best)."""
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC, 4, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    interpreter = f"cp{PYTHON[0]}{PYTHON[1]}"
    tags = [*cpython_tags(PYTHON, [interpreter], platforms)]
    tags += compatible_tags(PYTHON, interpreter, platforms)
    return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}


def split_ask(path: Path) -> Tuple[List[str], List[PipPin], List[str]]:
    """The three kinds of line in a `.in` file: options, lines fixed by a hash, requirements to solve."""
    fixed, options, asked = [], [], []
    block: List[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("-"):
            options.append(text)
        elif "--hash=" in text or (line.startswith(" ") and block):
            block.append(line)
        elif text and not text.startswith("#"):
            asked.append(text)
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder, path.name)
        part.write_text("\n".join(block), encoding="utf-8")
        fixed = read_pip_lock(part)
    return options, fixed, asked


def solve(asked: List[str], constraints: List[str], from_source: Set[str], folder: Path) -> List[dict]:
    """uv's answer for CPython 3.9 on linux-64: one dictionary a package, with its files."""
    (folder / "asked.in").write_text("\n".join(asked) + "\n", encoding="utf-8")
    (folder / "conda.txt").write_text("\n".join(constraints) + "\n", encoding="utf-8")
    answer = folder / "pylock.toml"
    command = [str(Path(sys.executable).parent / "uv"), "pip", "compile", "--quiet", "--no-config"]
    command += ["--no-python-downloads", "--python", sys.executable]
    command += ["--python-version", ".".join(map(str, PYTHON))]
    command += ["--python-platform", f"x86_64-manylinux_2_{GLIBC}", "--only-binary", ":all:"]
    command += [part for name in sorted(from_source) for part in ("--no-binary", name)]
    command += ["--constraint", str(folder / "conda.txt"), str(folder / "asked.in")]
    command += ["--format", "pylock.toml", "--output-file", str(answer)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise LockError(f"uv found no solution:\n{done.stderr.strip()}")
    return tomllib.loads(answer.read_text(encoding="utf-8"))["packages"]


def best_file(package: dict, ranks: Dict[Tag, int], from_source: Set[str]) -> Wheel:
    """The package's wheel that pip prefers on this platform; its sdist where the `.in` file says --no-binary."""
    found = []
    for entry in package.get("wheels", ()):
        name = _file_name(entry)
        fits = [ranks[tag] for tag in parse_wheel_filename(name)[3] if tag in ranks]
        if fits:
            found.append((min(fits), Wheel(name, entry["url"], entry["hashes"]["sha256"])))
    if normal_name(package["name"]) in from_source:
        entry = package["sdist"]
        found = [(0, Wheel(_file_name(entry), entry["url"], entry["hashes"]["sha256"]))]
    if not found:
        raise LockError(f"{package['name']} {package['version']} has no wheel for this platform")
    return min(found)[1]


def _file_name(entry: dict) -> str:
    return entry.get("name") or urllib.parse.unquote(entry["url"].rsplit("/", 1)[-1])


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return answer.read()


def metadata(wheel: Wheel) -> bytes:
    """The wheel's METADATA: the file beside it where the index has one, else out of the wheel."""
    try:
        return _get(wheel.url + ".metadata")
    except urllib.error.HTTPError:
        data = _get(wheel.url)
    if hashlib.sha256(data).hexdigest() != wheel.sha256:
        raise LockError(f"{wheel.name} has another sha256 than the index says")
    if wheel.name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return archive.extractfile(f"{wheel.name[: -len('.tar.gz')]}/PKG-INFO").read()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        inside = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return archive.read(inside[0])


def needed(text: bytes, extras: Set[str]) -> Iterator[Requirement]:
    """What the metadata requires on this lock's platform, with these extras; markers are evaluated."""
    around = dict(default_environment())
    around.update(python_version="3.9", python_full_version="3.9.23", implementation_version="3.9.23")
    around.update(sys_platform="linux", platform_system="Linux", platform_machine="x86_64", os_name="posix")
    around.update(implementation_name="cpython", platform_python_implementation="CPython")
    for line in email.message_from_bytes(text).get_all("Requires-Dist") or ():
        requirement = Requirement(line)
        marker, requirement.marker = requirement.marker, None
        if marker is None or any(marker.evaluate(dict(around, extra=e)) for e in {"", *extras}):
            yield requirement


def all_needed(texts: Dict[str, bytes], asked: List[str]) -> Dict[str, Set[str]]:
    """What each package requires; extras that a requirement asks for are followed."""
    extras: Dict[str, Set[str]] = {name: set() for name in texts}
    todo = [Requirement(line) for line in asked]
    while True:
        for requirement in todo:
            extras.setdefault(normal_name(requirement.name), set()).update(requirement.extras)
        found = {name: list(needed(text, extras[name])) for name, text in texts.items()}
        todo = [requirement for requirements in found.values() for requirement in requirements]
        if not any(r.extras - extras.get(normal_name(r.name), set()) for r in todo):
            break
    return {
        name: {str(r) for r in requirements if normal_name(r.name) != name}
        for name, requirements in found.items()
    }


def block(pin: PipPin) -> str:
    """One package of the lock as text."""
    lines = [f"{pin.name}=={pin.version} \\", f"    --hash={pin.hashes[0]}"]
    lines += [f"    # file: {name}" for name in pin.files]
    lines += [f"    # requires: {text}" for text in pin.requires or ("nothing",)]
    return "\n".join(lines) + "\n"


def header(ask: Path, lock: Path, fixed: List[PipPin], options: List[str]) -> str:
    """The lock's first lines: what it is, how to install it, where the hashes come from."""
    lines = [f"What pip installs after the conda lock; `make lock` writes it from {ask.name}. Install with"]
    lines += [f"pip install --require-hashes --no-deps -r {lock.name}"]
    lines += ["One wheel a package: the one for CPython 3.9 on linux-64; below it what its metadata requires."]
    if fixed:
        names = ", ".join(pin.name for pin in fixed)
        lines += [f"{names}: not on PyPI; their hashes are those of {ask.name}, their files were not"]
        lines += ["downloaded to confirm them. pip confirms each one when it installs."]
    return "".join(f"# {line}\n" for line in lines) + "".join(f"{o}\n" for o in options) + "\n"


def compile_lock(conda: List[CondaPin], ask: Path, lock: Path) -> Tuple[str, int]:
    """The whole lock as text, and its number of packages."""
    options, fixed, asked = split_ask(ask)
    by_conda = {pypi_name(pin.name) for pin in conda}
    constraints = sorted({f"{pypi_name(pin.name)}=={pin.version}" for pin in conda if pin.is_python})
    own = {pin.name for pin in fixed}
    from_source = {normal_name(o.split()[1]) for o in options if o.startswith("--no-binary")}
    for pin in fixed:
        asked += [r for r in pin.requires or () if normal_name(Requirement(r).name) not in own]
    with tempfile.TemporaryDirectory() as folder:
        packages = solve(asked, constraints, from_source, Path(folder))
    packages = [p for p in packages if normal_name(p["name"]) not in by_conda]
    ranks = fitting_tags()
    wheels = {normal_name(p["name"]): best_file(p, ranks, from_source) for p in packages}
    requires = all_needed({name: metadata(wheel) for name, wheel in wheels.items()}, asked)
    blocks = {pin.name: block(pin) for pin in fixed}
    for package in packages:
        name = normal_name(package["name"])
        hashes, files = (f"sha256:{wheels[name].sha256}",), (wheels[name].name,)
        pin = PipPin(name, package["version"], "", hashes, tuple(sorted(requires[name])), files)
        blocks[name] = block(pin)
    text = header(ask, lock, fixed, options) + "".join(blocks[name] for name in sorted(blocks))
    return text, len(blocks)


def main() -> int:
    """Compile, write beside, rename."""
    parser = argparse.ArgumentParser(description="Compile a pip lock that completes a conda lock.")
    parser.add_argument("--conda", type=Path, required=True, help="the conda-lock.yml that is installed first")
    parser.add_argument("--ask", type=Path, required=True, help="the .in file: what is asked for")
    parser.add_argument("--lock", type=Path, required=True, help="the lock to write")
    args = parser.parse_args()
    try:
        text, count = compile_lock(read_conda_lock(args.conda), args.ask, args.lock)
    except (LockError, OSError) as error:
        print(f"error: cannot lock {args.ask}: {error}; {args.lock} is as it was", file=sys.stderr)
        return 2
    beside = args.lock.with_name(args.lock.name + ".new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, args.lock)
    print(f"{args.lock}: {count} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
