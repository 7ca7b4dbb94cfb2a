"""docs/cases.md: each case once, with its report, and a test that is really there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/cases.md").read_text(encoding="utf-8")
REPORTED, OURS = PAGE.split("\n## Without a report\n")
GROUPS = {"DL": 23, "BD": 27, "EN": 10, "CT": 17, "TR": 13, "BP": 7}
LINK = re.compile(
    r"\[([\w.-]+/[\w.-]+)#(\d+)\]\(https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)\)"
)


def rows(text):
    """Cells of each row of each table, its head and its line left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[-1] != "test" and not set(row[0]) <= set("-: ")]


def named(cell):
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", cell)


def names_in(path):
    """Names of the tests in a file, those of a class too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_each_case_is_there_once():
    found = [row[0] for row in rows(REPORTED)]
    assert len(found) == len(set(found))
    assert {key: sum(name.startswith(f"{key}-") for name in found) for key in GROUPS} == GROUPS
    assert all(re.fullmatch(r"[A-Z]{2}-\d\d", name) for name in found)
    for section in re.split(r"^## ", REPORTED, flags=re.MULTILINE)[1:]:
        numbers = [row[0] for row in rows(section)]
        assert numbers == sorted(numbers)
        assert len({number[:2] for number in numbers}) == 1


@pytest.mark.parametrize(
    ("part", "columns"), [(REPORTED, 4), (OURS, 3)], ids=["reported", "without a report"]
)
def test_no_row_is_empty(part, columns):
    assert rows(part)
    for row in rows(part):
        assert len(row) == columns, row[0]
        assert all(len(cell) >= 5 for cell in row), row[0]
        assert named(row[-1]), row[0]
        # nothing else stands in that cell
        assert re.sub(r"`tests/[\w/]+\.py::test_\w+`|<br>", "", row[-1]) == "", row[0]


def test_each_case_has_its_public_report():
    for row in rows(REPORTED):
        links = LINK.findall(row[1])
        assert links, row[0]
        assert row[1].count("](") == len(links), row[0]
        for name, number, repository, thread in links:
            assert (name, number) == (repository, thread), row[0]


def test_each_named_test_is_there():
    wanted = {pair for row in rows(PAGE) for pair in named(row[-1])}
    assert len(wanted) > 150
    there = {path: names_in(ROOT / path) for path, _ in wanted if (ROOT / path).is_file()}
    assert [pair for pair in sorted(wanted) if pair[1] not in there.get(pair[0], ())] == []


def test_a_test_that_is_gone_would_be_found():
    assert "test_each_named_test_is_there" in names_in(Path(__file__))
    assert "test_no_such_test" not in names_in(Path(__file__))
    assert named("`tests/a/b.py::test_c`<br>`tests/d.py::test_e`") == [
        ("tests/a/b.py", "test_c"),
        ("tests/d.py", "test_e"),
    ]
