"""What `lock_check.py` asks of a conda lock, by py-rattler's own matching."""

from collections import Counter
from typing import Dict, List

import rattler
from lock_files import CondaPin, Environment, Finding, digest_error

CUDA = "11.8"
# the host of the `defaults` channels: other terms of use, and builds that don't fit conda-forge's
DEFAULTS = ("repo.anaconda.com", "/defaults/", "/anaconda/", "/pkgs/main")


def _record(pin: CondaPin) -> rattler.PackageRecord:
    return rattler.PackageRecord(pin.name, pin.version, pin.build, pin.build_number, pin.subdir)


def check_conda(
    where: str, pins: List[CondaPin], environment: Environment, virtual: Dict[str, str]
) -> List[Finding]:
    """All findings of one conda lock.

    Args:
        where: the lock's name, for the messages.
        pins: its packages.
        environment: what was asked for.
        virtual: the machine it is solved for: `__glibc` -> `2.28` and so on.

    Returns:
        One finding for each fault; none when the lock is sound.
    """
    findings = []
    records: Dict[str, List[rattler.PackageRecord]] = {}
    for pin in pins:
        try:
            records.setdefault(pin.name, []).append(_record(pin))
        except Exception as error:  # rattler has an own type for each kind of bad field
            findings.append(Finding("broken", where, f"{pin.name} {pin.version}: {error}"))
    for name, version in virtual.items():
        number, _, build = version.partition(" ")
        records[name] = [rattler.PackageRecord(name, number, build or "0", 0, "noarch")]
    for name, count in Counter(pin.name for pin in pins).items():
        if count > 1:
            findings.append(Finding("duplicate", where, f"{name} is locked {count} times"))
    for pin in pins:
        findings += _check_pin(where, pin, environment)
        for need in pin.depends:
            findings += _check_need(where, pin.name, need, records)
    findings += _check_asked(where, pins, environment, records)
    return findings


def _check_need(where: str, name: str, need: str, records: dict) -> List[Finding]:
    """Whether one dependency is met by what is locked."""
    try:
        spec = rattler.MatchSpec(need)
    except Exception as error:  # as above
        return [Finding("broken", where, f"{name} needs {need!r}, which is no match spec: {error}")]
    found = records.get(need.split(" ")[0], [])
    if any(spec.matches(record) for record in found):
        return []
    has = ", ".join(f"{record.version} {record.build}" for record in found) or "nothing of it"
    return [Finding("unmet", where, f"{name} needs {need}, the lock has {has}")]


def _check_pin(where: str, pin: CondaPin, environment: Environment) -> List[Finding]:
    """What can be said of one package by itself: hashes, address, builds that must not be there."""
    findings = []
    for kind, digest, size in (("sha256", pin.sha256, 64), ("md5", pin.md5, 32)):
        fault = digest_error(digest, size) if digest else ""
        if fault:
            findings.append(Finding("hash", where, f"{pin.name} has a {kind} that {fault}"))
    if not pin.sha256 and not pin.md5:
        findings.append(Finding("hash", where, f"{pin.name} has no hash"))
    channel = pin.channel.rsplit("/", 1)[-1]
    if any(part in pin.url for part in DEFAULTS):
        findings.append(Finding("defaults", where, f"{pin.name} comes from defaults: {pin.url}"))
    elif channel not in environment.channels:
        asked = ", ".join(environment.channels)
        findings.append(Finding("channel", where, f"{pin.name} comes from {channel}, not {asked}"))
    if not pin.file_name.startswith(f"{pin.name}-{pin.version}-"):
        findings.append(Finding("url", where, f"{pin.name} {pin.version} has the file {pin.url}"))
    if pin.name == "pytorch" and f"cuda{CUDA}" not in pin.build:
        text = f"pytorch has the build {pin.build}, expected one with cuda{CUDA}"
        findings.append(Finding("cuda", where, text))
    if pin.name == "mkl" and rattler.Version(pin.version) >= rattler.Version("2024.1"):
        text = f"mkl is {pin.version}, expected < 2024.1 (newer breaks `import torch`)"
        findings.append(Finding("mkl", where, text))
    return findings


def _check_asked(
    where: str, pins: List[CondaPin], environment: Environment, records: dict
) -> List[Finding]:
    """Whether each entry of environment.yml is met, from the channel it names."""
    findings = []
    channels = {pin.name: pin.channel.rsplit("/", 1)[-1] for pin in pins}
    for entry in environment.depends:
        channel, _, text = entry.rpartition("::")
        spec = rattler.MatchSpec(text)
        name = spec.name.normalized if hasattr(spec.name, "normalized") else str(spec.name)
        found = [record for record in records.get(name, []) if spec.matches(record)]
        if not found:
            has = ", ".join(f"{r.version} {r.build}" for r in records.get(name, [])) or "nothing"
            text = f"environment.yml asks for {entry}, the lock has {has}"
            findings.append(Finding("asked", where, text))
        elif channel and channels[name] != channel:
            text = f"environment.yml asks for {entry}, the lock has it from {channels[name]}"
            findings.append(Finding("asked", where, text))
    return findings
