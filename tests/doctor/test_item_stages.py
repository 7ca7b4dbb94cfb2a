"""Whose time it is: by where functions are defined, by their names, by attributes."""

import functools
import threading
import time

import data_sets
import pytest

from train.doctor.item import Item, time_items, time_items_in_threads, together
from train.doctor.stages import StageClock, stage_of, transform_code


@pytest.mark.parametrize(
    ("file", "name", "stage"),
    [
        ("/x/site-packages/torchvision/transforms/v2/_geometry.py", "forward", "augment"),
        ("/x/site-packages/torchvision/transforms/functional.py", "resize", "augment"),
        ("/x/site-packages/torchvision/io/image.py", "decode_jpeg", "decode"),
        ("/x/site-packages/albumentations/core/composition.py", "__call__", "augment"),
        ("/x/site-packages/PIL/Image.py", "open", "decode"),
        ("/x/site-packages/PIL/ImageFile.py", "load", "decode"),
        ("/x/site-packages/PIL/Image.py", "resize", None),
        ("/x/lib/python3.9/multiprocessing/synchronize.py", "__enter__", "lock"),
        ("/x/site-packages/numpy/core/numeric.py", "normalize", None),
        ("/home/me/data.py", "augment", "augment"),
        ("/home/me/data.py", "random_crop", "augment"),
        ("/home/me/data.py", "_transform", "augment"),
        ("/home/me/data.py", "decode_png", "decode"),
        ("/home/me/data.py", "read_bytes", "read"),
        ("/home/me/data.py", "__getitem__", None),
        ("/home/me/data.py", "encoder", None),
        (r"C:\me\data.py", "flip", "augment"),
    ],
)
def test_functions_have_a_stage_or_that_of_their_caller(file, name, stage):
    assert stage_of(file, name) == stage


def spin(seconds=0.01):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def decode():
    spin()


def augment():
    spin()
    decode()


def test_time_is_given_to_the_innermost_stage():
    with StageClock(base="other") as clock:
        augment()
        spin()
    assert clock.cpu_s["decode"] == pytest.approx(0.01, abs=0.008)
    assert clock.cpu_s["augment"] == pytest.approx(0.01, abs=0.008)
    assert clock.cpu_s["other"] == pytest.approx(0.01, abs=0.008)


def test_stages_end_with_an_error():
    def decode():
        raise ValueError("no picture")

    with StageClock(base="other") as clock:
        with pytest.raises(ValueError, match="no picture"):
            decode()
        spin()
    assert clock.cpu_s["other"] > clock.cpu_s["decode"]


def test_a_lock_is_waited_for_by_the_clock_and_not_by_the_cpu():
    lock = threading.Lock()
    lock.acquire()
    threading.Timer(0.05, lock.release).start()
    with StageClock() as clock:
        lock.acquire()
    assert clock.wall_s["lock"] > 0.02
    assert clock.cpu_s["lock"] < 0.02


class Turn:
    def __call__(self, image):
        return image


def plain(image):
    return image


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (Turn(), Turn.__call__.__code__),
        (plain, plain.__code__),
        (functools.partial(plain), plain.__code__),
    ],
)
def test_transforms_are_found_by_the_attributes_name(value, code):
    data = data_sets.Sound()
    data.my_transform = value
    assert code in transform_code(data)
    wrapped = data_sets.Sound()
    wrapped.dataset = data
    assert code in transform_code(wrapped)


def test_other_attributes_are_no_transforms():
    data = data_sets.Sound()
    data.loader = plain
    assert transform_code(data) == frozenset()


# one sample


def test_a_samples_time_is_split():
    def make(index):
        spin(0.004)
        time.sleep(0.004)

    item = time_items(make, [0, 1], 0.05)
    assert item.items >= 3
    assert item.cpu_s == pytest.approx(0.004, rel=0.5)
    assert item.blocked_s > 0.002
    assert item.wall_s >= item.cpu_s + item.blocked_s - 1e-9
    assert "test_item_stages.py" in item.place


def test_threads_of_a_sample_are_seen():
    def make(index):
        helper = threading.Thread(target=spin, args=(0.01,))
        helper.start()
        helper.join()

    item = time_items(make, [0], 0.05)
    assert item.helper_s > item.cpu_s


def test_workers_side_by_side_that_share_a_lock_are_blocked():
    lock = threading.Lock()

    def make(index):
        with lock:
            time.sleep(0.005)

    alone = time_items(make, [0], 0.05)
    beside = time_items_in_threads(make, [0, 1, 2], 0.1, 3)
    assert beside.blocked_s > 1.5 * alone.blocked_s


def test_an_error_in_one_of_several_threads_is_raised(deadline):
    def make(index):
        raise ValueError("no picture")

    with pytest.raises(ValueError, match="no picture"):
        time_items_in_threads(make, [0, 1], 0.05, 2)


def test_the_mean_of_several_workers_counts_their_samples():
    mean = together([Item(1.0, 0.5, items=1), Item(2.0, 0.5, items=3, place="a", place_share=0.4)])
    assert mean.wall_s == pytest.approx(1.75)
    assert (mean.items, mean.place) == (4, "a")
