"""What is recommended follows from the rates, the sizes and the disk."""

import pictures
import pytest
from packing import pack

from train.pack import speed
from train.pack.advice import CHANGED, CLOSE, KEPT, Data, Row, recommendation, show
from train.pack.options import PackOptions
from train.pack.plan import make_plan

PACKED = Row("original", KEPT, 100_000, 400.0)
WINDOWS = Row("windows", KEPT, 101_000, 600.0)
COEFFICIENTS = Row("coefficients", CLOSE, 220_000, 2400.0)
RAW = Row("raw --short-side 256", CHANGED, 270_000, 4000.0)
MEMORY = Data(10, None, 0)


def from_disk(bytes_per_s, memory=0):
    return Data(1000, bytes_per_s, memory)


def test_from_memory_the_fastest_of_each_kind():
    said = recommendation([PACKED, WINDOWS, COEFFICIENTS, RAW], 4, MEMORY)
    assert "--content windows would be 1.5 x as fast;" in said
    assert "--content coefficients would be 6.0 x as fast, decoded to pixels about half" in said
    assert "raw --short-side 256 would be 10.0 x as fast, which changes the images" in said


def test_what_gives_more_away_must_also_give_more():
    slow = RAW._replace(rate=600.0)
    said = recommendation([PACKED, WINDOWS, slow], 4, MEMORY)
    assert "raw" not in said
    # Where coefficients are packed, nothing is lost by going back.
    said = recommendation([COEFFICIENTS, WINDOWS._replace(rate=4800.0)], 4, MEMORY)
    assert said == "recommended: --content windows would be 2.0 x as fast"


def test_from_a_slow_disk_large_images_are_not_faster():
    said = recommendation([PACKED, WINDOWS, COEFFICIENTS, RAW], 4, from_disk(100e6))
    assert said == "recommended: what you have; no other content is faster here"


def test_what_fits_into_memory_is_read_once():
    """1,000 images of 220 kB do, into 230 MB; of those of 270 kB a part comes from a slow disk."""
    said = recommendation([PACKED, COEFFICIENTS, RAW], 4, from_disk(100e6, 230 * 10**6))
    assert "--content coefficients would be 6.0 x as fast" in said
    assert "raw" not in said
    assert COEFFICIENTS.cold(4, from_disk(100e6, 1 << 40)) == pytest.approx(100e6 / 220_000)
    assert COEFFICIENTS.later(4, from_disk(100e6, 110 * 10**6)) == pytest.approx(2 * 100e6 / 220e3)
    assert COEFFICIENTS.later(4, from_disk(100e6, 1 << 40)) == 9600


def test_a_gain_within_the_noise_is_none():
    nearly = Row("windows", KEPT, 100_000, 420.0)
    assert "what you have" in recommendation([PACKED, nearly], 4, MEMORY)


def test_the_disk_is_named_as_the_limit():
    small = Row("windows --short-side 256", CHANGED, 27_000, 1000.0)
    said = recommendation([PACKED, small], 4, from_disk(50e6))
    assert "3.7 x as fast" in said
    assert "the disk is the limit" in said


@pytest.mark.parametrize("disk", [None, 3_000e6])
def test_the_table_fits_a_terminal_of_eighty_columns(disk, capsys):
    long = RAW._replace(name="coefficients --short-side 1024")
    show([long, WINDOWS, PACKED], 96, Data(10**7, disk, 10**12), without_coefficients=True)
    lines = capsys.readouterr().out.splitlines()
    table = [line for line in lines if not line.startswith("recommended")]
    assert len(table) >= 10
    assert max(map(len, table)) < 80


@pytest.mark.parametrize(
    ("content", "images", "compiled", "looks"),
    [
        ("windows", 100, False, False),
        ("windows", 100, True, True),
        ("windows", speed.MANY_IMAGES, False, True),
        ("coefficients", 100, False, True),
    ],
)
def test_kernels_are_not_compiled_for_a_row_of_a_table(
    content, images, compiled, looks, monkeypatch
):
    monkeypatch.setattr(speed, "is_compiled", lambda: compiled)
    options = PackOptions("src", "out", content=content)
    assert speed.looks_at_coefficients(options, images) is looks


def test_a_table_without_coefficients_says_so_and_compiles_none(tmp_path, monkeypatch, capsys):
    for name in ("a", "b"):
        (tmp_path / "src" / name).mkdir(parents=True)
        (tmp_path / "src" / name / "x.jpg").write_bytes(
            pictures.encode(pictures.scene(60, 50), "JPEG")
        )
    pack(tmp_path / "src", tmp_path / "out", content="original")
    monkeypatch.setattr(speed, "is_compiled", lambda: False)
    monkeypatch.setattr(speed, "SECONDS", 0.01)
    options = PackOptions(str(tmp_path / "src"), str(tmp_path / "out"), content="original")
    capsys.readouterr()
    speed.measure(options, tmp_path / "out", make_plan(options), 1)
    told = capsys.readouterr().out
    assert "coefficients: left out, their kernels are not compiled here yet" in told
    assert not [line for line in told.splitlines() if line.startswith("  coefficients ")]
    assert "windows" in told


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
    monkeypatch.setattr(speed, "is_compiled", lambda: True)
    options = PackOptions(str(tmp_path / "src"), str(tmp_path / "out"), content="original")
    speed.measure(options, tmp_path / "out", make_plan(options), 1)
    assert {row.name: row.pixels for row in seen} == {
        "original": KEPT,
        "windows": CHANGED if changes else KEPT,
        "coefficients": CHANGED if changes else CLOSE,
        "windows --short-side 256": CHANGED,
        "coefficients --short-side 256": CHANGED,
        "raw --short-side 256": CHANGED,
    }
