"""A flame graph in a few lines of text: the calls that took most of the time themselves."""

import bisect
import html
import re
from collections import Counter, defaultdict
from typing import Dict, List, Tuple

MOST = 5

_FRAME = re.compile(
    r"<title>(?P<name>[^<]*) \([\d,]+ samples?, [\d.]+%\)</title>"
    r'<rect [^>]*?\by="(?P<y>\d+)"[^>]*? fg:x="(?P<x>\d+)" fg:w="(?P<width>\d+)"'
)
"""A frame as py-spy draws it: its place among the samples and how many it has."""

_LINE = re.compile(r":\d+\)$")


def own_samples(svg: str) -> "Counter[str]":
    """Samples in which each call was the innermost one, lines of a function together.

    Args:
        svg: by py-spy, callers above what they call.
    """
    levels: Dict[int, List[Tuple[int, int, str]]] = defaultdict(list)
    for found in _FRAME.finditer(svg):
        place = int(found["x"]), int(found["width"]), html.unescape(found["name"])
        levels[int(found["y"])].append(place)
    own: Counter[str] = Counter()
    below: List[Tuple[int, int, str]] = []
    for height in sorted(levels, reverse=True):
        starts = sorted(start for start, _, _ in below)
        sums = [0]
        for _, width, _ in sorted(below):
            sums.append(sums[-1] + width)
        for start, width, name in levels[height]:
            first = bisect.bisect_left(starts, start)
            last = bisect.bisect_left(starts, start + width)
            own[_LINE.sub(")", name)] += width - (sums[last] - sums[first])
        below = levels[height]
    return Counter({name: count for name, count in own.items() if count > 0 and _is_call(name)})


def _is_call(name: str) -> bool:
    """All and each process are frames, too."""
    return name != "all" and not name.startswith("process ")


def table(svg: str) -> List[str]:
    """The calls that took most, for people; empty where there is no sample."""
    own = own_samples(svg)
    total = sum(own.values())
    if not total:
        return []
    lines = ["where the CPU time went, in all processes:"]
    for name, count in own.most_common(MOST):
        lines.append(f"  {count / total:>4.0%}  {name}")
    return lines
