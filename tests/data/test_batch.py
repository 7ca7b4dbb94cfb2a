"""A batch from requests: what is resized, mirrored, substituted, and left alone."""

import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pictures
import pytest
import torch
from loading import Drawing
from PIL import Image

from train.data import augment
from train.data.batch import NO_LABEL, SUBSTITUTE_TRIES, Batches, Failure, Recipe
from train.data.jpeg import windows
from train.data.sampler import BatchRequest
from train.data.sources import Record
from train.errors import BadSample

RECIPE = Recipe(train=True, image_size=24, crop_min=0.3, flip=0.5, max_pixels=10**6, seed=42)


class Memory:
    """Records in memory; None is a file that can't be read, as an OSError says."""

    def __init__(self, items):
        self.items = items
        self.labels = np.arange(len(items)) % 3

    def __len__(self):
        return len(self.items)

    def key(self, index):
        return f"item{index}"

    def __getitem__(self, index):
        data = self.items[index]
        if data is None:
            raise OSError(5, "Input/output error")
        return Record(data, int(self.labels[index]), self.key(index))


GOOD = [pictures.encode(pictures.scene(60 + i, 50, i), quality=90) for i in range(12)]


def request(*indices, epoch=0):
    return BatchRequest(epoch, len(indices), np.array(indices, dtype=np.int64))


def by_pillow(pixels, box, size):
    window = Image.fromarray(pixels).crop((box.x, box.y, box.x + box.width, box.y + box.height))
    return np.asarray(window.resize((size, size), Image.BILINEAR))


def difference(a, b):
    return int(np.abs(np.asarray(a).astype(int) - np.asarray(b).astype(int)).max())


def test_the_window_is_cut_before_it_is_scaled():
    """As torchvision does: pixels outside of the crop must not leak in."""
    pixels = np.full((100, 100, 3), 255, np.uint8)
    pixels[20:60, 30:70] = 10
    source = Memory([pictures.encode(pixels, "PNG")])
    dataset = Batches(source, RECIPE._replace(flip=0.0))
    for epoch in range(20):
        box = augment.train_box(augment.uniform(42, epoch, np.zeros(1))[0], 100, 100, 0.3)
        found = dataset.__getitems__(request(0, epoch=epoch)).images[0]
        assert difference(found, by_pillow(pixels, box, 24)) <= 1


@pytest.mark.parametrize("train", [True, False])
def test_a_batch_is_the_recipe_carried_out(train):
    source = Memory([pictures.encode(pictures.scene(70, 50, i), "PNG") for i in range(6)])
    batch = Batches(source, RECIPE._replace(train=train)).__getitems__(request(4, 0, 5, epoch=3))
    assert batch.images.dtype == np.uint8
    assert batch.images.shape == (3, 24, 24, 3)
    assert batch.labels.dtype == np.int64
    assert batch.labels.tolist() == [1, 0, 2]
    assert (batch.epoch, batch.samples_seen, batch.bad) == (3, 3, ())
    for row, index in enumerate([4, 0, 5]):
        draws = augment.uniform(42, 3, np.array([index]))[0]
        box = augment.train_box(draws, 70, 50, 0.3) if train else augment.eval_box(70, 50)
        expected = by_pillow(pictures.scene(70, 50, index), box, 24)
        if train and augment.train_flip(draws, 0.5):
            expected = expected[:, ::-1]
        assert difference(batch.images[row], expected) <= 1


def test_a_mirror_image_is_exact():
    images = [
        Batches(Memory(GOOD), RECIPE._replace(flip=flip)).__getitems__(request(*range(12))).images
        for flip in (0.0, 1.0)
    ]
    assert np.array_equal(images[0][:, :, ::-1], images[1])


def test_a_sample_does_not_depend_on_the_others_of_its_batch():
    dataset = Batches(Memory(GOOD), RECIPE)
    whole = dataset.__getitems__(request(*range(12)))
    for index in (0, 5, 11):
        assert np.array_equal(dataset.__getitems__(request(index)).images[0], whole.images[index])
    assert np.array_equal(dataset[5].images[0], whole.images[5])


class Ring:
    """Two slots, as the loader's ring has them."""

    def __init__(self):
        self.memory = np.full((2, 4, 24, 24, 3), 99, np.uint8)

    def array(self, slot, count):
        return self.memory[slot, :count]


def test_a_batch_with_a_slot_is_written_into_the_ring():
    dataset = Batches(Memory(GOOD), RECIPE)
    expected = dataset.__getitems__(request(3, 7, 5))
    assert expected.slot == -1
    dataset.ring = Ring()
    batch = dataset.__getitems__(request(3, 7, 5)._replace(slot=1))
    assert batch.images is None
    assert batch.slot == 1
    assert np.array_equal(batch.labels, expected.labels)
    assert np.array_equal(dataset.ring.memory[1, :3], expected.images)
    assert (dataset.ring.memory[0] == 99).all()
    assert (dataset.ring.memory[1, 3] == 99).all()
    private = dataset.__getitems__(request(3, 7, 5))  # no slot was free
    assert np.array_equal(private.images, expected.images)


def test_any_form_of_the_same_content_is_the_same_batch():
    pixels = [pictures.scene(70, 50, i) for i in range(4)]
    stored = [b"P6\n70 50\n255\n" + picture.tobytes() for picture in pixels]
    png = [pictures.encode(picture, "PNG") for picture in pixels]
    forms = [pixels, stored, [memoryview(data) for data in stored], png]
    batches = [Batches(Memory(form), RECIPE).__getitems__(request(0, 1, 2, 3)) for form in forms]
    for batch in batches[1:]:
        assert np.array_equal(batch.images, batches[0].images)
    packed = [windows.pack(data) for data in GOOD]
    assert np.array_equal(
        Batches(Memory(packed), RECIPE).__getitems__(request(*range(12))).images,
        Batches(Memory(GOOD), RECIPE).__getitems__(request(*range(12))).images,
    )


