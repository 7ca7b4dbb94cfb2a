"""Which file of a package fits the conda environments, and what its metadata requires."""

import email
import hashlib
import io
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from typing import Dict, Iterator, List, NamedTuple, Set

from lock_files import LockError, normal_name
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

PYTHON = (3, 9)
GLIBC = 28  # torch 2.6's own wheels need glibc 2.28: nothing is won by asking for an older one
TIMEOUT_S = 60
# what markers are held against, whatever Python and machine the lock is made on
TARGET = {
    "python_version": "3.9",
    "python_full_version": "3.9.23",
    "implementation_version": "3.9.23",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "os_name": "posix",
}


class PypiFile(NamedTuple):
    """One file of a locked package."""

    name: str
    url: str
    sha256: str


def fitting_tags() -> Dict[Tag, int]:
    """The wheel tags of CPython 3.9 on linux-64 with glibc 2.28, and their rank (0 is best)."""
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC, 4, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
    platforms += ["linux_x86_64"]
    interpreter = f"cp{PYTHON[0]}{PYTHON[1]}"
    tags = [*cpython_tags(PYTHON, [interpreter], platforms)]
    tags += compatible_tags(PYTHON, interpreter, platforms)
    return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}


def _file(entry: dict) -> PypiFile:
    name = entry.get("name") or urllib.parse.unquote(entry["url"].rsplit("/", 1)[-1])
    return PypiFile(name, entry["url"], entry["hashes"]["sha256"])


def best_file(package: dict, ranks: Dict[Tag, int], from_source: Set[str]) -> PypiFile:
    """The package's wheel that pip prefers on this platform; its source where that is asked for.

    Raises:
        LockError: no wheel fits.
    """
    if normal_name(package["name"]) in from_source:
        return _file(package["sdist"])
    found = []
    for file in map(_file, package.get("wheels", ())):
        fits = [ranks[tag] for tag in parse_wheel_filename(file.name)[3] if tag in ranks]
        if fits:
            found.append((min(fits), file))
    if not found:
        raise LockError(f"{package['name']} {package['version']} has no wheel for this platform")
    return min(found)[1]


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return answer.read()


def metadata(file: PypiFile) -> bytes:
    """The file's METADATA: what lies beside it where the index has that, else out of the file.

    Raises:
        LockError: the file has another hash than the index says.
    """
    try:
        return _get(file.url + ".metadata")
    except urllib.error.HTTPError:
        data = _get(file.url)
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise LockError(f"{file.name} has another sha256 than the index says")
    if file.name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return archive.extractfile(f"{file.name[: -len('.tar.gz')]}/PKG-INFO").read()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        inside = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return archive.read(inside[0])


def _needed(text: bytes, extras: Set[str]) -> Iterator[Requirement]:
    """What metadata requires on this platform, with these extras; markers are evaluated away."""
    around = {**default_environment(), **TARGET}
    for line in email.message_from_bytes(text).get_all("Requires-Dist") or ():
        requirement = Requirement(line)
        marker, requirement.marker = requirement.marker, None
        if marker is None or any(marker.evaluate(dict(around, extra=e)) for e in {"", *extras}):
            yield requirement


def all_needed(texts: Dict[str, bytes], asked: List[str]) -> Dict[str, Set[str]]:
    """What each package requires; the extras that a requirement asks for are followed.

    Args:
        texts: package -> its metadata.
        asked: the requirements that the solve began with.

    Returns:
        package -> requirements as text, without markers and without the package itself.
    """
    extras: Dict[str, Set[str]] = {name: set() for name in texts}
    todo = [Requirement(line) for line in asked]
    while True:
        for requirement in todo:
            extras.setdefault(normal_name(requirement.name), set()).update(requirement.extras)
        found = {name: list(_needed(text, extras[name])) for name, text in texts.items()}
        todo = [requirement for requirements in found.values() for requirement in requirements]
        if not any(r.extras - extras.get(normal_name(r.name), set()) for r in todo):
            break
    return {
        name: {str(r) for r in requirements if normal_name(r.name) != name}
        for name, requirements in found.items()
    }
