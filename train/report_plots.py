"""Draws the report's curves as SVG that takes its colours and fonts from the page around it.

Thus one picture serves a light and a dark page. Nothing of pyplot's global state is touched.
"""

import io
import math
import re
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

# Small on purpose: at 380 units across, 11-unit text is readable on a phone 390 pixels wide.
WIDTH, HEIGHT = 380, 214

# matplotlib wants real colours; these stand for the page's variables and are put back afterwards.
_STAND_INS = {
    "#000001": "var(--muted)",
    "#000002": "var(--line)",
    "#000003": "var(--first)",
    "#000004": "var(--second)",
    "#000005": "var(--third)",
}
_MUTED, _LINE, *COLOURS = _STAND_INS

Limits = Tuple[float, Optional[float]]

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


def draw_figure(
    title: str,
    epochs: Sequence[int],
    curves: List[Curve],
    unit: str = "",
    limits: Limits = (0, None),
) -> str:
    """Draw one chart with its title and legend.

    Args:
        title: no markup in it.
        epochs: counted from 1, ascending.
        curves: at most three; one without any value is left out.
        unit: written behind the numbers of the vertical axis.
        limits: lowest and highest value of the vertical axis; None: from the curves.

    Returns:
        A `<figure>` element, the same bytes for the same input.
    """
    curves = [curve for curve in curves if any(value is not None for value in curve.values)]
    legend = "".join(
        f'<span style="--colour: {_STAND_INS[colour]}">{curve.name}</span>'
        for curve, colour in zip(curves, COLOURS)
    )
    if len(curves) == 1:
        legend = curves[0].name
    chart = '<p class="empty">no values yet</p>'
    if curves:
        label = f"{title} by epoch: " + "; ".join(_describe(curve, unit) for curve in curves)
        chart = f'<div role="img" aria-label="{label}">{_draw(title, epochs, curves, unit, limits)}'
        chart += "</div>"
    caption = f'<figcaption>{title}<span class="legend">{legend}</span></figcaption>'
    return f'<figure class="card">{caption}{chart}</figure>'


def _describe(curve: Curve, unit: str) -> str:
    """Say in words what the line shows, for those who can't see it."""
    values = [value for value in curve.values if value is not None]
    return f"{curve.name} from {values[0]:.4g}{unit} to {values[-1]:.4g}{unit}"


def _draw(title: str, epochs: Sequence[int], curves: List[Curve], unit: str, limits: Limits) -> str:
    """Draw the curves as an `<svg>` element without a fixed size."""
    import matplotlib  # imported here: half a second that only the report needs
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    drawn = io.StringIO()
    # "none" keeps text as text: it can be selected, and takes the page's font.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72))
        FigureCanvasSVG(figure)
        axes = figure.add_axes((0.115, 0.125, 0.865, 0.835))
        marker = "o" if len(epochs) <= _MARKED_EPOCHS else ""
        for curve, colour in zip(curves, COLOURS):
            values = [math.nan if value is None else value for value in curve.values]
            (line,) = axes.plot(epochs, values, color=colour, linewidth=2, solid_capstyle="round")
            line.set(marker=marker, markersize=4 if len(epochs) > 1 else 7, clip_on=False)
        high = limits[1] if limits[1] is not None else axes.get_ylim()[1]
        ticks = MaxNLocator(nbins=5).tick_values(limits[0], high)
        axes.set_ylim(ticks[0], ticks[-1])  # a grid line above the highest point
        axes.set_yticks(ticks)
        first, last = epochs[0], epochs[-1]
        margin = 0.02 * (last - first) or 0.5
        axes.set_xlim(first - margin, last + margin)
        whole = MaxNLocator(nbins=8, integer=True).tick_values(first, last)
        axes.set_xticks([tick for tick in whole if first <= tick <= last and tick % 1 == 0])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}{unit}"))
        axes.tick_params(length=0, labelsize=11, labelcolor=_MUTED, pad=5)
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
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
    svg = re.sub(r"<svg [^>]*>", head, svg, count=1)
    for stand_in, variable in _STAND_INS.items():
        svg = svg.replace(stand_in, variable)
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    # Several charts share a page: ids that nothing refers to would only clash.
    used = set(re.findall(r"(?:url\(|href=\")#([\w-]+)", svg))
    svg = re.sub(
        r' id="([^"]+)"', lambda found: found.group() if found.group(1) in used else "", svg
    )
    return re.sub(r"\n\s*", "\n", svg).strip()
