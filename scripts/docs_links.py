"""Links of the documents: what they are in the repository, and what they become on the site.

A file outside of docs/ has the page files/<its path>.md there. Paths are relative to the
repository's folder, with slashes.
"""

import os
import posixpath
import re
from pathlib import Path
from typing import Callable, List, Optional

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "files/"
LANGUAGES = {".py": "python", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}

_FENCE = re.compile(r"(^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"""(?P<before>\]\(|\b(?:src|srcset|href)=")(?P<path>[^)"\s#:]+)(?=[)"#\s])""")


def origin_of(page: str) -> str:
    """Where in the repository the text of a page of the site comes from."""
    return page[len(FOLDER) : -len(".md")] if page.startswith(FOLDER) else f"docs/{page}"


def page_of(path: str) -> Optional[str]:
    """The page of the site for a file of the repository; None where it is no file."""
    if path.startswith("docs/"):
        return path[len("docs/") :]
    return f"{FOLDER}{path}.md" if (ROOT / path).is_file() else None


def targets(text: str, origin: str) -> List[str]:
    """Files of the repository that a document links to, by their path."""
    found: List[str] = []

    def note(path: str) -> None:
        found.append(path)

    _each_link(text, origin, note)
    return found


def rewrite(text: str, page: str) -> str:
    """The document with its links as they are on the site."""

    def on_site(path: str) -> Optional[str]:
        target = page_of(path)
        return target and posixpath.relpath(target, posixpath.dirname(page) or ".")

    return _each_link(text, origin_of(page), on_site)


def _each_link(text: str, origin: str, change: Callable[[str], Optional[str]]) -> str:
    """Pass each relative link, as a path in the repository, to `change`; code blocks are left."""

    def one(match: "re.Match[str]") -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match["path"]))
        return match["before"] + (change(path) or match["path"])

    parts = _FENCE.split(text)
    # of each three parts: text, a whole fenced block, its fence
    return "".join(
        part if at % 3 else _LINK.sub(one, part) for at, part in enumerate(parts) if at % 3 != 2
    )


def content_of(path: str) -> str:
    """The page with a file of the repository."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    language = LANGUAGES.get(os.path.splitext(path)[1], "text")
    head = f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n# {path}\n\n"
    return f"{head}~~~~~~{language}\n{text.rstrip()}\n~~~~~~\n"
