"""The repository as a whole: its map, what no file may hold, what hosted checks may do."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
COVERED = (
    "tests/",
    "docs/",
    ".github/",
    ".vscode/",
    "train/data/jpeg/",
    "train/data/coefficients/",
    "train/tune/",
    "train/bench/",
    "train/doctor/",
    "train/monitor/",
    "train/pack/writers/",
    "benchmarks/race/",
    "benchmarks/peers/",
    "benchmarks/faults/",
    "benchmarks/tuning/",
)
"""Only here may the file map name a folder in place of its files."""


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def repository_files():
    """Files that are in the repository, or would be after `git add`."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("this is no git checkout, so nobody knows what belongs to it")
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    return sorted({name for name in names if (ROOT / name).is_file()})


def test_the_file_map_is_the_tree():
    section = README.split("## File map\n", 1)[1].split("\n## ", 1)[0]
    body = section.split("```\n")[1]
    named = [line.split()[0] for line in body.splitlines() if line.strip()]
    files = repository_files()
    assert len(named) == len(set(named)), "a file is named twice"
    gone = [
        name
        for name in named
        if name not in files
        and not (name.endswith("/") and any(file.startswith(name) for file in files))
    ]
    assert gone == [], "named, but not there"
    assert [name for name in named if name.endswith("/") and not name.startswith(COVERED)] == []
    folders = tuple(name for name in named if name.endswith("/"))
    missing = [file for file in files if file not in named and not file.startswith(folders)]
    assert missing == [], "there, but not named"
    without_purpose = [line for line in body.splitlines() if line.strip() and "  " not in line]
    assert without_purpose == []


def test_no_file_names_a_registry_host_or_a_build_machine():
    hosts = ["pypi" + ".org", "python" + "hosted.org", "npm" + "js", "deb." + "debian"]
    folders = ["/ro" + "ot/", "/wo" + "rk/", "/tmp/" + "dev"]
    pattern = re.compile("|".join(map(re.escape, [*hosts, *folders])))
    found = []
    for name in repository_files():
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{name}: {match}" for match in pattern.findall(text)]
    assert found == []


def test_the_changelog_has_a_place_for_what_comes():
    assert re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[0] == "[Unreleased]"


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_workflows_are_pinned_and_may_only_read(path):
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    uses = re.findall(r"uses: (\S+)", text)
    assert uses
    assert [use for use in uses if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", use)] == []
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_hooks_download_nothing():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert {repo["repo"] for repo in hooks["repos"]} == {"local"}
    languages = {hook["language"] for repo in hooks["repos"] for hook in repo["hooks"]}
    assert languages <= {"system", "pygrep"}
