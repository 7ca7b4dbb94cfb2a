"""The documentation's site: what it is made of, and how links and pages are turned into it."""

import re
from pathlib import Path

import docs_check
import docs_links
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def config():
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def pages_of(nav):
    for entry in nav:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from [value] if isinstance(value, str) else pages_of(value)


def test_the_navigation_has_every_document_once():
    named = list(pages_of(config()["nav"]))
    files = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    of_the_root = {name for name in named if name.startswith(docs_links.FOLDER)}
    assert len(named) == len(set(named))
    assert set(named) - of_the_root == files
    assert all((ROOT / docs_links.origin_of(name)).is_file() for name in of_the_root)


def test_each_decision_is_in_the_architectures_table():
    table = (ROOT / "docs/architecture.md").read_text().split("## Decisions\n")[1]
    named = re.findall(r"\| \[\d+\]\((adr/[^)]+)\)", table)
    assert named == sorted(
        path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/adr/*.md")
    )


def test_warnings_are_errors_and_no_host_is_named():
    settings, text = config(), (ROOT / "mkdocs.yml").read_text()
    assert settings["strict"] is True
    assert settings["theme"]["font"] is False
    assert settings["dev_addr"].startswith("127.0.0.1:")
    assert not {"repo_url", "site_url", "extra_javascript", "extra"} & set(settings)
    assert "social" not in settings["plugins"]
    assert "://" not in text
    for path in settings["extra_css"]:
        assert docs_check.loads_of(ROOT / "docs" / path) == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_make_docs_is_told(name):
    assert re.search(r"make docs\b(?!-)", (ROOT / name).read_text())


def test_every_api_name_exists():
    missing = []
    for page in ROOT.glob("docs/api/*.md"):
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE):
            module, _, last = name.rpartition(".")
            files = [ROOT.joinpath(*name.split(".")).with_suffix(".py")]
            for folder in (ROOT.joinpath(*module.split(".")),):
                files += [folder.with_suffix(".py"), folder / "__init__.py"]
            whole = files[0].is_file()
            text = "".join(file.read_text() for file in files[1:] if file.is_file())
            if not whole and not re.search(rf"^(class|def) {last}\b", text, re.MULTILINE):
                missing.append(name)
    assert missing == []


def test_a_link_out_of_the_documents_leads_to_a_page_of_the_site():
    text = "[a](../train/loop.py) [b](log.md#x) [c](../README.md) `[d](../train/run.py)`\n"
    assert docs_links.targets(text, "docs/tuning.md")[:3] == [
        "train/loop.py",
        "docs/log.md",
        "README.md",
    ]
    changed = docs_links.rewrite(text, "tuning.md")
    assert "[a](files/train/loop.py.md) [b](log.md#x) [c](files/README.md.md)" in changed
    deeper = docs_links.rewrite("[e](../../train/data/prefetch.py)", "adr/0002-copy-stream-rule.md")
    assert deeper == "[e](../files/train/data/prefetch.py.md)"


def test_links_of_the_readme_lead_into_the_documents():
    text = '[log](docs/log.md) <img src="docs/images/bench.png"> [a](https://example.org/x)'
    assert docs_links.rewrite(text, "files/README.md.md") == (
        '[log](../log.md) <img src="../images/bench.png"> [a](https://example.org/x)'
    )


def test_code_blocks_and_links_to_nothing_stay_as_they_are():
    text = "```\n[a](../train/loop.py)\n```\n[b](../no/such.py)\n"
    assert docs_links.rewrite(text, "tuning.md") == text


def test_a_file_is_shown_as_code_and_markdown_as_it_is():
    assert "~~~~~~bash\n#!/bin/bash" in docs_links.content_of("deploy/slurm.sh")
    assert docs_links.content_of("README.md") == (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "another host"),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', "another host"),
        ('<img srcset="a.png 1x, gone.png 2x">', "gone.png: there is no such file"),
        ('<a href="https://example.org">free to click</a><img src="a.png">', ""),
    ],
)
def test_what_pages_load_is_checked(tmp_path, body, finding):
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "index.html").write_text(f"<html>{body}</html>")
    found = list(docs_check.findings(tmp_path))
    assert [finding in line for line in found] == ([True] if finding else [])


def test_what_styles_load_is_checked(tmp_path):
    (tmp_path / "a.css").write_text("a { background: url('data:,x') } @import 'https://x.example';")
    (found,) = docs_check.findings(tmp_path)
    assert found.startswith("a.css loads https://x.example")
