"""The examples run as they stand: our loader in the programs and with the data sets of others.

Those that need Lightning, Accelerate or Hugging Face's datasets run where these are installed
(`make test-interfaces` installs them beside the environment), and are skipped, never passed, else.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_run import make_images

ROOT = Path(__file__).resolve().parents[2]
BESIDE = os.environ.get("INTERFACES", "")
NEEDS = {
    "accelerate_fit": "accelerate",
    "huggingface_dataset": "datasets",
    "lightning_fit": "lightning",
    "three_lines": "",
    "torchvision_dataset": "torchvision",
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Three classes, 21 images to validate."""
    return make_images(tmp_path_factory.mktemp("sample"), train=10, val=7)


def installed(package):
    """Whether a package is there, in the environment or beside it."""
    return bool(
        not package
        or importlib.util.find_spec(package)
        or (BESIDE and Path(BESIDE, package).is_dir())
    )


def test_every_example_is_known():
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(NEEDS)


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_an_example_runs(name, sample, tmp_path):
    if not installed(NEEDS[name]):
        pytest.skip(f"{NEEDS[name]} is not installed: make test-interfaces")
    arguments = {
        "huggingface_dataset": [],
        "torchvision_dataset": [str(sample / "train")],
    }.get(name, [str(sample), "1"])
    path = os.pathsep.join(part for part in (str(ROOT), BESIDE) if part)
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    expected = {
        "accelerate_fit": r"top-1 \d+% of 21 validation images",
        "huggingface_dataset": r"classes .*green.*\n\(16, 3, 64, 64\) torch\.float32",
        "lightning_fit": r"'top1': \d",
        "three_lines": r"top-1 \d+% of 21 validation images",
        "torchvision_dataset": r"ImageFolder.*\n.*a split of it.*",
    }[name]
    assert re.search(expected, done.stdout), done.stdout
