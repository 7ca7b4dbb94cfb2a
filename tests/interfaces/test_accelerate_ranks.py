"""Two ranks of Accelerate: the loader learns of them from torch, and deals the images out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_run import make_images

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.usefixtures("packages")
def test_each_validation_image_is_scored_once(tmp_path):
    sample = make_images(tmp_path / "sample", train=10, val=7)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *launch, str(ROOT / "examples/accelerate_fit.py"), str(sample), "1"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ["INTERFACES"]]),
            "OMP_NUM_THREADS": "1",
            "ACCELERATE_USE_CPU": "true",
        },
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert done.stdout.count("of 21 validation images") == 1
