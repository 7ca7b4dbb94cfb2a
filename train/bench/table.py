"""The figures as tables: for the screen, 80 columns, and as Markdown. Pure functions."""

from typing import Any, Dict, List, Optional, Sequence

from rich.table import Table

from train.bench import articles
from train.bench.figures import Row, percent
from train.machine import bytes_text


def seconds(value: float) -> str:
    """Seconds for people: three digits, minutes where there are many."""
    if value >= 600:
        return f"{value / 60:,.0f} min"
    digits = 0 if value >= 100 else 1 if value >= 1 else 2
    return f"{value:.{digits}f} s"


def _cell(row: Row, field: str) -> str:
    value = row.middle(field)
    if value is None:
        return "-"
    if field == "images_per_s":
        return f"{value:,.0f}"
    if field.endswith("_share"):
        return percent(value)
    if field == "memory_bytes":
        return bytes_text(int(value))
    if field in ("epoch_s", "first_batch_s"):
        return seconds(value)
    return f"{value:.1f}" if field == "cores" else f"{value:.2f}"


_SCREEN = {
    "images_per_s": "images/s",
    "busy_share": "busy",
    "wait_share": "waits",
    "epoch_s": "epoch",
    "cores": "cores",
    "cpu_s_per_1000": "CPU s\n/1,000",
    "first_batch_s": "first\nbatch",
    "memory_bytes": "memory",
}


def screen_table(rows: Sequence[Row]) -> Table:
    """What is shown at the end."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("arm", vertical="bottom")
    for title in _SCREEN.values():
        table.add_column(title, justify="right", no_wrap=True, vertical="bottom")
    for row in rows:
        if not row.spread:
            continue
        style = "bold" if row.measured.arm.kind == "ours" else ""
        table.add_row(row.name, *(_cell(row, field) for field in _SCREEN), style=style)
    return table


def result_line(result: Dict[str, Any]) -> str:
    """One measurement in a line, for the log."""
    first = result.get("first_batch_s")
    text = f"{result['images_per_s']:>7,.0f} images/s  {percent(result['busy_share']):>5} busy"
    return text + (f"  first batch {seconds(first)}" if first is not None else "")


def _markdown(head: List[str], lines: List[List[str]]) -> str:
    rule = ["---"] + ["--:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *lines])


def _spread(row: Row, field: str, digits: int = 0, factor: float = 1.0) -> str:
    if field not in row.spread:
        return ""
    middle, least, most = (value * factor for value in row.spread[field])
    return f"{middle:,.{digits}f} ({least:,.{digits}f} to {most:,.{digits}f})"


def _times(value: Optional[float]) -> str:
    return "" if value is None else f"{value:.2f}"


def figures_table(rows: Sequence[Row]) -> str:
    """All figures as Markdown, least and most in brackets."""
    head = ["arm", "images/s", "busy %", "waiting %", "s an epoch", "speed x plain", "x synthetic"]
    head += ["cores", "CPU s per 1,000", "first batch s", "memory MiB"]
    lines = [
        [
            f"**{row.name}**" if row.measured.arm.kind == "ours" else row.name,
            _spread(row, "images_per_s"),
            _spread(row, "busy_share", 1, 100),
            _spread(row, "wait_share", 1, 100),
            _spread(row, "epoch_s", 2),
            _times(row.times_plain),
            _times(row.of_limit),
            _spread(row, "cores", 2),
            _spread(row, "cpu_s_per_1000", 2),
            _spread(row, "first_batch_s", 2),
            _spread(row, "memory_bytes", 0, 2**-20),
        ]
        for row in rows
        if row.spread
    ]
    return _markdown(head, lines)


def timer_table(rows: Sequence[Row]) -> str:
    """The articles' own measure as Markdown; '' where it was not taken."""
    lines = [[row.name, f"{row.timer_s:.3f}"] for row in rows if row.timer_s is not None]
    return _markdown(["arm", "next(iter(loader)), s"], lines) if lines else ""


def page(rows: Sequence[Row], about: Dict[str, Any]) -> str:
    """The whole of bench.md.

    Args:
        rows: the figures.
        about: what `run.py` knows of the run: see there.
    """
    busy, epoch = articles.BUSY, articles.EPOCH_S
    theirs = [
        ["num_workers=0", percent(busy[0]), f"{epoch[0]:.0f}"],
        ["tuned", percent(busy[1]), f"{epoch[1]:.0f}"],
    ]
    parts = [
        f"# train bench: {about['data']['name']}",
        about["verdict"],
        '<picture><source media="(prefers-color-scheme: dark)" srcset="bench-dark.png">'
        '<img src="bench.png" alt="Busy share and seconds an epoch of each arm"></picture>',
        figures_table(rows),
        "Medians of the rounds, least and most in brackets; ratios are medians of the ratios "
        "within a round. Memory: of the loader and its workers, over the bare program with its "
        "libraries, without mapped files"
        + ("." if about["accelerator"]["kind"] == "sim" else "; the model is in it."),
        "\n".join(f"- **{row.name}**: {row.measured.arm.about}." for row in rows),
        "\n".join(f"- {row.name}: {note}" for row in rows for note in row.measured.notes),
        "\n".join(
            f"- {row.name}: not every round: {row.measured.why_not}"
            if row.spread
            else f"- {row.name}: not measured: {row.measured.why_not}"
            for row in rows
            if row.measured.why_not
        ),
        "## How it was measured",
        "\n".join(f"- {line}" for line in about["how"]),
        f"```\n{about['command']}\n```",
        "## Beside the articles",
        _markdown(["theirs", "GPU use", "s an epoch"], theirs),
        "\n".join((articles.THEIRS, articles.DO_NOT_FIT, articles.WHY_EVENTS)),
    ]
    timed = timer_table(rows)
    if timed:
        parts += [timed, articles.TIMER]
    parts += [
        "## Machine",
        "\n".join(f"- {row['name']}: {row['value']}" for row in about["machine"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
