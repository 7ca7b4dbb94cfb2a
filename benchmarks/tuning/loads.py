"""Five loads that ask for different settings: what is read, and how fast the accelerator is."""

import io
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT)]

from make_pictures import make_pictures  # noqa: E402

from train.config import Config, DataConfig  # noqa: E402
from train.data.sources import Record  # noqa: E402
from train.data.sources.splits import open_splits  # noqa: E402

READ_S = 0.012
"""Of the slow disk, a record: about what a hard disk's arm or a far file server takes."""


class Load(NamedTuple):
    """One load.

    Attributes:
        title: for people.
        source: of records, or a data set of samples.
        config: of a run on it.
        images_per_s: of the simulated accelerator.
    """

    title: str
    source: Any
    config: Config
    images_per_s: float


class Throttled:
    """A source on a slow disk: each read takes its time, several at once are served at once.

    Args:
        source: the true one.
        seconds: added to each read.
    """

    def __init__(self, source, seconds):
        self.source, self.seconds, self.labels = source, seconds, source.labels

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.source[index]

    def key(self, index):
        """Its name."""
        return self.source.key(index)


class Repeated:
    """A source in memory that is longer than it is: its records in turn."""

    def __init__(self, records, count):
        self.records, self.count = records, count
        self.labels = np.array([records[n % len(records)].label for n in range(count)], np.int64)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.records[index % len(self.records)]

    def key(self, index):
        """Its name."""
        return f"{index} ({self.records[index % len(self.records)].key})"


class PythonAugmented:
    """A map-style data set as people write them: Pillow, then some work in Python itself."""

    def __init__(self, source, size):
        self.source, self.size = source, size

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        record = self.source[index]
        image = Image.open(io.BytesIO(bytes(record.data))).convert("RGB")
        image = image.resize((self.size, self.size), Image.BILINEAR)
        image = ImageEnhance.Color(image).enhance(0.5 + (index % 100) / 100)
        image = image.filter(ImageFilter.GaussianBlur(1))
        table = [min(255, int((value / 255) ** 0.9 * 255)) for value in range(256)]
        for _ in range(100):  # Python code holds the GIL
            table = [min(255, value + 1 - value % 2) for value in table]
        return np.array(image.point(table * 3)), record.label


def _config(path, image_size, batch_size):
    return Config(data=DataConfig(path=str(path), image_size=image_size, batch_size=batch_size))


def _records(folder, count):
    train = open_splits(str(folder), 0.05, 0).train
    return [train[number] for number in range(min(count, len(train)))]


def _stored(records, content, short_side):
    from train.pack.contents import convert
    from train.pack.options import PackOptions

    asked = PackOptions("", "", content=content, short_side=short_side)
    return [
        Record(convert(record.data, asked).data, record.label, record.key) for record in records
    ]


def decode(folder, photos=None):
    """Large JPEG files beside a fast accelerator: decoding is the limit."""
    pictures = photos or make_pictures(folder / "large", 60, 2000)
    records = _records(pictures, 60)
    return Load(
        "heavy decode: large JPEG files",
        Repeated(records, 4000),
        _config(pictures, 224, 32),
        3000.0,
    )


def raw(folder, photos=None):
    """Pixels that need no decoding: even one core is faster than the accelerator."""
    pictures = make_pictures(folder / "medium", 200, 400)
    records = _stored(_records(pictures, 100), "raw", 256)
    return Load("light: raw pixels", Repeated(records, 8000), _config(pictures, 224, 64), 5000.0)


def disk(folder, photos=None):
    """A disk that answers slowly: workers that wait take no core."""
    pictures = make_pictures(folder / "medium", 200, 400)
    records = _stored(_records(pictures, 100), "raw", 256)
    source = Throttled(Repeated(records, 8000), READ_S)
    return Load("slow disk: 12 ms a read", source, _config(pictures, 224, 32), 400.0)


def python(folder, photos=None):
    """A data set in Python, its augmentation too: threads would wait for the GIL."""
    pictures = make_pictures(folder / "medium", 200, 400)
    source = PythonAugmented(Repeated(_records(pictures, 200), 8000), 160)
    return Load("heavy augmentation in Python", source, _config(pictures, 160, 32), 3000.0)


def fast(folder, photos=None):
    """Small images, a very fast accelerator: the loader's own overhead counts."""
    pictures = make_pictures(folder / "medium", 200, 400)
    records = _stored(_records(pictures, 200), "windows", 96)
    source = Repeated(records, 20000)
    return Load("fast accelerator: small images", source, _config(pictures, 64, 128), 50000.0)


LOADS = {"decode": decode, "raw": raw, "disk": disk, "python": python, "fast": fast}
