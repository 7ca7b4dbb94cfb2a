"""Hooks of MkDocs (mkdocs.yml): pages for linked files, and pages that a phone can show.

The documents are read in the repository and on the site. In the repository a link such as
`../train/loop.py` opens the file. The site holds only what lies in docs/, so for each file that a
document links to a page is made here: Markdown as it is, anything else as code. Nothing is copied
by hand, and no address of a repository is needed.
"""

import re
from typing import Dict

import docs_links
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ALWAYS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Files with a place in the navigation."""

PROSE = 90
"""Characters of a cell from which on its table is stacked on a phone, cell below cell."""

LINE = 36
"""Characters of code that a line of a phone has room for; longer words break anywhere."""

_INLINE_CODE = re.compile(r"(?<!<pre>)<code>([^<\n]+)</code>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file that some document links to."""
    waiting = list(ALWAYS)
    for file in files.documentation_pages():
        waiting += docs_links.targets(file.content_string, docs_links.origin_of(file.src_uri))
    made: Dict[str, str] = {}
    while waiting:
        path = waiting.pop()
        page = docs_links.page_of(path)
        if page is None or path in made or path.startswith(("docs/", "..")):
            continue
        made[path] = docs_links.content_of(path)
        if path.endswith(".md"):
            waiting += docs_links.targets(made[path], path)
    for path, content in sorted(made.items()):
        place = InclusionLevel.INCLUDED if path in ALWAYS else InclusionLevel.NOT_IN_NAV
        files.append(
            File.generated(
                config, f"{docs_links.FOLDER}{path}.md", content=content, inclusion=place
            )
        )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links for the repository into links of the site."""
    return docs_links.rewrite(markdown, page.file.src_uri)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Help narrow screens: code breaks at its blanks alone, prose in tables can be stacked."""
    html = _INLINE_CODE.sub(_with_words, html)
    return re.sub(r"<table>.*?</table>", _labelled, html, flags=re.DOTALL)


def _with_words(match: "re.Match[str]") -> str:
    """Inline code, its words marked: a browser would break `--data.workers` behind the hyphens."""
    words = match.group(1).split(" ")
    marked = [f'<span class="word">{w}</span>' if 0 < len(w) <= LINE else w for w in words]
    return f"<code>{' '.join(marked)}</code>"


def _labelled(match: "re.Match[str]") -> str:
    """A table of sentences gets its columns' titles into the cells; one of numbers stays."""
    table = match.group()
    titles = [re.sub("<.*?>", "", cell) for cell in re.findall(r"<th[^>]*>(.*?)</th>", table, re.S)]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", table, re.S)
    if len(titles) < 3 or max(map(len, cells), default=0) < PROSE:
        return table
    column = -1

    def label(cell: "re.Match[str]") -> str:
        nonlocal column
        column = (column + 1) % len(titles)
        return f'<td data-label="{titles[column]}"{cell.group(1)}>'

    table = re.sub(r"<td([^>]*)>", label, table)
    return table.replace("<table>", '<table class="prose">', 1)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Say which language a page is in: browsers choose the font and the reading voice by it."""
    if page.file.src_uri == "zh.md":
        return output.replace('<html lang="en"', '<html lang="zh-Hans"', 1)
    return output
