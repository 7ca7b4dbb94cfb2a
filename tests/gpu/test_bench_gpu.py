"""`train bench` on a real GPU, tiny: plain, ours, synthetic; under a minute, with its figures."""

import json
import os
import sys
from pathlib import Path

import pytest
import torch

from train.__main__ import main

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="no CUDA device: nothing here was tested"
    ),
]

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """The generated sample, few of it."""
    sys.path.insert(0, str(ROOT / "scripts"))
    from sample_data import make_data_set

    folder = tmp_path_factory.mktemp("sample") / "data"
    make_data_set(folder, seed=42, num_train=320, num_val=40)
    return folder


def test_bench_default_tuned_synthetic(sample, tmp_path):
    """What the events say is sound; the figures are for the log, no speed is asserted."""
    out = tmp_path / "bench"
    words = [f"--data.path={sample}", f"--out={out}", "--only=plain,ours,synthetic"]
    words += ["--accelerator=cuda", "--rounds=1", "--seconds=1", "--data.image_size=128"]
    assert main(["bench", *words]) == 0
    content = json.loads((out / "bench.json").read_text())
    assert content["accelerator"]["words"].startswith(torch.cuda.get_device_name())
    for name, arm in content["arms"].items():
        assert arm["why_not"] == "", name
        (result,) = arm["rounds"]
        assert result["images_per_s"] > 0
        assert 0 <= result["wait_share"] <= 1
    assert content["arms"]["ours"]["settings"]["pin_memory"] is True
    assert content["arms"]["synthetic"]["rounds"][0]["wait_share"] < 0.2
    path = Path(os.environ.get("GPU_REPORT", str(ROOT / "runs/gpu-report.json")))
    path = path.with_name("gpu-bench.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
    print(f"\nwritten: {path}\n{content['verdict']}")
