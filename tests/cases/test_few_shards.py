"""Few shards, many ranks: samples are dealt out, so no rank is empty and the order stays mixed."""

import itertools

import numpy as np
import packing
import pictures
import pytest

from train.config import DataConfig
from train.data import build_loader
from train.data.batch import Recipe
from train.data.settings import LoaderSettings
from train.data.sources.open import open_sets
from train.data.sources.stream import Stream
from train.data.stream_batches import StreamBatches
from train.errors import ConfigError

ALONE = LoaderSettings(0, None, 0, None, False, "fork", [], [], "process")
CONFIG = DataConfig(batch_size=2, image_size=16)


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """Twelve pictures to train in one shard, five to judge in one shard."""
    folder = tmp_path_factory.mktemp("few")
    pictures.write_tree(folder / "source/train", count=4)
    pictures.write_tree(folder / "source/val", count=2, seed=5)
    packing.pack(folder / "source", folder / "pack", container="tar", content="original")
    assert len(list((folder / "pack").glob("train-*.tar"))) == 1
    assert len(list((folder / "pack").glob("val-*.tar"))) == 1
    return folder / "pack"


def loaded(source, world_size, train):
    """Indices that each rank is given in an epoch, without what only fills a batch."""
    found = []
    for rank in range(world_size):
        loader = build_loader(
            source,
            CONFIG,
            ALONE,
            train=train,
            seed=3,
            epochs=1,
            rank=rank,
            world_size=world_size,
        )
        batches = [batch.indices[batch.labels.numpy() >= 0].tolist() for batch in loader]
        loader.close()
        found.append([index for batch in batches for index in batch])
    return found


@pytest.mark.parametrize("world_size", [2, 3])
def test_one_shard_feeds_all_ranks(pack, world_size):
    sets = open_sets(str(pack))
    judged = loaded(sets.val, world_size, train=False)
    assert sorted(itertools.chain(*judged)) == list(range(len(sets.val)))
    assert all(judged)
    trained = loaded(sets.train, world_size, train=True)
    assert all(trained)
    assert set(itertools.chain(*trained)) == set(range(len(sets.train)))


def test_the_order_is_mixed_over_all_shards(tmp_path):
    pictures.write_tree(tmp_path / "source/train", count=40)
    pictures.write_tree(tmp_path / "source/val", count=1, seed=5)
    packing.pack(tmp_path / "source", tmp_path / "pack", container="tar", content="original")
    source = open_sets(str(tmp_path / "pack")).train
    (order,) = loaded(source, 1, train=True)
    # A buffer of a few samples would keep the first half of the file in the first half.
    first = np.array(order[: len(order) // 2])
    assert 0.25 < np.mean(first < len(source) / 2) < 0.75


def test_shards_that_are_streamed_are_dealt_out_whole_and_must_be_enough():
    stream = Stream(["http://127.0.0.1:9/only.tar"])
    with pytest.raises(ConfigError, match="1 shards can't be dealt out to 2 ranks; make smaller"):
        StreamBatches(stream, Recipe(True, 16, 0.08, 0.5, 10**6, 3), 2, rank=0, world_size=2)
