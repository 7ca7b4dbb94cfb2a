"""A real accelerator: trains, and leaves the program's random numbers as they were."""

import numpy as np
import torch

from train.accelerator import ModelAccelerator
from train.data.batch import Batch
from train.precision import choose_precision
from train.trial import run_trial


def _loader():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (4, 32, 32, 3), dtype=torch.uint8, generator=generator)
    return [Batch(images, torch.arange(4), 0, 0, np.arange(4), ())] * 3


def test_it_trains_and_draws_no_random_number():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    cpu = torch.device("cpu")
    accelerator = ModelAccelerator(cpu, "resnet18", 4, choose_precision("auto", cpu))
    assert torch.equal(torch.rand(3), expected)
    before = accelerator.model.fc.weight.detach().clone()
    trial = run_trial(_loader(), accelerator, 0.1, warm_s=0.0)
    assert trial.images >= 12
    assert 0 <= trial.wait_share < 1
    assert trial.cores > 0
    assert not torch.equal(before, accelerator.model.fc.weight)
