"""Writes what is really installed beside this Python, with hashes where a lock knows them.

Conda packages come as an explicit list (`conda create --file` reads it), wheels as pip's own.
Run it with the environment's own Python; the environment variable OUT names a file, else it prints.
"""

import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def conda_packages(prefix: Path) -> list:
    """One `URL#checksum` a package, as conda's explicit files have it."""
    lines = []
    for file in sorted((prefix / "conda-meta").glob("*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        digest = record.get("sha256")
        lines.append(f"{record['url']}#{'sha256:' + digest if digest else record.get('md5', '')}")
    return lines


def locked_hashes() -> dict:
    """`name==version` to the hashes that the repository's pip locks carry for it."""
    known: dict = {}
    locks = [*ROOT.glob("locks/*.lock"), *ROOT.glob("environments/*/conda-pip.lock")]
    for file in sorted(locks):
        key = ""
        for line in file.read_text(encoding="utf-8").splitlines():
            start = re.match(r"([A-Za-z0-9_.-]+)==([^\s;\\]+)", line)
            if start:
                key = f"{normal(start.group(1))}=={start.group(2)}"
            found = re.findall(r"--hash=(sha256:[0-9a-f]{64})", line)
            known.setdefault(key, set()).update(found)
    return known


def normal(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wheels() -> list:
    """One requirement a distribution that pip or uv installed; conda's own are left out."""
    known = locked_hashes()
    lines = set()
    for item in metadata.distributions():
        installer = (item.read_text("INSTALLER") or "").strip()
        name = item.metadata["Name"]
        if not name or installer == "conda":
            continue
        key = f"{normal(name)}=={item.version}"
        hashes = [f" \\\n    --hash={value}" for value in sorted(known.get(key, ()))]
        lines.add(key + ("".join(hashes) or "  # no hash: not from a lock of this repository"))
    return sorted(lines)


def main() -> int:
    """Prints the list, or writes it to OUT."""
    conda = conda_packages(Path(sys.prefix))
    parts = ["# what is installed in " + sys.prefix]
    if conda:
        parts += ["# conda packages: save from the next line to the blank one", "@EXPLICIT", *conda]
        parts += ["", "# wheels: for pip install --require-hashes --no-deps -r"]
    text = "\n".join([*parts, *wheels()]) + "\n"
    out = os.environ.get("OUT", "")
    if not out:
        sys.stdout.write(text)
        return 0
    try:
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"error: cannot write {out}: {error.strerror}; choose another with OUT=FILE")
        return 2
    print(f"wrote {out}: {len(conda)} conda packages, {len(wheels())} wheels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