@pytest.mark.parametrize("resize", ["antialias", "bilinear", "dct"])
def test_the_recipe_names_the_way_of_resizing(resize):
    items = [pictures.encode(pictures.scene(300, 290, i), quality=90) for i in range(6)]
    recipe = RECIPE._replace(resize=resize, crop_min=0.5)
    found = Batches(Memory(items), recipe).__getitems__(request(*range(6))).images
    other = Batches(Memory(items), recipe._replace(resize="antialias")).__getitems__(
        request(*range(6))
    )
    assert np.array_equal(found, other.images) == (resize == "antialias")
    assert np.abs(found.astype(int) - other.images).mean() < (20 if resize == "bilinear" else 2)


def test_threads_make_the_same_batches():
    dataset = Batches(Memory(GOOD), RECIPE)
    expected = [dataset.__getitems__(request(*range(12), epoch=e)).images for e in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda e: dataset.__getitems__(request(*range(12), epoch=e)).images, range(8))
        )
    assert all(np.array_equal(*pair) for pair in zip(found, expected))


def test_threads_leave_the_generators_alone():
    """They belong to all threads: one that put them back would undo what the others drew."""
    before = random.getstate()
    with ThreadPoolExecutor(1) as pool:
        inside = pool.submit(lambda: Batches(Drawing(4), RECIPE).__getitems__(request(0, 1)))
        assert inside.result().bad == ()
    assert random.getstate() != before  # the source drew from the program's own generator


def test_a_data_set_can_be_sent_to_a_new_process():
    dataset = Batches(Memory(GOOD), RECIPE)
    dataset.warm()
    again = pickle.loads(pickle.dumps(dataset))
    expected = dataset.__getitems__(request(0, 1)).images
    assert np.array_equal(again.__getitems__(request(0, 1)).images, expected)


def test_an_empty_request_is_an_empty_batch():
    batch = Batches(Memory(GOOD), RECIPE).__getitems__(request())
    assert batch.images.shape == (0, 24, 24, 3)


def test_in_training_a_bad_sample_gets_a_substitute_that_never_changes():
    items = list(GOOD)
    items[3], items[7], items[9] = b"", None, GOOD[9][:300]
    dataset = Batches(Memory(items), RECIPE)
    batch = dataset.__getitems__(request(2, 3, 7, 9))
    reasons = {bad.key: bad.reason for bad in batch.bad}
    assert reasons["item3"] == "the file is empty (0 bytes)"
    assert reasons["item7"] == "cannot be read: Input/output error"
    assert "damaged JPEG of 300 bytes" in reasons["item9"]
    assert {bad.sample for bad in batch.bad} == {3, 7, 9}
    assert NO_LABEL not in batch.labels.tolist()
    again = dataset.__getitems__(request(9, 3, 2, 7))
    for row, other in ((1, 1), (2, 3), (3, 0)):
        assert np.array_equal(batch.images[row], again.images[other])
        assert batch.labels[row] == again.labels[other]
    rows = [dataset.__getitems__(request(3, epoch=e)).images for e in range(6)]
    assert any(not np.array_equal(rows[0], row) for row in rows)


def test_a_substitute_carries_its_own_label():
    """A picture of a cat under the label of a dog would teach something false."""
    colours = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
    items = [
        pictures.encode(np.full((9, 9, 3), colours[i % 3], np.uint8), "PNG") for i in range(30)
    ]
    items[4] = b"?"
    dataset = Batches(Memory(items), RECIPE)
    found = set()
    for epoch in range(12):
        batch = dataset.__getitems__(request(4, epoch=epoch))
        assert batch.images[0].mean((0, 1)).argmax() == batch.labels[0]
        found.add(int(batch.labels[0]))
    assert len(found) > 1


def test_in_evaluation_a_bad_sample_counts_nowhere_and_shows_nothing():
    items = list(GOOD)
    items[1] = b"?"
    batch = Batches(Memory(items), RECIPE._replace(train=False)).__getitems__(request(0, 1, 2))
    assert batch.labels.tolist() == [0, NO_LABEL, 2]
    assert (batch.images[1] == 0).all()
    assert [bad.key for bad in batch.bad] == ["item1"]


def test_when_nothing_is_good_the_message_says_what_to_look_at():
    dataset = Batches(Memory([b"?"] * 5), RECIPE)
    failure = dataset.__getitems__(request(0, 1))
    assert isinstance(failure, Failure)
    assert f"{SUBSTITUTE_TRIES} substitutes in a row were bad too" in failure.message
    assert "'item" in failure.message
    assert "check that data.path is the right folder" in failure.message
    with pytest.raises(BadSample, match="in a row"):
        dataset[0]


def test_the_generators_of_the_program_are_left_alone():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = random.random(), np.random.rand(), torch.rand(3)
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    Batches(Memory(GOOD), RECIPE).__getitems__(request(*range(12)))
    assert random.random() == expected[0]
    assert np.random.rand() == expected[1]
    assert torch.equal(torch.rand(3), expected[2])


def test_the_generators_of_the_gpus_are_left_alone(monkeypatch):
    """torch.manual_seed seeds every GPU too: with workers=0 dropout there would repeat itself."""
    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    Batches(Memory(GOOD), RECIPE).__getitems__(request(0, 1))
    assert seeded == []
