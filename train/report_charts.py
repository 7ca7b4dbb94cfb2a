"""The curves of a report, and the table of stages that were short."""

from collections import Counter
from typing import Iterable, List, Optional

from train.report_plots import Curve, draw_figure
from train.report_text import counted, escaped
from train.run_record import RunRecord


def charts(record: RunRecord) -> Iterable[str]:
    """The figures of a run, in the order of the page."""

    def column(name: str, factor: float = 1.0) -> List[Optional[float]]:
        return [None if row[name] is None else factor * row[name] for row in record.rows]

    epochs = [row["epoch"] + 1 for row in record.rows]
    losses = [Curve("training", column("train_loss")), Curve("validation", column("val_loss"))]
    yield draw_figure("Loss", epochs, losses)
    top1 = [
        Curve("train top-1", column("train_top1", 100)),
        Curve("val top-1", column("val_top1", 100)),
        Curve("val top-5", column("val_top5", 100)),
    ]
    yield draw_figure("Accuracy", epochs, top1, " %", (0, 100))
    yield draw_figure(
        "Images per second", epochs, [Curve("while training", column("images_per_s"))]
    )
    waits = column("data_wait_share", 100)
    # At least 5 % high: noise of a tenth of a percent must not look like a mountain.
    top = max([5.0] + [1.1 * wait for wait in waits if wait is not None])
    curves = [Curve("share of training time", waits)]
    yield draw_figure("Waiting for data", epochs, curves, " %", (0, min(top, 105)))
    stages = [
        Curve(name, column(key, 100))
        for name, key in (
            ("reading", "read_share"),
            ("decoding and resizing", "decode_share"),
            ("the data set's samples", "sample_share"),
            ("collating", "collate_share"),
        )
    ]
    if any(value is not None for stage in stages for value in stage.values):
        yield draw_figure("Workers' time", epochs, stages, " %", (0, 100))
        yield _short_stages(record)


def _short_stages(record: RunRecord) -> str:
    """In how many epochs which stage was short, as a small table in the place of a chart."""
    rows = [row for row in record.rows if row["data_wait_share"] is not None]
    times = Counter(row["short_stage"].split(":")[0] or "nothing" for row in rows)
    latest = {row["short_stage"].split(":")[0]: row["short_stage"] for row in rows}
    body = ""
    for stage, number in times.most_common():
        more = latest.get(stage, "").partition(":")[2].strip()
        note = f"<small>{escaped(more)} in the last of them</small>" if more else ""
        body += f"<tr><td>{escaped(stage)}{note}</td><td>{counted(number, 'epoch')}</td></tr>"
    title = '<figcaption>What it waited for<span class="legend">above 1 %</span></figcaption>'
    return f'<figure class="card">{title}<table class="short">{body}</table></figure>'
