"""Read what the environment asks for and what its locks give: conda's files and pip's.

Used by `conda_install.py`, `lock_pip.py` and `lock_check.py`; needs PyYAML and nothing else.
"""

import re
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import yaml

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without its C part: the same result, slower
    from yaml import SafeLoader as _Loader


class LockError(Exception):
    """A lock or its input is missing, broken, or not for this machine; the message is one line."""


class CondaPin(NamedTuple):
    """One package of conda-lock.yml."""

    name: str
    version: str
    url: str
    depends: Tuple[str, ...]
    sha256: str
    md5: str

    @property
    def file_name(self) -> str:
        """For example `numpy-1.26.4-py39h474f0d3_0.conda`."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def subdir(self) -> str:
        """`linux-64` or `noarch`."""
        return self.url.rsplit("/", 2)[-2]

    @property
    def channel(self) -> str:
        """The channel's URL, without subdir and slash."""
        return self.url.rsplit("/", 2)[0]

    @property
    def build(self) -> str:
        """The build string, the last part of the file's name."""
        return re.sub(r"\.(conda|tar\.bz2)$", "", self.file_name).rsplit("-", 1)[-1]

    @property
    def build_number(self) -> int:
        """The number that ends or, in older style, begins the build string; 0 without one."""
        found = re.search(r"_(\d+)$", self.build) or re.match(r"(\d+)(?:_|$)", self.build)
        return int(found.group(1)) if found else 0

    @property
    def is_python(self) -> bool:
        """Whether it holds a Python package: all of those depend on python or on its ABI."""
        needs = {dep.split(" ")[0] for dep in self.depends}
        return self.name == "py-spy" or bool(needs & {"python", "python_abi"})


class PipPin(NamedTuple):
    """One package of a pip lock."""

    name: str
    version: str
    marker: str
    hashes: Tuple[str, ...]
    requires: Optional[Tuple[str, ...]]
    """What its metadata asks for on the lock's platform; None where that isn't recorded."""
    files: Tuple[str, ...] = ()
    """The names of the files that the hashes belong to, where the lock records them."""


class Finding(NamedTuple):
    """One fault of a lock, as `lock_check.py` reports it."""

    kind: str
    where: str
    text: str


class Environment(NamedTuple):
    """environment.yml: what is asked for."""

    channels: Tuple[str, ...]
    depends: Tuple[str, ...]
    pip: Tuple[str, ...]


# conda names that differ from those on PyPI by more than case and dashes
PYPI_NAMES = {
    "bleach-with-css": "bleach",
    "jsonschema-with-format-nongpl": "jsonschema",
    "matplotlib-base": "matplotlib",
    "nbconvert-core": "nbconvert",
    "python-fastjsonschema": "fastjsonschema",
    "pytorch": "torch",
    "torchtriton": "triton",
}


def digest_error(digest: str, size: int) -> str:
    """What is wrong with a hexadecimal digest; empty when nothing is."""
    if len(digest) != size:
        return f"has {len(digest)} characters, expected {size}"
    return "" if re.fullmatch("[0-9a-f]+", digest) else "has other signs than 0-9 and a-f"


