"""Draws the figures: a bar an arm, filled as far as the accelerator was busy; light and dark."""

import io
import textwrap
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence

from train.bench import articles
from train.bench.arms import Arm
from train.bench.figures import GAIN, Row, Spread, percent
from train.bench.table import seconds
from train.files import write_whole


class Colours(NamedTuple):
    """Of one variant."""

    ground: str
    text: str
    muted: str
    track: str
    ours: str
    other: str
    theirs: str


LIGHT = Colours("#ffffff", "#1f2328", "#59636e", "#e9edf1", "#0f7b6c", "#8c98a5", "#c3cbd3")
DARK = Colours("#0d1117", "#e6edf3", "#9198a1", "#21262d", "#2fb8a0", "#77828e", "#3d4650")

FILES = {"bench.png": LIGHT, "bench-dark.png": DARK}

WIDTH_IN, DPI = 10.0, 160
"""A README shows it about 830 pixels wide: a letter of 11 points is then 13 pixels high."""

ROW_IN, TOP_IN, MIDDLE_IN, BOTTOM_IN = 0.58, 1.10, 0.60, 0.88

_LEFT, _RIGHT = 0.255, 0.735
"""Where the bars begin and end, shares of the width."""


def draw(rows: Sequence[Row], about: Dict[str, Any], folder: Path) -> List[str]:
    """Write the plot in both variants.

    Args:
        rows: the figures; those without any are left out.
        about: the content of bench.json.
        folder: where to.

    Returns:
        The files' names.
    """
    rows = [row for row in rows if row.spread]
    for name, colours in FILES.items():
        write_whole(folder / name, render(rows, about, colours))
    return list(FILES)


def render(rows: Sequence[Row], about: Dict[str, Any], colours: Colours) -> bytes:
    """The plot as a PNG."""
    import matplotlib  # imported here: a second that only this needs
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = len(rows)
    height = TOP_IN + (count + 2) * ROW_IN + MIDDLE_IN + BOTTOM_IN
    drawn = io.BytesIO()
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "text.parse_math": False}):
        figure = Figure(figsize=(WIDTH_IN, height), facecolor=colours.ground)
        FigureCanvasAgg(figure)
        page = _Page(figure, colours, height)
        page.text(0.02, 0.30, "How much of the time the accelerator worked", 16, weight="bold")
        page.text(0.02, 0.60, _subtitle(about), 10.5, colours.muted)
        page.text(_RIGHT + 0.03, 0.95, "an epoch", 10.5, colours.muted)
        page.text(0.98, 0.95, "images/s", 10.5, colours.muted, align="right")
        top = TOP_IN
        for row in rows:
            page.row(top, row)
            top += ROW_IN
        top += MIDDLE_IN
        page.rule(top - 0.46)
        page.text(0.02, top - 0.22, "The articles' own figures, by nvidia-smi", 10.5, colours.muted)
        names = ("num_workers=0", "tuned")
        for name, busy, epoch in zip(names, articles.BUSY, articles.EPOCH_S):
            page.bar(top, name, "ResNet-50, A100", Spread(busy, busy, busy), colours.theirs)
            page.text(_RIGHT + 0.03, top + ROW_IN * 0.42, f"{epoch:.0f} s", 12, colours.muted)
            top += ROW_IN
        for number, line in enumerate(textwrap.wrap(_note(rows), 136, break_on_hyphens=False)):
            page.text(0.02, top + 0.18 + 0.19 * number, line, 9, colours.muted)
        figure.savefig(drawn, format="png", dpi=DPI, facecolor=colours.ground)
    return drawn.getvalue()


def _subtitle(about: Dict[str, Any]) -> str:
    data, cores = about["data"], about["cpus"]
    where = f"{cores} CPU core{'s' if cores != 1 else ''}"
    words = about["accelerator"]["words"].split(" (")[0]
    name = f"{data['name']}, {data['train_images']:,} images"
    made = about["accelerator"]["calibration"] and not about["unsettled"]
    speed = "; 2.5 x the plain loader" if made else ""
    return f"{name}  ·  {where}  ·  accelerator: {words}{speed}"


