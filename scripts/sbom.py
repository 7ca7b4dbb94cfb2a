"""Writes what an environment consists of, from its locks: CycloneDX 1.5 as JSON, to the screen.

Usage: sbom.py PREFIX, a folder that scripts/env.sh filled; needs PyYAML and packaging (.tools has
both).
The same locks give the same bytes: no time, no random number.
"""

import json
import sys
from pathlib import Path
from typing import List, Optional

from lock_files import LockError, normal_name, read_conda_lock, read_pip_lock
from packaging.markers import Marker

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"conda": ROOT, "channels": ROOT / "environments" / "pytorch-channel"}


def component(kind: str, name: str, version: str, purl: str, sha256: Optional[str] = None) -> dict:
    """One package in CycloneDX's words."""
    found = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if sha256:
        found["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    found["properties"] = [{"name": "wellfed:lock", "value": kind}]
    return found


def conda_components(path: Path) -> List[dict]:
    """The packages of a conda-lock.yml."""
    found = []
    for pin in read_conda_lock(path):
        purl = f"pkg:conda/{pin.name}@{pin.version}?build={pin.build}&subdir={pin.subdir}"
        found.append(component("conda", pin.name, pin.version, purl, pin.sha256 or None))
    return found


def pip_components(path: Path, python: str) -> List[dict]:
    """The packages of a pip lock that Linux and this Python get.

    A line with several files names several hashes; which one was installed the lock can't say, so
    the hash stands only where there is one.
    """
    here = {"python_version": ".".join(python.split(".")[:2]), "python_full_version": python}
    found = []
    for pin in read_pip_lock(path):
        if pin.marker and not Marker(pin.marker).evaluate(here):
            continue
        name = normal_name(pin.name)
        purl = f"pkg:pypi/{name}@{pin.version.replace('+', '%2B')}"
        only = pin.hashes[0].rsplit(":", 1)[-1] if len(pin.hashes) == 1 else None
        found.append(component("pip", name, pin.version, purl, only))
    return found


def main(prefix: str) -> int:
    """Prints the list for the environment in `prefix`.

    Returns:
        0, or 2 after an `error: ...` line on standard error.
    """
    try:
        made = json.loads(Path(prefix, "wellfed.json").read_text(encoding="utf-8"))
        if made["way"] == "wheels":
            parts = pip_components(ROOT / "locks" / "requirements.lock", made["python"])
        else:
            folder = FOLDERS[made["way"]]
            lock = "locks/conda-pip.lock" if folder == ROOT else "conda-pip.lock"
            parts = conda_components(folder / "conda-lock.yml")
            parts += pip_components(folder / lock, made["python"])
    except (OSError, ValueError, KeyError, LockError) as error:
        print(f"error: cannot list what is in {prefix}: {error}", file=sys.stderr)
        return 2
    whole = {"type": "application", "name": "pytorch-cuda", "version": str(made.get("torch"))}
    whole["properties"] = [
        {"name": f"wellfed:{key}", "value": str(made.get(key))}
        for key in ("way", "lock", "python", "torch", "cuda")
    ]
    parts.sort(key=lambda part: part["purl"])
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": whole},
        "components": parts,
    }
    json.dump(document, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("error: expected one argument: sbom.py PREFIX", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
