"""Batches of coefficient records: alone, mixed with others, damaged, from workers of every kind."""

import numpy as np
import pictures
import plain_packer
import pytest
from loading import KINDS, make, passes
from rendered import jpeg

from train.config import DataConfig
from train.data import build_loader
from train.data.batch import NO_LABEL, Batches, Recipe
from train.data.coefficients import create
from train.data.coefficients.record import parse
from train.data.decode import describe
from train.data.sampler import BatchRequest
from train.data.settings import LoaderSettings
from train.data.sources import Record

RECIPE = Recipe(train=True, image_size=24, crop_min=0.3, flip=0.5, max_pixels=10**6, seed=42)

FILES = [jpeg(60 + 7 * n, 50 + 5 * n, ("420", "444", "grey", "422")[n % 4], n) for n in range(24)]
PACKED = [plain_packer.pack(data).tobytes() for data in FILES]


class Memory:
    """Records in memory."""

    def __init__(self, items):
        self.items = items
        self.labels = np.arange(len(items)) % 3

    def __len__(self):
        return len(self.items)

    def key(self, index):
        return f"item{index}"

    def __getitem__(self, index):
        return Record(self.items[index], int(self.labels[index]), self.key(index))


def batch(items, recipe=RECIPE, indices=range(24), epoch=0):
    indices = np.array(indices, dtype=np.int64)
    return Batches(Memory(items), recipe).__getitems__(BatchRequest(epoch, len(indices), indices))


def wrong_by_a_bit(data):
    """A record that makes sense, with one number changed."""
    record = np.frombuffer(data, np.uint8).copy()
    create.sections(record, parse(record).planes[0]).means[0] ^= 1
    return record.tobytes()


def damaged(data):
    """A record whose masks say too much."""
    record = np.frombuffer(data, np.uint8).copy()
    create.sections(record, parse(record).planes[0]).masks[:] |= np.uint64(0xFE)
    return record.tobytes()


@pytest.mark.parametrize("resize", ["antialias", "bilinear", "dct"])
@pytest.mark.parametrize("train", [True, False])
def test_the_same_pictures_as_from_the_files(train, resize):
    recipe = RECIPE._replace(train=train, resize=resize)
    files, packed = batch(FILES, recipe), batch(PACKED, recipe)
    assert (files.labels == packed.labels).all()
    assert not packed.bad
    difference = np.abs(files.images.astype(int) - packed.images)
    assert difference.mean() < (1 if resize == "dct" else 0.45)


def test_mixed_with_others_every_picture_is_the_same():
    """Which of them are rendered together changes nothing."""
    whole = batch(PACKED)
    mixed = [PACKED[n] if n % 3 else FILES[n] for n in range(24)]
    found, files = batch(mixed), batch(FILES)
    for row in range(24):
        assert (found.images[row] == (whole if row % 3 else files).images[row]).all()
        alone = batch(PACKED, indices=[row]).images[0]
        assert (alone == whole.images[row]).all()


def test_bad_records_are_replaced_and_told_in_order():
    items = list(PACKED)
    items[3], items[4], items[20] = damaged(PACKED[3]), b"nothing", PACKED[20][:-8]
    found, whole = batch(items), batch(PACKED)
    assert [bad.sample for bad in found.bad] == [3, 4, 20]
    assert "its masks and the index of its values disagree" in found.bad[0].reason
    assert "its header says" in found.bad[2].reason
    for row in range(24):
        same = (found.images[row] == whole.images[row]).all()
        assert same == (row not in (3, 4, 20))
    found = batch(items, RECIPE._replace(train=False))
    assert [row for row in range(24) if found.labels[row] == NO_LABEL] == [3, 4, 20]
    assert not found.images[[3, 4, 20]].any()


def test_checksums_are_compared_where_that_is_asked_for():
    items = list(PACKED)
    items[5] = wrong_by_a_bit(PACKED[5])
    assert not batch(items).bad
    found = batch(items, RECIPE._replace(verify=True))
    assert [bad.sample for bad in found.bad] == [5]
    assert "its checksum is" in found.bad[0].reason


@pytest.mark.parametrize(("trust", "bad"), [("nothing", ["item5"]), ("data", []), ("code", [])])
def test_a_loader_that_trusts_nothing_compares_them(trust, bad):
    items = list(PACKED)
    items[5] = wrong_by_a_bit(PACKED[5])
    config = DataConfig(image_size=24, batch_size=8, trust=trust)
    settings = LoaderSettings(0, None, 0, None, False, "fork", [], [])
    loader = build_loader(Memory(items), config, settings, train=True, seed=42)
    assert [one.key for found in loader for one in found.bad] == bad


def test_too_many_pixels():
    found = batch(PACKED[:3], RECIPE._replace(train=False, max_pixels=3500), range(3))
    assert [bad.sample for bad in found.bad] == [1, 2]
    assert "67 x 55 pixels are more than data.max_pixels=3500 allows" in found.bad[0].reason


def test_workers_of_every_kind_give_the_same():
    found = [passes(make(Memory(PACKED), workers, kind=kind)) for workers, kind in KINDS]
    assert found[0] == found[1] == found[2]
    assert len(found[0][0]) > 3


def test_what_is_told_at_the_start():
    assert describe(PACKED[0]).startswith("coefficients of JPEG: our kernels")
    assert describe(damaged(PACKED[0])).startswith("a bad sample (damaged coefficient record")
    assert describe(pictures.encode(pictures.scene())).startswith("JPEG: libjpeg-turbo")
