"""The generated classes can be learnt from the pictures, and from nothing but the pictures."""

import json

import pytest
from sample_data import make_data_set

from train.__main__ import main

SETTINGS = [
    "--data.image_size=64",
    "--data.batch_size=32",
    "--data.crop_min=0.35",
    "--optim.epochs=4",
    "--optim.lr=0.02",
    "--run.device=cpu",
]


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [False, True])
def test_top1_is_far_above_chance_with_true_labels_and_at_chance_with_shuffled(tmp_path, shuffled):
    data = tmp_path / "data"
    make_data_set(data, seed=42, num_train=480, num_val=200, shuffle_labels=shuffled)
    words = [f"--data.path={data}", f"--run.folder={tmp_path / 'run'}", *SETTINGS]
    assert main(["fit", *words]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    last = rows[-1]["val_top1"]
    # of 10 classes: chance is 10 %, its standard deviation over 200 images 2 %
    if shuffled:
        assert last <= 0.20
    else:
        assert last >= 0.40
