"""How a key becomes the stem of a tar member's name, and back."""

import re


def quote_key(key: str) -> str:
    """The stem under which a key is stored: without dots, never absolute, never a folder above."""
    stem = key.replace("%", "%25").replace(".", "%2E")
    return "%2F" + stem[1:] if stem.startswith("/") else stem


def unquote_key(stem: str) -> str:
    """The inverse; stems that other programs wrote stay as they are, but for %25, %2E and %2F."""
    return re.sub("%(25|2E|2F)", lambda match: chr(int(match[1], 16)), stem)
