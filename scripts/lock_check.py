"""Check, without a network, that the locks are sound and agree with what was asked for.

Prints one line a lock and exits with 0, or prints each finding (where, what, expected) and exits
with 2. Conda's version rules are py-rattler's own, pip's are those of `packaging`.
"""

import argparse
import sys
from pathlib import Path
from typing import List, NamedTuple

try:
    from lock_check_conda import check_conda
    from lock_check_pip import check_pip_section, check_wheels, check_with_conda
    from lock_files import (
        Finding,
        LockError,
        read_conda_lock,
        read_environment,
        read_pip_lock,
        read_virtual_packages,
    )
except ImportError as missing:
    print(
        f"error: this Python lacks {missing.name}; run it with .tools/bin/python", file=sys.stderr
    )
    sys.exit(2)


class CondaWay(NamedTuple):
    """The files of one conda environment, relative to the project's folder."""

    environment: str
    conda_lock: str
    pip_ask: str
    pip_lock: str


CHANNELS = "environments/pytorch-channel"
CONDA_WAYS = (
    CondaWay("environment.yml", "conda-lock.yml", "locks/conda-pip.in", "locks/conda-pip.lock"),
    CondaWay(
        f"{CHANNELS}/environment.yml",
        f"{CHANNELS}/conda-lock.yml",
        f"{CHANNELS}/conda-pip.in",
        f"{CHANNELS}/conda-pip.lock",
    ),
)
WHEELS = ("requirements", "floor", "current", "tools", "lock-tools", "docs", "interfaces")


def check_conda_way(root: Path, way: CondaWay) -> List[Finding]:
    """All findings of one conda environment; prints its summary."""
    environment = read_environment(root / way.environment)
    conda = read_conda_lock(root / way.conda_lock)
    pip = read_pip_lock(root / way.pip_lock)
    virtual = read_virtual_packages(root / "virtual-packages.yml")
    findings = check_conda(way.conda_lock, conda, environment, virtual)
    findings += check_with_conda(way.pip_lock, pip, way.conda_lock, conda)
    findings += check_pip_section(way.environment, environment, root / way.pip_ask, pip)
    needs = sum(len(pin.depends) for pin in conda)
    print(
        f"{way.conda_lock}: {len(conda)} packages, {needs} dependencies, "
        f"{len(environment.depends)} packages asked for"
    )
    requires = sum(len(pin.requires or ()) for pin in pip)
    print(f"{way.pip_lock}: {len(pip)} packages, {requires} requirements")
    return findings


def main() -> int:
    """Check every lock of the project."""
    parser = argparse.ArgumentParser(description="Check the locks, without a network.")
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--root", type=Path, default=here, help="the project's folder")
    root = parser.parse_args().root
    findings: List[Finding] = []
    try:
        for way in CONDA_WAYS:
            findings += check_conda_way(root, way)
        for name in WHEELS:
            lock = root / "locks" / f"{name}.lock"
            pins = read_pip_lock(lock)
            findings += check_wheels(f"locks/{name}.lock", pins, root / "locks" / f"{name}.in")
            print(f"locks/{name}.lock: {len(pins)} packages")
    except LockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if findings:
        for finding in findings:
            print(f"[{finding.kind}] {finding.where}: {finding.text}", file=sys.stderr)
        print(f"error: the locks have {len(findings)} findings; see above", file=sys.stderr)
        return 2
    print(
        "all agree (conda-lock's format doesn't record packages' constraints on others they don't "
        "need; the solver held them when it made the lock)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