def normal_name(name: str) -> str:
    """A package's name as PyPI compares it: lower case, dashes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pypi_name(conda_name: str) -> str:
    """The name on PyPI of what a conda package holds."""
    return PYPI_NAMES.get(conda_name, normal_name(conda_name))


_PACKAGE_URL = re.compile(r"https?://[^/]+/.+/[^/]+-[^/-]+-[^/-]+\.(conda|tar\.bz2)$")


def _load(path: Path):
    try:
        with open(path, encoding="utf-8") as file:
            return yaml.load(file, Loader=_Loader)
    except OSError as error:
        raise LockError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise LockError(f"{path}{where} is not valid YAML; restore the file from git") from None


def _split(name: str, spec: str) -> List[str]:
    """The match specs of one dependency: conda-lock joins several for one name with a comma."""
    joined = re.match(r"(\S+ [^,\s]+),(.+)", spec)  # "version build", and more behind the build
    if joined:
        return [f"{name} {joined.group(1)}", *_split(name, joined.group(2))]
    return [f"{name} {spec}"]


def read_conda_lock(path: Path, platform: str = "linux-64") -> List[CondaPin]:
    """The packages of a conda-lock.yml (format 1) for one platform, in the file's order."""
    data = _load(path)
    if not isinstance(data, dict) or data.get("version") != 1 or "package" not in data:
        raise LockError(f"{path} is not a conda-lock file of version 1; restore the file from git")
    pins, seen = [], set()
    for number, item in enumerate(data["package"] or [], 1):
        try:
            seen.add(item["platform"])
            if item["platform"] != platform or item["manager"] != "conda":
                continue
            depends = tuple(
                need for name, spec in item["dependencies"].items() for need in _split(name, spec)
            )
            digests = item["hash"]
            sha256, md5 = str(digests.get("sha256") or ""), str(digests.get("md5") or "")
            pin = CondaPin(item["name"], str(item["version"]), item["url"], depends, sha256, md5)
            if not _PACKAGE_URL.match(pin.url):
                raise TypeError(f"url {pin.url!r} is not that of a conda package")
        except (KeyError, TypeError, AttributeError) as error:
            label = item.get("name", f"number {number}") if isinstance(item, dict) else number
            raise LockError(
                f"package {label} in {path} lacks a field or has one of the wrong type ({error}); "
                "restore the file from git"
            ) from None
        pins.append(pin)
    if not pins:
        found = ", ".join(sorted(map(str, seen))) or "none"
        raise LockError(f"{path} has no packages for {platform} (platforms in it: {found})")
    return pins


def read_virtual_packages(path: Path, platform: str = "linux-64") -> Dict[str, str]:
    """The machine that the conda locks are solved for: `__glibc` -> `2.28` and so on."""
    data = _load(path)
    try:
        return {k: str(v) for k, v in data["subdirs"][platform]["packages"].items()}
    except (KeyError, TypeError, AttributeError):
        raise LockError(f"{path} has no packages for {platform}; restore it from git") from None


def read_environment(path: Path) -> Environment:
    """The channels, conda specs and pip requirements of an environment.yml."""
    data = _load(path)
    try:
        channels = tuple(data["channels"])
        depends = tuple(item for item in data["dependencies"] if isinstance(item, str))
        pip = [item["pip"] for item in data["dependencies"] if isinstance(item, dict)]
    except (KeyError, TypeError):
        raise LockError(f"{path} lacks channels or dependencies; restore it from git") from None
    return Environment(channels, depends, tuple(pip[0]) if pip else ())


_PIN = re.compile(
    r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;\\]+)\s*(?:;([^\\]*?))?\s*(?=\s--hash|\\|$)"
)


def read_pip_lock(path: Path) -> List[PipPin]:
    """The packages of a pip lock (requirements format, one `name==version` a package)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from None
    pins: List[PipPin] = []
    for number, line in enumerate(lines, 1):
        note = line.strip()
        if note.startswith("#"):
            if pins and line.startswith(" "):
                pins[-1] = _with_note(pins[-1], note.lstrip("# "))
            continue
        if not note or (note.startswith("-") and not note.startswith("--hash")):
            continue
        hashes = tuple(re.findall(r"--hash=(\S+)", line))
        if note.startswith("--hash"):
            if not pins:
                raise LockError(f"{path}, line {number}: a hash without a package")
            pins[-1] = pins[-1]._replace(hashes=pins[-1].hashes + hashes)
            continue
        match = _PIN.match(note)
        if not match:
            raise LockError(f"{path}, line {number} is not `name==version`: {note[:60]!r}")
        marker = (match.group(3) or "").strip()
        pins.append(PipPin(normal_name(match.group(1)), match.group(2), marker, hashes, None))
    return pins


def _with_note(pin: PipPin, text: str) -> PipPin:
    """The pin with what one comment line under it records: `requires:` or `file:`."""
    kind, _, value = text.partition(": ")
    if kind == "requires":
        return pin._replace(
            requires=(pin.requires or ()) + ((value,) if value != "nothing" else ())
        )
    if kind == "file":
        return pin._replace(files=pin.files + (value,))
    return pin
