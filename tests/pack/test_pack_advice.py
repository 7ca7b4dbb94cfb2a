"""What is recommended follows from the rates, the sizes and the disk."""

from train.pack.advice import Row, recommendation

PACKED = Row("original", True, 100_000, 400.0)
WINDOWS = Row("windows", True, 101_000, 600.0)
RAW = Row("raw --short-side 256", False, 270_000, 4000.0)


def test_from_memory_the_fastest_of_each_kind():
    said = recommendation([PACKED, WINDOWS, RAW], 4, None)
    assert "--content windows would be 1.5 x as fast;" in said
    assert "raw --short-side 256 would be 10.0 x as fast, which changes the images" in said


def test_from_a_slow_disk_large_images_are_not_faster():
    said = recommendation([PACKED, WINDOWS, RAW], 4, 100e6)
    assert said == "recommended: what you have; no other content is faster here"


def test_a_gain_within_the_noise_is_none():
    nearly = Row("windows", True, 100_000, 420.0)
    assert "what you have" in recommendation([PACKED, nearly], 4, None)


def test_the_disk_is_named_as_the_limit():
    small = Row("windows --short-side 256", False, 27_000, 1000.0)
    said = recommendation([PACKED, small], 4, 50e6)
    assert "3.7 x as fast" in said
    assert "the disk is the limit" in said
