"""Where there are few images to validate on, the run says at its start how coarse top-1 is."""

import pytest
from small_run import arguments, fit, make_images

from train.prepare import few_to_validate


@pytest.mark.parametrize(("images", "classes"), [(400, 10), (100, 10), (50_000, 1000)])
def test_enough_images_are_not_worth_a_word(images, classes):
    assert few_to_validate(images, classes) == ""


@pytest.mark.parametrize(
    ("images", "classes", "words"),
    [
        (60, 3, "few images: 60, each is 1.7 points of top-1. Small"),
        (30, 10, "few images: 30, about 3 a class, each is 3.3 points of top-1. Small"),
        (500, 100, "few images: 500, about 5 a class. Small"),
        (1, 2, "few images: 1, about 0.5 a class, each is 100 points of top-1. Small"),
    ],
)
def test_few_images_are_told_with_what_each_counts(images, classes, words):
    assert words in few_to_validate(images, classes)


def test_a_run_says_it_once_and_trains(tmp_path, capsys):
    data = make_images(tmp_path / "images", train=4, val=2)
    assert fit(*arguments(data, tmp_path / "run", run__max_steps=1)) == 0
    assert capsys.readouterr().out.count("each is 16.7 points of top-1") == 1
