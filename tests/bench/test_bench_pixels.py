"""All arms of `train bench` see the same pixels in the same order."""

import dataclasses

import numpy as np
import pictures
import pytest
import torch
from PIL import Image

from train.bench.arms import ARMS
from train.bench.child import _articles_measure
from train.bench.loaders import ALONE, open_loader
from train.bench.plain import picture, problem
from train.config import Config, DataConfig
from train.data.prefetch import normalise
from train.data.sources.splits import open_splits
from train.errors import BadSample
from train.pack.options import PackOptions
from train.pack.run import pack

SIZE = 32
PLAIN, ARTICLES, OURS, PACKED, SYNTHETIC = ARMS


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return pictures.write_tree(tmp_path_factory.mktemp("data") / "tree")


def two_epochs(arm, path, **settings):
    """The images of two passes, float32 levels (N, 3, S, S), and their labels."""
    config = Config(DataConfig(path=str(path), image_size=SIZE, batch_size=5))
    source = open_splits(str(path), 0.2, config.run.seed).train
    loader = open_loader(arm, source, config, settings)
    images, labels = [], []
    for _ in range(2):
        for batch in loader:
            images.append(normalise(batch.images).clone())
            labels.append(batch.labels.clone())
    loader.close()
    deviation = torch.tensor((58.395, 57.12, 57.375)).view(1, 3, 1, 1)
    return torch.cat(images) * deviation, torch.cat(labels)


def ours(**changes):
    return dataclasses.asdict(dataclasses.replace(ALONE, **changes))


@pytest.fixture(scope="module")
def expected(tree):
    return two_epochs(OURS, tree, **ours())


def assert_same_pixels(found, expected):
    images, labels = found
    assert torch.equal(labels, expected[1])
    assert images.shape == expected[0].shape
    assert (images - expected[0]).abs().max() <= 1.01  # levels of 0 to 255


def test_plain(tree, expected):
    assert_same_pixels(two_epochs(PLAIN, tree, num_workers=0), expected)


def test_articles(tree, expected):
    settings = {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": True}
    assert_same_pixels(two_epochs(ARTICLES, tree, **settings), expected)


def test_ours_with_workers(tree, expected):
    found = two_epochs(OURS, tree, **ours(workers=2, prefetch=2))
    assert torch.equal(found[0], expected[0])


def test_packed(tree, expected, tmp_path):
    from train.machine import Measure

    pack(PackOptions(str(tree), str(tmp_path / "pack")), Measure("CPUs", 2, "test"), look=False)
    assert_same_pixels(two_epochs(PACKED, tmp_path / "pack", **ours()), expected)
    # and Pillow reads what it holds
    assert_same_pixels(two_epochs(PLAIN, tmp_path / "pack", num_workers=0), expected)


@pytest.mark.parametrize("arm", [PLAIN, OURS], ids=lambda arm: arm.name)
def test_the_articles_measure(tree, arm):
    config = Config(DataConfig(path=str(tree), image_size=SIZE, batch_size=5))
    source = open_splits(str(tree), 0.2, config.run.seed).train
    settings = {"num_workers": 0} if arm is PLAIN else ours()
    assert _articles_measure(open_loader(arm, source, config, settings)) > 0


def test_the_epochs_differ(expected):
    half = len(expected[1]) // 2
    assert not torch.equal(expected[0][:half], expected[0][half:])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_plain_turns_pictures_upright(orientation):
    upright = pictures.marked()
    stored = pictures.turned(upright, orientation)
    data = pictures.encode(stored, "PNG", exif=pictures.exif(orientation))
    assert np.array_equal(np.asarray(picture(data, 1 << 20)), upright)


def test_plain_reads_what_is_no_ordinary_rgb():
    grey16 = Image.fromarray((np.arange(256, dtype=np.uint16) * 257).reshape(16, 16))
    assert np.asarray(picture(pictures.encode(grey16, "PNG"), 1 << 20))[0, 5].tolist() == [5] * 3
    clear = Image.new("RGBA", (8, 8), (200, 0, 0, 0))
    assert np.asarray(picture(pictures.encode(clear, "PNG"), 1 << 20))[0, 0].tolist() == [255] * 3
    raw = np.full((4, 6, 3), 7, np.uint8)
    assert picture(raw, 1 << 20).size == (6, 4)


def test_plain_refuses_too_many_pixels():
    with pytest.raises(BadSample, match="more pixels than"):
        picture(pictures.encode(pictures.scene()), 100)


def test_a_damaged_file_is_replaced_by_the_same_one_in_all_arms(tree, tmp_path):
    import shutil

    broken = shutil.copytree(tree, tmp_path / "broken")
    for path in sorted(broken.glob("*/*.jpg"))[::4]:
        path.write_bytes(path.read_bytes()[:40])
    found = two_epochs(PLAIN, broken, num_workers=0)
    assert_same_pixels(found, two_epochs(OURS, broken, **ours()))


def test_records_that_pillow_does_not_know_are_named(tmp_path):
    for number in range(3):
        path = tmp_path / "cat" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"WFcoef\r\n" + bytes(300))
    source = open_splits(str(tmp_path), 0.1, 42).train
    assert "Pillow reads none of 2 records" in problem(source, 1 << 20)
