"""What is asked for and what is locked, for conda, pip and environment.yml: all agree."""

import re
import sys

import pytest
import yaml
from loopback import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from lock_files import pypi_name, read_conda_lock, read_environment, read_pip_lock

CHANNELS = "environments/pytorch-channel"
WAYS = {
    "conda": (".", "locks"),
    "channels": (CHANNELS, CHANNELS),
}


def asked(name):
    """Names on the requirement lines of a `.in` file."""
    lines = (ROOT / name).read_text().splitlines()
    found = (re.match(r"([A-Za-z][\w.-]*)", line) for line in lines)
    return {match.group(1).lower().replace("_", "-") for match in found if match}


@pytest.fixture(params=WAYS)
def way(request):
    conda, pip = (ROOT / folder for folder in WAYS[request.param])
    return {
        "name": request.param,
        "environment": read_environment(conda / "environment.yml"),
        "conda": read_conda_lock(conda / "conda-lock.yml"),
        "pip": read_pip_lock(pip / "conda-pip.lock"),
        "ask": f"{WAYS[request.param][1]}/conda-pip.in",
    }


def test_the_pip_section_has_the_locked_versions(way):
    locked = {pin.name: pin.version for pin in way["pip"]}
    entries = [entry for entry in way["environment"].pip if not entry.startswith("-")]
    listed = dict(re.sub(r"\[.*\]", "", entry).split("==") for entry in entries)
    assert listed == {name: locked[name] for name in listed}
    assert set(listed) == asked(way["ask"])


def test_torch_comes_from_where_it_should(way):
    pip = {pin.name: pin.version for pin in way["pip"]}
    conda = {pin.name: pin for pin in way["conda"]}
    if way["name"] == "conda":
        assert "--extra-index-url https://download.pytorch.org/whl/cu118" in way["environment"].pip
        assert {pip[name] for name in ("torch", "torchaudio")} == {"2.6.0+cu118"}
        assert pip["torchvision"] == "0.21.0+cu118"
        assert "pytorch" not in conda
    else:
        assert "torch" not in pip
        assert "cuda11.8" in conda["pytorch"].build


def test_every_way_brings_what_the_wheels_bring(way):
    brought = {pypi_name(pin.name) for pin in way["conda"]} | {pin.name for pin in way["pip"]}
    assert asked("locks/requirements.in") - brought == set()


def test_pip_never_replaces_what_conda_installed(way):
    conda = {pypi_name(pin.name) for pin in way["conda"]}
    assert conda & {pin.name for pin in way["pip"]} == set()


def test_each_pip_package_has_one_file_that_fits(way):
    for pin in way["pip"]:
        assert len(pin.hashes) == len(pin.files) == 1, pin
        fits = (
            r"(py3|py2\.py3|cp39)-(none|cp39|abi3)-(any|.*x86_64)\.whl$"
            r"|cp3[2-9]-abi3-.*x86_64\.whl$|^tfrecord-.*\.tar\.gz$"
        )
        assert re.search(fits, pin.files[0]), pin


def test_no_file_names_the_defaults_channel(way):
    assert "nodefaults" in way["environment"].channels
    assert "defaults" not in way["environment"].channels
    for pin in way["conda"]:
        assert pin.channel.startswith("https://conda.anaconda.org/"), pin
        assert pin.channel.rsplit("/", 1)[-1] in way["environment"].channels


def test_the_locks_are_solved_for_a_machine_with_cuda():
    machine = yaml.safe_load((ROOT / "virtual-packages.yml").read_text())
    assert machine["subdirs"]["linux-64"]["packages"]["__cuda"] == "11.8"
    assert "virtual-packages.yml" in (ROOT / "scripts" / "lock.sh").read_text()


def test_the_pinned_micromamba_is_checked_before_it_runs():
    script = (ROOT / "scripts" / "lock.sh").read_text()
    assert re.search(r"^MICROMAMBA_SHA256=[0-9a-f]{64}$", script, flags=re.M)
    assert 'fetch "$MICROMAMBA_URL" "$MICROMAMBA_SHA256"' in script
