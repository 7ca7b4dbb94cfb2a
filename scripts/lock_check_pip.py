"""What `lock_check.py` asks of pip locks, by the rules of `packaging`."""

from collections import Counter
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from lock_files import (
    CondaPin,
    Environment,
    Finding,
    LockError,
    PipPin,
    digest_error,
    normal_name,
    pypi_name,
)
from packaging.requirements import InvalidRequirement, Requirement

CUDA_TAG = "+cu118"
TORCH = ("torch", "torchvision", "torchaudio")


def check_hashes(where: str, pins: List[PipPin]) -> List[Finding]:
    """Each package once for each marker, and with at least one well-formed sha256."""
    findings = []
    for (name, marker), count in Counter((pin.name, pin.marker) for pin in pins).items():
        if count > 1:
            text = f"{name} is locked {count} times" + (f" for {marker}" if marker else "")
            findings.append(Finding("duplicate", where, text))
    for pin in pins:
        if not pin.hashes:
            findings.append(Finding("hash", where, f"{pin.name} has no hash"))
        for value in pin.hashes:
            kind, _, digest = value.partition(":")
            fault = f"is {kind}, expected sha256" if kind != "sha256" else digest_error(digest, 64)
            if fault:
                findings.append(Finding("hash", where, f"{pin.name} has a hash that {fault}"))
    return findings


def asked_for(path: Path) -> Iterator[Tuple[Requirement, bool]]:
    """The requirements of a `.in` file, and whether the line itself carries a hash."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from None
    for line in lines:
        text = line.split(" #")[0].strip()
        if text.startswith("-r "):
            yield from asked_for(path.parent / text[3:].strip())
        elif text and not text.startswith(("#", "-")):
            try:
                yield Requirement(text.split("--hash")[0].strip()), "--hash" in text
            except InvalidRequirement as error:
                raise LockError(f"{path} has a line that is no requirement: {error}") from None


def check_asked(where: str, pins: List[PipPin], ask: Path) -> List[Finding]:
    """Whether the lock holds each requirement of its `.in` file at a version that it accepts."""
    findings = []
    for requirement, _ in asked_for(ask):
        versions = [pin.version for pin in pins if pin.name == normal_name(requirement.name)]
        if not versions:
            findings.append(Finding("asked", where, f"{ask.name} asks for {requirement}: none"))
        for version in versions:
            if not requirement.specifier.contains(version, prereleases=True):
                text = f"{ask.name} asks for {requirement}, the lock has {version}"
                findings.append(Finding("asked", where, text))
    return findings


def check_wheels(where: str, pins: List[PipPin], ask: Path) -> List[Finding]:
    """All findings of a lock that stands by itself."""
    return check_hashes(where, pins) + check_asked(where, pins, ask)


def check_with_conda(
    where: str, pins: List[PipPin], conda_where: str, conda: List[CondaPin]
) -> List[Finding]:
    """All findings of a pip lock that completes a conda lock.

    Args:
        where: the pip lock's name, for the messages.
        pins: its packages.
        conda_where: the conda lock's name.
        conda: the conda lock's packages.

    Returns:
        One finding for each fault.
    """
    findings = check_hashes(where, pins)
    in_conda = {pypi_name(pin.name): pin for pin in conda}
    for pin in pins:
        if pin.name in in_conda:
            text = f"{pin.name} is also in {conda_where}: pip would replace conda's files"
            findings.append(Finding("both", where, text))
        if pin.name in TORCH and not pin.version.endswith(CUDA_TAG):
            text = f"{pin.name} is {pin.version}, expected a {CUDA_TAG} build"
            findings.append(Finding("cuda", where, text))
    if "torch" not in in_conda and not any(pin.name == "torch" for pin in pins):
        findings.append(Finding("cuda", where, f"torch is in neither this lock nor {conda_where}"))
    versions: Dict[str, str] = {pypi_name(p.name): p.version for p in conda if p.is_python}
    versions.update({pin.name: pin.version for pin in pins})
    for pin in pins:
        findings += _check_requires(where, pin, versions)
    return findings


def _check_requires(where: str, pin: PipPin, versions: Dict[str, str]) -> List[Finding]:
    """Whether what one package's metadata requires is in either lock."""
    if pin.requires is None:
        text = f"{pin.name} doesn't record what it requires; lock again with make lock"
        return [Finding("unrecorded", where, text)]
    findings = []
    for line in pin.requires:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            findings.append(Finding("broken", where, f"{pin.name} requires {line!r}: not readable"))
            continue
        has = versions.get(normal_name(requirement.name))
        if has is None or not requirement.specifier.contains(has, prereleases=True):
            text = f"{pin.name} requires {line}, the locks have {has or 'nothing of it'}"
            findings.append(Finding("unmet", where, text))
    return findings


def check_pip_section(
    where: str, environment: Environment, ask: Path, pins: List[PipPin]
) -> List[Finding]:
    """Whether environment.yml's pip section, the `.in` file and the pip lock name the same."""
    findings = []
    locked = {pin.name: pin.version for pin in pins}
    asked = {normal_name(requirement.name): requirement for requirement, _ in asked_for(ask)}
    listed = {}
    for entry in environment.pip:
        if not entry.startswith("-"):
            requirement = Requirement(entry)
            listed[normal_name(requirement.name)] = requirement
    for name in sorted(set(asked) ^ set(listed)):
        side = f"{ask.name} alone" if name in asked else "the pip section alone"
        findings.append(Finding("pip-section", where, f"{name} is in {side}"))
    for name, requirement in listed.items():
        if str(requirement.specifier) != f"=={locked.get(name)}":
            text = f"the pip section has {requirement}, the lock has {locked.get(name)}"
            findings.append(Finding("pip-section", where, text))
    findings += [f for f in check_asked(where, pins, ask) if f.kind == "asked"]
    return findings
