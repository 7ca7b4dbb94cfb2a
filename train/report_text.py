"""Values as a report shows them: escaped, with their unit, 'unknown' where they are not known."""

import html
from typing import Any, Optional


def visible(value: Any) -> str:
    """Any value as text; what can't be seen or encoded stands there as a code."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in str(value)
    )


def escaped(value: Any) -> str:
    """Make any value safe to show in a page: `visible`, and HTML escaped."""
    return html.escape(visible(value))


def percent(share: Optional[float]) -> str:
    """A share of 1 in percent."""
    return "unknown" if share is None else f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Hours and minutes, or minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def counted(number: int, noun: str) -> str:
    """A number of things, '1 epoch' or '2 epochs'."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def decimal(value: Optional[float], form: str, unit: str = "") -> str:
    """A number in a form of `format`, and its unit."""
    return "unknown" if value is None else f"{value:{form}}{unit}"
