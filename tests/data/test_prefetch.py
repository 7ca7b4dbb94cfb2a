"""Host batch -> device batch on the CPU; what needs a GPU is in tests/gpu."""

import numpy as np
import pytest
import torch

from train.data.batch import Batch
from train.data.prefetch import MEAN, STD, DevicePrefetcher, normalise
from train.errors import DataError

CPU = torch.device("cpu")


def host(number, count=3, size=8):
    generator = torch.Generator().manual_seed(number)
    images = torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator)
    return Batch(images, torch.arange(count), 0, number, np.arange(count), ())


class Counting:
    """A loader that knows how far it was read and whether it was left properly."""

    def __init__(self, batches, error=None):
        self.batches, self.error = batches, error
        self.given, self.closed = 0, 0

    def __iter__(self):
        try:
            for batch in self.batches:
                self.given += 1
                yield batch
            if self.error is not None:
                raise self.error
        finally:
            self.closed += 1


def test_values_are_those_of_a_normalisation_by_hand():
    batch = host(1)
    (found,) = DevicePrefetcher([batch], CPU)
    levels = batch.images.numpy().astype(np.float64)
    expected = (levels - np.array(MEAN)) / np.array(STD)
    assert found.images.dtype == torch.float32
    assert found.images.shape == (3, 3, 8, 8)
    assert np.abs(found.images.numpy() - expected.transpose(0, 3, 1, 2)).max() < 1e-5
    assert torch.equal(found.labels, batch.labels)
    assert found.host is batch


def test_the_mean_colour_becomes_zero_and_white_and_black_their_known_values():
    ends = torch.tensor([[[[0, 0, 0], [255, 255, 255]]]], dtype=torch.uint8)
    black, white = normalise(ends)[0, :, 0].T.tolist()
    assert black == pytest.approx([-2.1179, -2.0357, -1.8044], abs=1e-4)
    assert white == pytest.approx([2.2489, 2.4286, 2.6400], abs=1e-4)


def test_images_are_channels_last_and_the_host_batch_is_untouched():
    batch = host(2)
    before = batch.images.clone()
    images = normalise(batch.images)
    assert images.is_contiguous(memory_format=torch.channels_last)
    images.zero_()
    assert torch.equal(batch.images, before)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_all_batches_come_in_order_and_once(depth):
    batches = [host(number) for number in range(7)]
    found = list(DevicePrefetcher(batches, CPU, depth))
    assert [batch.host.samples_seen for batch in found] == list(range(7))
    assert all(torch.equal(f.images, normalise(b.images)) for f, b in zip(found, batches))


def test_an_empty_loader_yields_nothing():
    loader = Counting([])
    assert list(DevicePrefetcher(loader, CPU)) == []
    assert loader.closed == 1


def test_each_for_is_a_new_pass():
    prefetcher = DevicePrefetcher(Counting([host(1), host(2)]), CPU)
    assert [len(list(prefetcher)) for _ in range(2)] == [2, 2]


def test_an_error_of_the_loader_reaches_the_caller_after_the_batches_before_it():
    loader, found = Counting([host(1), host(2)], DataError("a worker died")), []
    with pytest.raises(DataError, match="a worker died"):
        found += [batch.host.samples_seen for batch in DevicePrefetcher(loader, CPU)]
    iterator = iter(DevicePrefetcher(loader, CPU))
    assert [next(iterator).host.samples_seen for _ in range(2)] == [1, 2]
    with pytest.raises(DataError, match="a worker died"):
        next(iterator)


def test_a_consumer_that_leaves_early_closes_the_pass_of_the_loader():
    loader = Counting([host(number) for number in range(5)])
    for batch in DevicePrefetcher(loader, CPU):
        if batch.host.samples_seen == 1:
            break
    assert loader.closed == 1
    assert loader.given < 5
