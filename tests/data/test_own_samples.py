"""A data set of one's own through the loader: stock collate, any worker, named in errors."""

import pytest
import torch
from loading import KINDS, make
from processes import workers

from train.config import DataConfig
from train.data.prefetch import DevicePrefetcher
from train.errors import DataError

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")


class Own:
    """Float images in torch's order, made by code of a user's."""

    def __init__(self, count=22, at=None, deed=None):
        self.count, self.at, self.deed = count, at, deed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.at:
            self.deed(index)
        generator = torch.Generator().manual_seed(index)
        return torch.rand(3, 6, 4, generator=generator), index % 3


def batches(loader):
    try:
        return [(b.images, b.labels.tolist(), b.indices.tolist(), b.epoch) for b in loader]
    finally:
        loader.close()


def fail(index):
    raise ValueError("no such colour")


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_batches_are_what_stock_collate_makes(count, kind):
    found = batches(make(Own(), count, kind=kind))
    assert sorted(i for batch in found for i in batch[2]) == list(range(22))
    for images, labels, indices, epoch in found:
        expected = torch.utils.data.default_collate([Own()[i] for i in indices])
        assert torch.equal(images, expected[0])
        assert (labels, epoch) == (expected[1].tolist(), 0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_any_start_method(method):
    found, expected = batches(make(Own(), 2, method)), batches(make(Own()))
    assert [batch[1:] for batch in found] == [batch[1:] for batch in expected]
    assert all(torch.equal(a[0], b[0]) for a, b in zip(found, expected))


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_batches_live_on_when_the_workers_are_gone(count, kind):
    loader = make(Own(), count, kind=kind)
    kept = list(loader)
    loader.close()
    assert workers() == []
    assert all(torch.equal(b.images[0], Own()[int(b.indices[0])][0]) for b in kept)


def test_float_images_reach_the_model_as_they_are():
    loader = make(Own(), 1)
    for batch in DevicePrefetcher(loader, torch.device("cpu")):
        assert batch.images.dtype == torch.float32
        assert batch.images.shape[1:] == (3, 6, 4)
        assert torch.equal(batch.images, batch.host.images)
    loader.close()


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_an_error_tells_the_sample(count, kind):
    loader = make(Own(at=7, deed=fail), count, kind=kind)
    with pytest.raises(ValueError, match=r"^no such colour \(at sample 7\)$"):
        batches(loader)


class OddError(Exception):
    """It can't be made again from its arguments."""

    def __init__(self, one, two):
        super().__init__(f"no {one} and no {two}")


class Unsendable(torch.Tensor):
    """Images that do not pickle."""

    def __reduce_ex__(self, protocol):
        raise OddError("colour", "taste")


class UnsendableImages(Own):
    """Whole batches of such images."""

    def __getitem__(self, index):
        return super().__getitem__(index)[0].as_subclass(Unsendable), 0


def test_what_a_worker_cannot_send_is_an_error():
    with pytest.raises(RuntimeError, match="no colour and no taste"):
        batches(make(UnsendableImages(), 1))


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_bad_samples_of_evaluation_count_nowhere(count, kind):
    config = DataConfig(batch_size=5)
    loader = make(Own(at=7, deed=damaged), count, kind=kind, train=False, config=config)
    found = list(loader)
    loader.close()
    (bad,) = [bad for batch in found for bad in batch.bad]
    assert (bad.sample, bad.key, bad.reason) == (7, "7", "cannot be read: Input/output error")
    assert found[1].labels.tolist() == [2, 0, -1, 2, 0]


def damaged(index):
    raise OSError(5, "Input/output error")


def test_a_data_set_in_which_all_is_bad_ends_with_a_message():
    class Gone(Own):
        def __getitem__(self, index):
            damaged(index)

    with pytest.raises(DataError, match="substitutes in a row were bad too"):
        batches(make(Gone(), 2))
