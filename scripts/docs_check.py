"""Check the built site: nothing is loaded from other hosts, and everything that is loaded is there.

Usage: docs_check.py SITE. MkDocs checks the links of the Markdown; this reads what browsers get:
scripts, styles, pictures, frames, also those that stand in the documents as HTML. Links that a
reader may click are free to lead elsewhere. Prints each finding and exits with 2, or says how many
pages there are.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Iterator, List, Tuple
from urllib.parse import unquote, urlsplit

LOADS = {"img": "src srcset", "source": "src srcset", "script": "src", "iframe": "src"}
"""Elements and their attributes that a browser loads by itself."""

LINKED = ("stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "manifest")
"""Of <link>, by its rel."""

_STYLE = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Loads(HTMLParser):
    """What a page makes a browser load: `found`, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: List[str] = []

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, "str | None"]]) -> None:
        """Note what one element loads."""
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and set(given.get("rel", "").split()) & set(LINKED):
            self.found.append(given.get("href", ""))
        for name in LOADS.get(tag, "").split():
            if name in given:
                self.found += [part.split()[0] for part in given[name].split(",") if part.strip()]


def loads_of(path: Path) -> List[str]:
    """What a page or a style sheet loads."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return [first or second for first, second in _STYLE.findall(text)]
    page = Loads()
    page.feed(text)
    return page.found


def findings(site: Path) -> Iterator[str]:
    """One line for each thing that is not there or lies elsewhere."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        name = path.relative_to(site)
        for address in loads_of(path):
            parts = urlsplit(address)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                yield f"{name} loads {address}: from another host; expected a file of the site"
            elif parts.path and not _file(site, path, unquote(parts.path)).is_file():
                yield f"{name} loads {address}: there is no such file"


def _file(site: Path, page: Path, path: str) -> Path:
    # 404.html is served for any address, so its paths begin at the site's root
    return site / path.lstrip("/") if path.startswith("/") else page.parent / path


def main() -> int:
    """Check the site that is named."""
    site = Path(sys.argv[1])
    pages = len(list(site.rglob("*.html")))
    if not pages:
        print(f"error: {site} has no pages; build them with make docs", file=sys.stderr)
        return 2
    found = list(findings(site))
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print(f"error: {len(found)} findings in {site}; see above", file=sys.stderr)
        return 2
    print(f"{site}/index.html: {pages} pages, nothing loaded from other hosts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
