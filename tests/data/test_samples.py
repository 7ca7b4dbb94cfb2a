"""A user's own data set: samples put together by PyTorch, batches like ours."""

import random

import numpy as np
import pytest
import torch

from train.data.batch import NO_LABEL, SUBSTITUTE_TRIES, Failure
from train.data.sampler import BatchRequest
from train.data.samples import Samples
from train.errors import BadSample


class Own(torch.utils.data.Dataset):
    """Numbers as images: their index, and what the generators gave."""

    def __init__(self, bad=(), error=None):
        self.bad, self.error = bad, error or BadSample("no good")

    def __len__(self):
        return 10

    def __getitem__(self, index):
        if index in self.bad:
            raise self.error
        drawn = [random.random(), np.random.rand(), torch.rand(()).item()]
        return torch.tensor([float(index), *drawn]).view(1, 2, 2), index % 3


def request(*indices, epoch=0):
    return BatchRequest(epoch, len(indices), np.array(indices, dtype=np.int64))


def test_a_batch_is_what_default_collate_makes():
    batch = Samples(Own(), True, 42).__getitems__(request(4, 0, 5, epoch=3))
    assert batch.images.dtype == torch.float32
    assert batch.images.shape == (3, 1, 2, 2)
    assert batch.images[:, 0, 0, 0].tolist() == [4, 0, 5]
    assert batch.labels.dtype == np.int64
    assert batch.labels.tolist() == [1, 0, 2]
    assert (batch.epoch, batch.samples_seen, batch.bad, batch.slot) == (3, 3, (), -1)
    assert batch.indices.tolist() == [4, 0, 5]


@pytest.mark.parametrize("make", [np.asarray, lambda image: (image * 9).byte(), float])
def test_images_keep_their_type(make):
    class Other(Own):
        def __getitem__(self, index):
            return make(torch.full((), float(index))), index

    batch = Samples(Other(), True, 42).__getitems__(request(1, 2))
    assert batch.images.shape == (2,)
    assert isinstance(batch.images, torch.Tensor)


def test_draws_depend_on_seed_epoch_and_batch_alone():
    def draws(seed, *indices, epoch=0):
        return Samples(Own(), True, seed).__getitems__(request(*indices, epoch=epoch)).images

    first = draws(42, 1, 2)
    random.seed(9)
    assert torch.equal(draws(42, 1, 2), first)
    for other in (draws(43, 1, 2), draws(42, 1, 2, epoch=1), draws(42, 3, 2)):
        assert not np.isin(other[:, 0].flatten(1)[:, 1:], first[:, 0].flatten(1)[:, 1:]).any()


def test_the_generators_of_the_program_are_left_alone():
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    Samples(Own(), True, 42).__getitems__(request(1, 2))
    assert random.getstate() == states[0]
    assert np.random.get_state()[1].tolist() == states[1]
    assert torch.get_rng_state().tolist() == states[2]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BadSample("no good"), "no good"),
        (OSError(5, "Input/output error"), "cannot be read: Input/output error"),
    ],
)
def test_in_training_a_bad_sample_gets_a_substitute(error, reason):
    dataset = Samples(Own({3, 4}, error), True, 42)
    batch = dataset.__getitems__(request(2, 3, 5))
    assert {item.sample for item in batch.bad} <= {3, 4}
    assert batch.bad[0] == (3, "3", reason)
    shown = batch.images[:, 0, 0, 0].long().tolist()
    assert (shown[0], shown[2]) == (2, 5)
    assert shown[1] not in (3, 4)
    assert batch.labels.tolist() == [index % 3 for index in shown]
    again = dataset.__getitems__(request(3)).images[0, 0, 0, 0]
    assert again == shown[1]


def test_in_evaluation_a_bad_sample_counts_nowhere():
    batch = Samples(Own({3}), False, 42).__getitems__(request(3, 5))
    assert batch.labels.tolist() == [NO_LABEL, 2]
    assert batch.images.shape == (2, 1, 2, 2)
    assert [item.sample for item in batch.bad] == [3]


@pytest.mark.parametrize("train", [True, False])
def test_when_nothing_is_good_the_message_says_so(train):
    dataset = Samples(Own(set(range(10))), train, 42)
    failure = dataset.__getitems__(request(0, 1))
    assert isinstance(failure, Failure)
    assert ("in a row were bad" in failure.message) == train
    assert "no good" in failure.message
    assert SUBSTITUTE_TRIES > 1
    with pytest.raises(BadSample, match="no good"):
        dataset[0]


def test_a_mistake_in_the_users_code_is_not_a_bad_sample():
    with pytest.raises(ZeroDivisionError):
        Samples(Own({1}, ZeroDivisionError("mine")), True, 42).__getitems__(request(0, 1))


def test_an_empty_request_is_an_empty_batch():
    batch = Samples(Own(), False, 42).__getitems__(request())
    assert len(batch.images) == len(batch.labels) == 0
