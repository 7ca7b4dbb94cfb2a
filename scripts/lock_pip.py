"""Compile a pip lock that completes a conda lock, and the pip section of its environment.yml.

    lock_pip.py --conda conda-lock.yml --ask locks/conda-pip.in --lock locks/conda-pip.lock
        --environment environment.yml

Every Python package of the conda lock is a constraint and none is written, so that pip never
replaces what conda installed. One file a package is listed, the one that pip prefers for CPython
3.9 on linux-64 with glibc 2.28. Beside it stands what its metadata requires, so that
`lock_check.py` can hold it against both locks without a network.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Set, Tuple

from lock_files import (
    CondaPin,
    LockError,
    PipPin,
    normal_name,
    pypi_name,
    read_conda_lock,
    read_pip_lock,
)
from packaging.requirements import Requirement
from pypi_files import GLIBC, PYTHON, all_needed, best_file, fitting_tags, metadata

try:
    import tomllib
except ImportError:  # Python < 3.11: pip carries one for itself
    from pip._vendor import tomli as tomllib


def split_ask(path: Path) -> Tuple[List[str], List[PipPin], List[str]]:
    """The three kinds of line in a `.in` file: options, lines fixed by a hash, requirements."""
    options: List[str] = []
    asked: List[str] = []
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
        return options, read_pip_lock(part), asked


def solve(
    asked: List[str], constraints: List[str], from_source: Set[str], folder: Path
) -> List[dict]:
    """Uv's answer for CPython 3.9 on linux-64: one dictionary a package, with its files.

    Raises:
        LockError: there is no solution, or the index can't be reached; uv's own words.
    """
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
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise LockError(f"uv found no solution: {' '.join(done.stderr.split())[:1000]}")
    return tomllib.loads(answer.read_text(encoding="utf-8"))["packages"]


def block(pin: PipPin) -> str:
    """One package of the lock as text."""
    lines = [f"{pin.name}=={pin.version} \\", f"    --hash={pin.hashes[0]}"]
    lines += [f"    # file: {name}" for name in pin.files]
    lines += [f"    # requires: {text}" for text in pin.requires or ("nothing",)]
    return "\n".join(lines) + "\n"


def header(ask: Path, lock: Path, fixed: List[PipPin], options: List[str]) -> str:
    """The lock's first lines: what it is, how to install it, where the hashes come from."""
    lines = [f"What pip installs after the conda lock; `make lock` writes it from {ask.name}."]
    lines += [f"pip install --require-hashes --no-deps --no-build-isolation -r {lock.name}"]
    lines += [
        "One file a package, for CPython 3.9 on linux-64; below it what its metadata requires."
    ]
    if fixed:
        names = ", ".join(pin.name for pin in fixed)
        lines += [f"{names} are not on PyPI: their hashes are those of {ask.name},"]
        lines += [
            "their files were not downloaded to confirm them; pip does that when it installs."
        ]
    return "".join(f"# {line}\n" for line in lines) + "".join(f"{o}\n" for o in options) + "\n"


def compile_lock(conda: List[CondaPin], ask: Path) -> List[PipPin]:
    """The lock's packages, sorted by name."""
    options, fixed, asked = split_ask(ask)
    by_conda = {pypi_name(pin.name) for pin in conda}
    constraints = sorted(
        {f"{pypi_name(pin.name)}=={pin.version}" for pin in conda if pin.is_python}
    )
    own = {pin.name for pin in fixed}
    from_source = {normal_name(o.split()[1]) for o in options if o.startswith("--no-binary")}
    for pin in fixed:
        asked += [r for r in pin.requires or () if normal_name(Requirement(r).name) not in own]
    with tempfile.TemporaryDirectory() as folder:
        packages = solve(asked, constraints, from_source, Path(folder))
    packages = [p for p in packages if normal_name(p["name"]) not in by_conda]
    ranks = fitting_tags()
    files = {normal_name(p["name"]): best_file(p, ranks, from_source) for p in packages}
    requires = all_needed({name: metadata(file) for name, file in files.items()}, asked)
    pins: Dict[str, PipPin] = {pin.name: pin for pin in fixed}
    for package in packages:
        name = normal_name(package["name"])
        hashes = (f"sha256:{files[name].sha256}",)
        needs = tuple(sorted(requires[name]))
        pins[name] = PipPin(name, package["version"], "", hashes, needs, (files[name].name,))
    return [pins[name] for name in sorted(pins)]


def with_pip_section(environment: str, ask: Path, pins: List[PipPin]) -> str:
    """environment.yml with its pip section renewed: what is asked for, at the lock's versions."""
    options, fixed, asked = split_ask(ask)
    versions = {pin.name: pin.version for pin in pins}
    lines = [option for option in options if "-index-url" in option]
    lines += [f"{pin.name}=={pin.version}" for pin in fixed]
    for requirement in map(Requirement, asked):
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        name = normal_name(requirement.name)
        lines.append(f"{name}{extras}=={versions[name]}")
    kept = environment.split("- pip:\n")[0]
    return kept + "- pip:\n" + "".join(f"  - {line}\n" for line in lines)


def replace(path: Path, text: str) -> None:
    """Write beside, then rename: a reader never sees half a file."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def main() -> int:
    """Compile, write beside, rename."""
    parser = argparse.ArgumentParser(description="Compile a pip lock that completes a conda lock.")
    parser.add_argument("--conda", type=Path, required=True, help="the conda-lock.yml")
    parser.add_argument("--ask", type=Path, required=True, help="the .in file: what is asked for")
    parser.add_argument("--lock", type=Path, required=True, help="the lock to write")
    parser.add_argument("--environment", type=Path, help="the environment.yml to bring along")
    args = parser.parse_args()
    try:
        pins = compile_lock(read_conda_lock(args.conda), args.ask)
        options, fixed, _ = split_ask(args.ask)
        text = header(args.ask, args.lock, fixed, options) + "".join(map(block, pins))
        if args.environment:
            old = args.environment.read_text(encoding="utf-8")
            replace(args.environment, with_pip_section(old, args.ask, pins))
        replace(args.lock, text)
    except (LockError, OSError) as error:
        print(f"error: cannot lock {args.ask}: {error}", file=sys.stderr)
        return 2
    print(f"{args.lock}: {len(pins)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
