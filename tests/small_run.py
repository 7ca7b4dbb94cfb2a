"""Small runs for tests: coloured noise, a tiny recipe, `train fit` in this or another process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np
import torch
from PIL import Image

from train.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
COLOURS = {"bird": (60, 100, 190), "cat": (200, 70, 40), "dog": (60, 175, 65)}


def make_images(root: Path, train: int = 15, val: int = 6, size: int = 48) -> Path:
    """root/{train,val}/{bird,cat,dog}/NN.png: noise around one colour a class."""
    generator = np.random.default_rng(7)
    for split, count in (("train", train), ("val", val)):
        for name, colour in COLOURS.items():
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                noise = generator.normal(0, 40, (size, size + 8, 3)) + np.array(colour)
                Image.fromarray(noise.clip(0, 255).astype(np.uint8)).save(
                    folder / f"{number:02}.png"
                )
    return root


def arguments(data: Path, folder: Path, **settings: Any) -> List[str]:
    """Arguments of a run of seconds; settings as data__workers=2."""
    options: Dict[str, Any] = {
        "data.path": data,
        "data.image_size": 32,
        "data.batch_size": 8,
        "data.workers": 1,
        "model.name": "shufflenet_v2_x0_5",
        "optim.epochs": 2,
        "optim.lr": 0.01,
        "run.folder": folder,
        "run.device": "cpu",
    }
    options.update({key.replace("__", "."): value for key, value in settings.items()})
    return ["fit"] + [f"--{key}={value}" for key, value in options.items()]


def fit(*words: str) -> int:
    """`train fit` in this process; the exit code."""
    return main(list(words))


def start(
    words: List[str], env: Optional[Dict[str, str]] = None, **options: Any
) -> "subprocess.Popen[str]":
    """`train ...` in a process of its own session."""
    return subprocess.Popen(
        [sys.executable, "-m", "train", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **options,
    )


def weights(run: Path, name: str = "last.pt") -> Dict[str, torch.Tensor]:
    return torch.load(run / "checkpoints" / name, weights_only=True)["model"]


def assert_same_weights(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    different = [name for name in first if not torch.equal(first[name], second[name])]
    assert different == []
