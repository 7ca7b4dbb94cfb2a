"""docs/tuning.md answers what people who look for a slow loader usually read elsewhere."""

import re
from pathlib import Path

import pytest

TUNING = (Path(__file__).resolve().parents[2] / "docs/tuning.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        *("batch_size", "shuffle", "num_workers", "pin_memory", "non_blocking", "prefetch_factor"),
        *("persistent_workers", "worker_init_fn", "CUDA stream", "light augmentation"),
    ],
)
def test_each_usual_setting_has_its_row(name):
    section = TUNING.split("## Settings\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if name in line[:40].split(" | ")[0]]
    assert len(rows) == 1
    assert all(len(cell.strip()) > 10 for cell in rows[0].split("|")[2:-1])


@pytest.mark.parametrize(
    "symptom",
    [
        *("GPU use under 30 to 50 %", "periodic stalls", "poor scaling", "memory soars"),
        *("`BrokenPipeError`, a worker hangs or dies", "one core busy", "Bus error"),
    ],
)
def test_each_usual_symptom_has_its_row(symptom):
    section = TUNING.split("## Symptoms\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if symptom in line]
    assert len(rows) == 1
    assert all(cell.strip() for cell in rows[0].split("|")[1:-1])


WORDS = """
torch.utils.benchmark | htop | iotop | nvidia-smi | py-spy record | --subprocesses | LMDB | HDF5
TFRecord | WebDataset | NVMe | __getitem__ | DistributedSampler | conda env export
conda clean --all | pytorch-cuda=11.8 | libcudart.so.11.0 | /dev/shm | 128 s | 78 s | 16,400
"""


@pytest.mark.parametrize("word", [word.strip() for word in re.split(r"[|\n]", WORDS.strip())])
def test_the_tuning_page_speaks_of(word):
    assert word in TUNING
