"""What is recommended follows from the rates, the sizes and the disk."""

import pictures
import pytest
from packing import pack

from train.pack import speed
from train.pack.advice import Row, recommendation, show
from train.pack.options import PackOptions
from train.pack.plan import make_plan

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


@pytest.mark.parametrize("disk", [None, 3_000e6])
def test_the_table_fits_a_terminal_of_eighty_columns(disk, capsys):
    show([RAW._replace(name="windows --short-side 1024"), WINDOWS, PACKED], 96, disk)
    lines = capsys.readouterr().out.splitlines()
    table = [line for line in lines if not line.startswith("recommended")]
    assert len(table) >= 6
    assert max(map(len, table)) < 80


@pytest.mark.parametrize(("suffix", "changes"), [("PNG", True), ("JPEG", False)])
def test_windows_of_a_png_change_the_image(suffix, changes, tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / "src" / name).mkdir(parents=True)
        (tmp_path / "src" / name / "x").with_suffix("." + suffix.lower()).write_bytes(
            pictures.encode(pictures.scene(60, 50), suffix)
        )
    pack(tmp_path / "src", tmp_path / "out", content="original")
    seen = []
    monkeypatch.setattr(speed, "show", lambda rows, *_: seen.extend(rows))
    options = PackOptions(str(tmp_path / "src"), str(tmp_path / "out"), content="original")
    speed.measure(options, tmp_path / "out", make_plan(options), 1)
    assert {row.name: row.kept for row in seen} == {
        "original": True,
        "windows": not changes,
        "windows --short-side 256": False,
        "raw --short-side 256": False,
    }
