"""Draws images a second against the bytes of an image: what each way of keeping pictures costs."""

import math

from race.arms import LIMIT
from race.plot import COLOURS, SETS, WORDS


def draw(rows, path, subtitle):
    """Write the picture of all rows that have a result, but for the limits.

    Args:
        rows: from figures.summarise.
        path: of the PNG.
        subtitle: machine, data and date in one line.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator

    shown = [row for row in rows if row.images_per_s and row.kb_an_image and row.arm.kind != LIMIT]
    shown.sort(key=lambda row: -row.images_per_s[0])
    figure, axis = plt.subplots(figsize=(9, 6))
    markers = dict(zip(SETS, "os"))
    named = []
    for row in shown:
        place = row.kb_an_image, row.images_per_s[0]
        axis.plot(
            *place, markers[row.arm.data], color=COLOURS[row.arm.kind], markersize=7, alpha=0.85
        )
        if all(_apart(place, other) for other in named):  # the fastest of a heap gets its name
            named.append(place)
            axis.annotate(row.arm.title, place, (6, 4), textcoords="offset points", fontsize=7)
    kinds = [kind for kind in WORDS if any(row.arm.kind == kind for row in shown)]
    handles = [plt.Line2D([], [], color=COLOURS[kind], marker="D", ls="") for kind in kinds]
    words = [WORDS[kind] for kind in kinds]
    sets = [data for data in SETS if any(row.arm.data == data for row in shown)]
    handles += [plt.Line2D([], [], color="#5f6368", marker=markers[data], ls="") for data in sets]
    words += [SETS[data] for data in sets]
    if handles:
        axis.legend(handles, words, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=8)
    axis.set_xscale("log")
    axis.set_yscale("log")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(LogLocator(subs=(1, 2, 5)))
        side.set_major_formatter("{x:,.0f}")
        side.set_minor_locator(NullLocator())
    axis.margins(x=0.25, y=0.1)
    axis.set_xlabel("kB an image, on disk", fontsize=9)
    axis.set_ylabel("images a second", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(subtitle, fontsize=8, color="#5f6368")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _apart(place, other):
    """Whether two names would not lie on each other: 5 % in height, or half in width."""
    width, height = (abs(math.log(a / b)) for a, b in zip(place, other))
    return height > 0.07 or width > 0.9
