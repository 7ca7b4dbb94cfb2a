"""Recomputes every installed package against the lock: `make verify-env`.

Wheels: the name and version must be the lock's, and each file must have the hash that the wheel's
own list (RECORD) gives. Conda packages: the sha256 of the package file must be the lock's, and each
file must have the hash of its paths.json. Files that belong to no package are named too.
Exit codes: 0 all is as locked; 2 something is missing, extra or changed, each named on a line.

Run it with the environment's own Python: python scripts/verify_env.py
"""

import base64
import csv
import hashlib
import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Dict, List, Optional, Set

ROOT = Path(__file__).resolve().parents[1]
SHOWN = 20
"""Files named by name; the rest is counted."""


def normal(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def digest(path: Path) -> "hashlib._Hash":
    """The sha256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            found.update(part)
    return found


def locked_wheels(path: Path) -> Dict[str, Set[str]]:
    """Name to the versions that a pip lock has; lines for other Pythons and systems too."""
    found: Dict[str, Set[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        pin = re.match(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;\\]+)(.*)", line)
        if pin and applies(pin.group(3)):
            found.setdefault(normal(pin.group(1)), set()).add(pin.group(2))
    return found


def applies(rest: str) -> bool:
    """Whether a line's marker holds here; without `packaging` every line may."""
    marker = rest.partition(";")[2].partition("--hash")[0].strip().rstrip("\\").strip()
    if not marker:
        return True
    try:
        from packaging.markers import Marker
    except ImportError:
        return True
    return bool(Marker(marker).evaluate())


def locked_conda(path: Path) -> Dict[str, str]:
    """File name of a conda package to its sha256; without PyYAML, which may be absent."""
    found = {}
    for entry in re.split(r"^- ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        url = re.search(r"^ *url: (\S+)", entry, re.MULTILINE)
        sha = re.search(r"^ *sha256: (\w+)", entry, re.MULTILINE)
        if url and re.search(r"^ *manager: conda", entry, re.MULTILINE):
            found[url.group(1).rsplit("/", 1)[-1]] = sha.group(1) if sha else ""
    return found


class Report:
    """What was found wrong, and how much was looked at."""

    def __init__(self) -> None:
        self.faults: List[str] = []
        self.packages = self.files = 0
        self.claimed: Set[Path] = set()

    def add(self, fault: str) -> None:
        """One line for a person."""
        self.faults.append(fault)

    def check_file(self, package: str, path: Path, wanted: Optional[str], given: str = "") -> None:
        """One file against its hash (hexadecimal); None: no hash is known, it must be there."""
        self.files += 1
        self.claimed.add(path)
        if not path.is_file():
            self.add(f"missing: {path} of {package}")
        elif wanted and (given or digest(path).hexdigest()) != wanted:
            self.add(f"changed: {path} of {package}")


def check_wheel(item: metadata.Distribution, name: str, report: Report) -> None:
    """Every file of one installed wheel against its RECORD."""
    label = f"{name} {item.version}"
    text = item.read_text("RECORD")
    if text is None:
        report.add(f"changed: {label} has no RECORD")
        return
    for row in csv.reader(text.splitlines()):
        path = Path(os.path.normpath(str(item.locate_file(row[0])))) if row else Path()
        report.claimed.add(path)
        if len(row) < 2 or not row[1]:
            continue  # the list itself, and what was written at the installation
        if path.suffix == ".pyc":
            continue  # some wheels carry them; Python makes them again from the source
        kind, _, value = row[1].partition("=")
        if kind != "sha256":
            report.add(f"changed: {label} lists {row[0]} by {kind}, expected sha256")
            continue
        wanted = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
        report.check_file(label, path, wanted)


def check_wheels(lock: Path, report: Report) -> None:
    """Installed wheels against a pip lock."""
    locked = locked_wheels(lock)
    seen: Set[str] = set()
    for item in metadata.distributions(path=[p for p in sys.path if "site-packages" in p]):
        name = normal(item.metadata["Name"] or "")
        if not name or (item.read_text("INSTALLER") or "").strip() == "conda":
            continue
        seen.add(name)
        report.packages += 1
        if name not in locked:
            report.add(f"extra: {name} {item.version} is not in {lock.name}")
        elif item.version not in locked[name]:
            versions = " or ".join(sorted(locked[name]))
            report.add(f"changed: {name} is {item.version}, {lock.name} says {versions}")
        else:
            check_wheel(item, name, report)
    for name in sorted(set(locked) - seen):
        report.add(f"missing: {name} {' or '.join(sorted(locked[name]))} of {lock.name}")


def check_conda(lock: Path, prefix: Path, report: Report) -> None:
    """Installed conda packages against a conda lock."""
    locked = locked_conda(lock)
    seen = set()
    for file in sorted((prefix / "conda-meta").glob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        archive = record.get("fn") or record["url"].rsplit("/", 1)[-1]
        seen.add(archive)
        report.packages += 1
        if archive not in locked:
            report.add(f"extra: {archive} is not in {lock.name}")
            continue
        if locked[archive] and record.get("sha256") != locked[archive]:
            report.add(f"changed: {archive} was installed from a file with another hash")
        for entry in record.get("paths_data", {}).get("paths", []):
            path = prefix / entry["_path"]
            # a file whose prefix was replaced has a hash of its own; a link is followed by nobody
            wanted = entry.get("sha256_in_prefix") or entry.get("sha256")
            if path.is_symlink() or entry.get("path_type") == "softlink":
                report.files += 1
                report.claimed.add(path)
                if not path.is_symlink():
                    report.add(f"changed: {path} of {archive} is no link any more")
            else:
                report.check_file(archive, path, wanted)
    for archive in sorted(set(locked) - seen):
        report.add(f"missing: {archive} of {lock.name}")


def check_strays(report: Report) -> None:
    """Files among the packages that belong to none; what Python compiled is let be."""
    # ours, and what uv lays into the environments of older Pythons
    ours = {"wellfed.pth", "_virtualenv.py", "_virtualenv.pth"}
    for folder in sorted({Path(p) for p in sys.path if p.endswith("site-packages")}):
        for place, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                path = Path(place, name)
                if path not in report.claimed and name not in ours:
                    report.add(f"extra: {path} belongs to no package")


def main() -> int:
    """Checks the environment that runs this.

    Returns:
        0, or 2 when something is not as locked.
    """
    prefix = Path(sys.prefix)
    report = Report()
    try:
        made = json.loads((prefix / "wellfed.json").read_text(encoding="utf-8"))
        way = made["way"]
        if way == "wheels":
            check_wheels(ROOT / "locks" / "requirements.lock", report)
        else:
            folder = ROOT if way == "conda" else ROOT / "environments" / "pytorch-channel"
            check_conda(folder / "conda-lock.yml", prefix, report)
            check_wheels((ROOT / "locks" if way == "conda" else folder) / "conda-pip.lock", report)
        check_strays(report)
    except (OSError, ValueError, KeyError) as error:
        hint = "expected an environment that make env made"
        print(f"error: {prefix} can't be checked: {error}; {hint}", file=sys.stderr)
        return 2
    for fault in report.faults[:SHOWN]:
        print(fault)
    if len(report.faults) > SHOWN:
        print(f"... and {len(report.faults) - SHOWN} more")
    print(f"{report.packages} packages, {report.files} files: ", end="")
    print(f"{len(report.faults)} not as locked" if report.faults else f"all as locked, by {way}")
    return 2 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
