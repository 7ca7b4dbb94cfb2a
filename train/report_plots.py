"""Draws the report's curves as SVG that takes its colours and fonts from the page around it.

So one picture serves a light and a dark page. Nothing of pyplot's global state is touched.
"""

import io
import math
import re
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

# Small on purpose: at 420 units across, 10-unit text is readable on a phone 390 pixels wide.
WIDTH, HEIGHT = 420, 236

# matplotlib wants real colours; these stand for the page's variables and are put back afterwards.
_STAND_INS = {
    "#000001": "var(--muted)",
    "#000002": "var(--line)",
    "#000003": "var(--first)",
    "#000004": "var(--second)",
    "#000005": "var(--third)",
}
_MUTED, _LINE, *COLOURS = _STAND_INS

_MARKED_EPOCHS = 30  # up to here each epoch has its dot; beyond, dots run together


@dataclass(frozen=True)
class Curve:
    """One line of a chart.

    Args:
        name: for the legend.
        values: one an epoch; None is a gap.
    """

    name: str
    values: Sequence[Optional[float]]


def draw_chart(
    epochs: Sequence[int],
    curves: List[Curve],
    unit: str = "",
    limits: Tuple[Optional[float], Optional[float]] = (None, None),
) -> str:
    """Draw curves over epochs.

    Args:
        epochs: counted from 1, ascending.
        curves: at most three.
        unit: written behind the numbers of the vertical axis.
        limits: lowest and highest value of the vertical axis; None leaves it to the curves.

    Returns:
        An `<svg>` element without a fixed size, the same bytes for the same input.
    """
    import matplotlib  # imported here: half a second that only the report needs
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    drawn = io.StringIO()
    # "none" keeps text as text: it can be selected, and takes the page's font.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "report"}):
        figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72))
        FigureCanvasSVG(figure)
        axes = figure.add_axes((0.105, 0.12, 0.875, 0.84))
        marker = "o" if len(epochs) <= _MARKED_EPOCHS else ""
        for curve, colour in zip(curves, COLOURS):
            values = [math.nan if value is None else value for value in curve.values]
            style = {"linewidth": 2, "marker": marker, "markersize": 4, "clip_on": False}
            axes.plot(epochs, values, color=colour, solid_capstyle="round", **style)
        axes.set_ylim(*limits)
        first, last = (epochs[0], epochs[-1]) if epochs else (1, 1)
        margin = 0.5 if first == last else 0.02 * (last - first)
        axes.set_xlim(first - margin, last + margin)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}{unit}"))
        axes.tick_params(length=0, labelsize=10, labelcolor=_MUTED, pad=5)
        axes.grid(axis="y", color=_LINE, linewidth=1)
        axes.set_axisbelow(True)
        axes.patch.set_visible(False)
        figure.patch.set_visible(False)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(_LINE)
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(drawn, format="svg", metadata=nothing)
    return _fit_into_page(drawn.getvalue())


def _fit_into_page(svg: str) -> str:
    """Cut the file's head, and make colours, font and size the page's."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<svg [^>]*>", f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">', svg, 1)
    for stand_in, variable in _STAND_INS.items():
        svg = svg.replace(stand_in, variable)
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    # Several charts share a page: ids that nothing refers to would only clash.
    used = set(re.findall(r"(?:url\(|href=\")#([\w-]+)", svg))
    svg = re.sub(
        r' id="([\w-]+)"', lambda found: found.group() if found.group(1) in used else "", svg
    )
    return re.sub(r"\n\s*", "\n", svg).strip()