def _note(rows: Sequence[Row]) -> str:
    rounds = max(len(row.measured.rounds) for row in rows)
    spread = f"Medians of {rounds} rounds; the short lines go from the least to the most. "
    return f"{spread if rounds > 1 else ''}{articles.DO_NOT_FIT} {articles.WHY_EVENTS}"


class _Page:
    """Places things by inches from the top and shares of the width."""

    def __init__(self, figure: Any, colours: Colours, height: float):
        self.figure, self.colours, self.height = figure, colours, height
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set(xlim=(0, 1), ylim=(height, 0))

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float,
        colour: str = "",
        weight: str = "normal",
        align: str = "left",
    ) -> None:
        """Words whose middle is at this height."""
        self.axes.text(
            x,
            y,
            words,
            fontsize=size,
            color=colour or self.colours.text,
            fontweight=weight,
            ha=align,
            va="center",
        )

    def rule(self, y: float) -> None:
        """A thin line from edge to edge."""
        self.axes.plot([0.02, 0.98], [y, y], color=self.colours.track, linewidth=1)

    def row(self, top: float, row: Row) -> None:
        """One arm."""
        ours = row.measured.arm.kind == "ours"
        colour = self.colours.ours if ours else self.colours.other
        busy, weight = row.spread["busy_share"], "bold" if ours else "normal"
        self.bar(top, row.name, _words(row.measured.arm, row), busy, colour, weight)
        middle = top + ROW_IN * 0.42
        if busy.most < 0.8:
            at = _LEFT + (_RIGHT - _LEFT) * (busy.most + 1) / 2
            words = f"waits {percent(1 - busy.middle)}"
            self.text(at, middle, words, 10.5, self.colours.muted, align="center")
        epoch, speed = row.middle("epoch_s"), row.middle("images_per_s")
        times = row.times_plain
        if epoch is not None and speed is not None:
            self.text(_RIGHT + 0.03, middle, seconds(epoch), 12, weight=weight)
            self.text(0.98, middle, f"{speed:,.0f}", 12, align="right", weight=weight)
        if ours and times is not None and times >= GAIN:
            self.text(_RIGHT + 0.105, middle, f"{times:.1f} x less", 10.5, colour)

    def bar(
        self,
        top: float,
        name: str,
        below: str,
        busy: Spread,
        colour: str,
        weight: str = "normal",
    ) -> None:
        """A track of 100 %, filled as far as it was busy; a line where the rounds differ."""
        from matplotlib.patches import Rectangle

        self.text(0.02, top + ROW_IN * 0.26, name, 12, weight=weight)
        self.text(0.02, top + ROW_IN * 0.60, below, 9, self.colours.muted)
        width, high = _RIGHT - _LEFT, ROW_IN * 0.6
        y = top + ROW_IN * 0.12
        for share, fill in ((1.0, self.colours.track), (busy.middle, colour)):
            self.axes.add_patch(Rectangle((_LEFT, y), width * share, high, color=fill, linewidth=0))
        middle = y + high / 2
        if busy.most - busy.least > 0.004:
            ends = [_LEFT + width * share for share in (busy.least, busy.most)]
            self.axes.plot(ends, [middle, middle], color=self.colours.text, linewidth=1.2)
        inside = busy.middle > 0.2
        on_dark = inside and colour != self.colours.theirs
        self.text(
            _LEFT + width * (busy.least if inside else busy.most) + (-0.01 if inside else 0.01),
            middle,
            percent(busy.middle),
            12,
            self.colours.ground if on_dark else self.colours.text,
            "bold",
            "right" if inside else "left",
        )


def _words(arm: Arm, row: Row) -> str:
    """A second line below the name."""
    settings = row.measured.settings
    if arm.kind == "torch":
        return f"{arm.title}, num_workers={settings['num_workers']}"
    return arm.title
