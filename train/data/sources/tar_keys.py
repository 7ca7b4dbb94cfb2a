"""How a key becomes the stem of a tar member's name, and back."""

import re

META = re.compile(r"__[^/]*__($|/)")
"""Names that WebDataset takes for remarks about the archive."""


def quote_key(key: str) -> str:
    """The stem under which a key is stored: without dots, never absolute, never a folder above."""
    stem = key.replace("%", "%25").replace(".", "%2E")
    if stem.startswith("/"):
        return "%2F" + stem[1:]
    if META.match(stem):  # a class folder may be called __background__
        return "%5F" + stem[1:]
    return stem


def unquote_key(stem: str) -> str:
    """The inverse; in stems of other programs only %25, %2E, %2F and %5F are changed."""
    return re.sub("%(25|2E|2F|5F)", lambda match: chr(int(match[1], 16)), stem)
