"""The loader in somebody else's program: three lines, whole epochs, a place to go on from."""

import itertools
import logging
import os
import pickle

import numpy as np
import pytest
import torch
from pictures import write_tree

from train.data import build_loader
from train.data.device_loader import DeviceLoader
from train.data.loader import Loader
from train.data.prefetch import normalise
from train.data.sources.torchvision_source import PixelSource
from train.errors import ConfigError, DataError, SetupError

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")


def numbered(count=23):
    """Grey pictures whose label is their number."""
    pixels = np.arange(count, dtype=np.uint8)[:, None, None, None]
    return PixelSource(np.broadcast_to(pixels, (count, 9, 8, 3)), np.arange(count))


def opened(count=23, **options):
    chosen = {"batch_size": 5, "image_size": 16, "device": "cpu", "workers": 1, **options}
    return build_loader(numbered(count), **chosen)


def labels_of(loader):
    return [labels.tolist() for _, labels in loader]


@pytest.fixture
def closing():
    """Closes what a test has opened."""
    loaders = []
    yield lambda loader: loaders.append(loader) or loader
    for loader in loaders:
        loader.close()


def test_three_lines(tree, closing):
    loader = closing(build_loader(str(tree), batch_size=6, image_size=24))
    shapes = []
    for images, labels in loader:
        shapes.append(tuple(images.shape))
        assert images.dtype == torch.float32
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert (labels.dtype, images.device) == (torch.int64, labels.device)
    assert sum(shape[0] for shape in shapes) == 24 - 3  # one of each class is set aside
    assert {shape[1:] for shape in shapes} == {(3, 24, 24)}
    assert loader.classes == ("bird", "cat", "dog")
    assert len(loader) == len(shapes)


def test_what_comes_is_the_lines_own_batch_normalised(tree, closing):
    loader = closing(build_loader(tree, batch_size=6, image_size=24, device="cpu", workers=0))
    other = closing(build_loader(tree, batch_size=6, image_size=24, device="cpu", workers=0))
    for (images, labels), batch in zip(loader, other.host):
        assert torch.equal(images, normalise(batch.images))
        assert torch.equal(labels, batch.labels)


def test_each_for_is_a_new_epoch_with_an_order_of_its_own(closing):
    loader = closing(opened())
    first, second = labels_of(loader), labels_of(loader)
    assert sorted(itertools.chain(*first)) == sorted(itertools.chain(*second)) == list(range(23))
    assert first != second
    assert loader.epoch == 1
    again = closing(opened(workers=0))
    again.set_epoch(1)
    assert labels_of(again) == second


def test_leaving_early_ends_the_epoch(closing):
    """As with torch's DataLoader: a look at a batch, or Lightning's sanity check."""
    loader, other = closing(opened()), closing(opened(workers=0))
    next(iter(loader))
    labels_of(other)
    assert labels_of(loader) == labels_of(other)


def test_evaluation_is_in_order_each_time(closing):
    loader = closing(opened(train=False))
    next(iter(loader))
    for _ in range(2):
        assert [*itertools.chain(*labels_of(loader))] == list(range(23))


def test_a_state_goes_on_from_the_very_next_batch(closing):
    loader = closing(opened())
    labels_of(loader)
    rest, state = [], None
    for number, (_, labels) in enumerate(loader):
        if number == 1:
            state = loader.state_dict()
        elif number > 1:
            rest.append(labels.tolist())
    assert state == {"seed": 42, "epoch": 1, "samples_seen": 10}
    following = labels_of(loader)

    resumed = closing(opened())
    resumed.load_state_dict(pickle.loads(pickle.dumps(state)))
    assert resumed.state_dict() == state
    assert len(resumed) == 5  # of a whole epoch, as those who count batches want it
    resumed.set_epoch(1)  # as loops do it: it is that epoch already
    assert labels_of(resumed) == rest
    assert labels_of(resumed) == following


def test_the_state_after_an_epoch_is_the_next_ones_beginning(closing):
    loader = closing(opened())
    assert loader.state_dict() == {"seed": 42, "epoch": 0, "samples_seen": 0}
    labels_of(loader)
    assert loader.state_dict() == {"seed": 42, "epoch": 1, "samples_seen": 0}


@pytest.mark.parametrize("state", [None, {"epoch": 1}, {"seed": 1, "epoch": 0, "samples_seen": 0}])
def test_a_state_that_is_none_is_refused(state, closing):
    with pytest.raises(DataError, match=r"no state of a loader|has seed 1"):
        closing(opened()).load_state_dict(state)


def test_the_last_epoch_is_the_last(closing):
    loader = closing(opened(epochs=1))
    assert len(labels_of(loader)) == 5
    assert labels_of(loader) == []


