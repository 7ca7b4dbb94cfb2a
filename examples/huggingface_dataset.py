"""A Hugging Face data set: its encoded images go straight into our decoder.

python examples/huggingface_dataset.py [DIR]: DIR is a folder that `save_to_disk` wrote. Without it
a small one is made here; nothing is downloaded.
"""

import io
import sys

import numpy as np
from datasets import ClassLabel, Dataset, Features, Image, load_from_disk
from PIL import Image as Pillow

from train.data import build_loader


def generated(count=96):
    """Three classes of coloured noise, as JPEG files in a table.

    Args:
        count: how many images.
    """
    random, colours = np.random.default_rng(0), ((200, 60, 40), (60, 180, 70), (50, 90, 200))
    rows = {"image": [], "label": []}
    for number in range(count):
        noise = random.normal(colours[number % 3], 30, (80, 96, 3)).clip(0, 255)
        stream = io.BytesIO()
        Pillow.fromarray(noise.astype(np.uint8)).save(stream, "JPEG")
        rows["image"].append({"bytes": stream.getvalue(), "path": None})
        rows["label"].append(number % 3)
    features = Features({"image": Image(), "label": ClassLabel(names=["red", "green", "blue"])})
    return Dataset.from_dict(rows, features=features)


dataset = load_from_disk(sys.argv[1]) if len(sys.argv) > 1 else generated()
parts = dataset.train_test_split(0.25, seed=0)
loader = build_loader(parts["train"], batch_size=16, image_size=64)
print(loader)
print("classes", loader.classes)
for images, labels in loader:
    print(tuple(images.shape), images.dtype, labels.tolist())
loader.close()
