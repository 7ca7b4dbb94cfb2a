"""The page about the layout says what the code does."""

import re
from pathlib import Path

import pytest

from train.data.coefficients import MAGIC, VERSION
from train.data.coefficients.record import HEADER, PLANE, TAIL

PAGE = (Path(__file__).parents[3] / "docs/coefficients.md").read_text()


@pytest.mark.parametrize(("title", "layout"), [("Header", HEADER), ("Entry of a plane", PLANE)])
def test_each_field_with_its_place_and_size(title, layout):
    table = PAGE.split(f"**{title}**")[1].split("\n\n")[1]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", table, re.MULTILINE)
    assert [(int(place), int(size), name) for place, size, name in rows] == [
        (layout.fields[name][1], layout.fields[name][0].itemsize, name) for name in layout.names
    ]
    assert f"**{title}**, {layout.itemsize} bytes" in PAGE


def test_the_numbers_in_words():
    assert f"`{MAGIC.decode()!r}`".replace("'", "") in PAGE
    assert f"The layout, version {VERSION}" in PAGE
    assert f"and {TAIL} zero bytes" in PAGE