def test_ranks_are_disjoint_and_complete(monkeypatch, closing):
    group = torch.distributed
    monkeypatch.setattr(group, "is_initialized", lambda: True)
    monkeypatch.setattr(group, "get_world_size", lambda: 2)
    seen = []
    for rank in range(2):
        monkeypatch.setattr(group, "get_rank", lambda rank=rank: rank)
        loader = closing(opened(workers=0))
        seen += [*itertools.chain(*labels_of(loader))]
        assert f"rank {rank} of 2" in repr(loader)
    assert sorted(seen) == list(range(23))


@pytest.mark.parametrize("world_size", [2, 3, 7])
def test_in_evaluation_every_rank_takes_as_many_steps(world_size, closing):
    """What a rank lacks counts nowhere; else one of them would wait for ever for the others."""
    found = []
    for rank in range(world_size):
        options = {"train": False, "workers": 0, "rank": rank, "world_size": world_size}
        loader = closing(opened(**options))
        found.append(labels_of(loader))
        assert len(found[-1]) == len(loader)
        loader.load_state_dict({"seed": 42, "epoch": 3, "samples_seen": 15})
        assert len(labels_of(loader)) == 1  # two batches are left
    assert len({len(batches) for batches in found}) == 1
    labels = [label for rank in found for batch in rank for label in batch]
    assert sorted(label for label in labels if label >= 0) == list(range(23))


def test_ranks_that_do_not_know_each_other_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ConfigError, match=r"torch\.distributed has not begun"):
        opened()
    opened(rank=1, world_size=2).close()


def test_two_loaders_of_a_path_share_no_image(tree, closing):
    found = []
    for train, seed in ((True, 1), (False, 2)):
        loader = closing(
            build_loader(tree, train=train, seed=seed, val_share=0.3, device="cpu", workers=0)
        )
        source = loader.host.dataset.source
        found.append({source.key(index) for index in range(len(source))})
    assert len(found[0]) + len(found[1]) == 24
    assert not found[0] & found[1]


def test_bad_samples_are_told_once_and_past_the_budget_it_ends(tmp_path, caplog, closing):
    tree = write_tree(tmp_path / "tree")
    (tree / "cat" / "broken.jpg").write_bytes(b"no picture")
    options = {"batch_size": 5, "image_size": 16, "device": "cpu", "workers": 0, "val_share": 0.01}
    loader = closing(build_loader(tree, bad_budget=0.1, **options))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            list(loader)
    told = [record.getMessage() for record in caplog.records if "bad sample" in record.msg]
    assert told == ["bad sample 'cat/broken.jpg': " + told[0].split(": ", 1)[1]]
    with pytest.raises(DataError, match="bad_budget=0 allows"):
        list(closing(build_loader(tree, bad_budget=0.0, **options)))


def test_settings_have_reasons(closing):
    loader = closing(opened(workers=3, prefetch=1))
    assert (loader.settings.workers, loader.settings.prefetch) == (3, 1)
    assert "data.workers        3" in repr(loader)
    assert isinstance(loader.host, Loader)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batchsize": 4}, ConfigError, "no option 'batchsize'; did you mean 'batch_size'"),
        ({"path": "x"}, ConfigError, "no option 'path'"),
        ({"batch_size": "4"}, ConfigError, "batch_size must be a whole number, got '4'"),
        ({"batch_size": 0}, ConfigError, "data.batch_size must be >= 1"),
        ({"flip": True}, ConfigError, "flip must be a number"),
        ({"resize": "cubic"}, ConfigError, "resize must be 'antialias' or 'bilinear'"),
        ({"workers": 1.5}, ConfigError, "workers must be a whole number or 'auto'"),
        ({"device": "gpu"}, ConfigError, "device must be 'auto', 'cpu', 'cuda'"),
        ({"rank": 1}, ConfigError, "rank and world_size belong together"),
        ({"rank": 2, "world_size": 2}, ConfigError, "rank must be 0 to world_size - 1"),
    ],
)
def test_what_makes_no_sense_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        build_loader(numbered(), **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_told():
    with pytest.raises(SetupError, match="finds no GPU"):
        opened(device="cuda:1")


def test_a_path_that_is_not_there_is_told(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        build_loader(os.fspath(tmp_path / "gone"))


def test_with_settings_nothing_else_is_chosen():
    loader = opened()
    with pytest.raises(TypeError, match="neither device nor options"):
        build_loader(numbered(), loader.host, loader.settings, True, 42, batch_size=3)
    assert isinstance(loader, DeviceLoader)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_batches_ahead_do_not_count(closing):
    loader = closing(opened(device="cuda"))
    for number, (images, _) in enumerate(loader, 1):
        assert images.device.type == "cuda"
        assert loader.state_dict()["samples_seen"] == min(5 * number, 23) % 23
