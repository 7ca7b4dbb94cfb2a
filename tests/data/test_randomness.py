"""Random numbers: a user's transform may draw them, and the rest of the program never notices."""

import random

import numpy as np
import pytest
import torch
from loading import Drawing, make

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")


@pytest.mark.parametrize("count", [0, 2])
def test_the_generators_of_the_program_are_left_alone(count):
    def draws():
        return random.random(), float(np.random.rand()), torch.rand(2).tolist()

    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    expected = [draws() for _ in range(4)]
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    loader, found = make(Drawing(25), count), []
    loader.start()
    for number, _ in enumerate(loader):
        if number < 4:
            found.append(draws())
    loader.close()
    assert found == expected


def colours(loader, count=2):
    """What a user's transform drew, by epoch: {index: (random, NumPy, torch)}."""
    found = []
    for _ in range(count):
        row = {}
        for batch in loader:
            for index, image in zip(batch.indices.tolist(), batch.images):
                row[index] = tuple(image[4, 4].tolist())
        found.append(row)
    loader.close()
    return found


def test_the_draws_of_a_users_transform_depend_on_the_epoch_and_not_on_workers():
    source = Drawing(40)
    alone = colours(make(source))
    for count in (1, 2):
        assert colours(make(source, count)) == alone
    first, second = alone
    assert all(first[index] != second[index] for index in first)
    for channel in range(3):  # each of the three generators is seeded
        assert len({colour[channel] for colour in first.values()}) > 20
        assert [first[i][channel] for i in first] != [second[i][channel] for i in first]


def test_two_ranks_draw_four_different_streams():
    """2 ranks x 2 workers; no two batches, of any rank or worker, draw the same numbers."""
    source = Drawing(40)
    ranks = [make(source, 2, rank=rank, world_size=2) for rank in range(2)]
    batches = []
    for loader in ranks:
        for batch in loader:
            batches.append(tuple(map(tuple, batch.images[:, 4, 4].tolist())))
        loader.close()
    assert len(batches) == len(set(batches)) == 8
    drawn = [draw for batch in batches for draw in batch]
    assert len(set(drawn)) == len(drawn)
