"""20,000 mutated inputs over our readers, the same ones each time; `make fuzz` reads a million."""

import json
import subprocess
import sys
from pathlib import Path

import fuzz_progress
import fuzz_targets
import pytest

COUNT = 20_000

NEVER_REFUSE = {"convert", "crc", "exif", "index", "ledger", "metrics", "settings", "stream"}
"""What they can't use they leave out, or make anew."""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    run = Path(__file__).with_name("run.py")
    command = [sys.executable, str(run), "--count", str(COUNT), "--folder", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode in (0, 1), result.stderr
    return json.loads((folder / "progress.json").read_text())


@pytest.mark.parametrize("name", fuzz_targets.TARGETS)
def test_damaged_input_is_read_or_refused_and_nothing_else(name, campaign):
    found = [finding for finding in campaign["findings"] if finding[0] == name]
    shown = [f"run.py --replay {target}:{number}: {why}" for target, number, why in found]
    assert not found, "\n".join(shown)
    counts = campaign["counts"][name]
    assert sum(counts.values()) == fuzz_progress.shares(COUNT, fuzz_targets.TARGETS)[name]
    assert counts["read"] > 0
    assert (counts["refused"] > 0) == (name not in NEVER_REFUSE)
