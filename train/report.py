"""Writes report.html: one run on one page, in one file that needs nothing else.

It reads what the run wrote. Each file may be missing or cut off: the page is made all the same and
says what is missing. All text is escaped: file names come from anywhere.
"""

import html
import shlex
import statistics
import string
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence

from train.files import write_whole
from train.report_plots import Curve, draw_figure
from train.run_record import RunRecord, read_record

_BAD_SAMPLES_SHOWN = 20


def write_report(run_dir: Path) -> Path:
    """Write the page of one run.

    Args:
        run_dir: the run's folder.

    Returns:
        The page: run_dir/report.html. The same files give the same bytes.

    Raises:
        SetupError: the page can't be written; an older one stays whole.
    """
    record = read_record(run_dir)
    template = string.Template(Path(__file__).with_name("report_page.html").read_text("utf-8"))
    page = template.substitute(
        title=_text(f"{run_dir.name}: {_headline(record)}"),
        run=_text(run_dir),
        headline=_text(_headline(record)).replace(" %", "&nbsp;%"),
        lead=_text(_lead(record)),
        notes=_notes(record.notes),
        tiles=_tiles(record),
        charts="\n".join(_charts(record)),
        epochs=_epoch_table(record),
        settings=_rows(("Setting", "Value", "Why"), record.settings, ("name", "value", "reason")),
        bad_samples=_bad_samples(record),
        machine=_rows(("What", "Value", "From"), record.machine, ("name", "value", "source")),
        commands=_commands(run_dir),
        config=_config(record.config_text),
    )
    path = run_dir / "report.html"
    write_whole(path, page.encode("utf-8"))
    return path


def _text(value: Any) -> str:
    """Make any value safe to show: HTML escaped, and what can't be seen or encoded as a code."""
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in str(value)
    )
    return html.escape(shown)


def _percent(share: Optional[float]) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _wait_share(record: RunRecord) -> Optional[float]:
    """The share of all training time: each epoch's share counts by its length."""
    pairs = [
        (row["data_wait_share"], row["train_s"] if row["train_s"] is not None else 1.0)
        for row in record.rows
        if row["data_wait_share"] is not None
    ]
    total_s = sum(seconds for _, seconds in pairs)
    return sum(share * seconds for share, seconds in pairs) / total_s if total_s > 0 else None


def _headline(record: RunRecord) -> str:
    if not record.rows:
        return "No epoch is finished yet"
    planned = record.config_value("optim", "epochs")
    done = record.rows[-1]["epoch"] + 1
    of_planned = f"{done} of {planned}" if isinstance(planned, int) and planned > done else done
    after = f"after {of_planned} epoch" + ("" if of_planned == 1 else "s")
    top1 = record.rows[-1]["val_top1"]
    result = f"No accuracy {after}" if top1 is None else f"Top-1 {_percent(top1)} {after}"
    share = _wait_share(record)
    if share is None:
        return result
    return f"{result}; the device waited {_percent(share)} of its time for data"


def _lead(record: RunRecord) -> str:
    """Say what was trained on what, and when."""
    parts = []
    model, data = record.config_value("model", "name"), record.config_value("data", "path")
    if model is not None and data is not None:
        size = record.config_value("data", "image_size")
        parts.append(f"{model} on {data}" + (f", {size} px" if size is not None else ""))
    stamp = record.rows[-1]["time"] if record.rows else None
    if stamp is not None and 0 <= stamp < 2**37:
        when = datetime.fromtimestamp(stamp, timezone.utc)
        parts.append(f"last epoch ended {when:%Y-%m-%d %H:%M} UTC")
    return "; ".join(parts)


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    return f'<div class="note">{"".join(f"<p>{_text(note)}</p>" for note in notes)}</div>'


def _tiles(record: RunRecord) -> str:
    if not record.rows:
        return ""
    last, tiles = record.rows[-1], []
    scored = [row for row in record.rows if row["val_top1"] is not None]
    if scored:
        best = max(scored, key=lambda row: row["val_top1"])
        tiles.append(("Best top-1", _percent(best["val_top1"]), f"epoch {best['epoch'] + 1}"))
    if last["val_top5"] is not None:
        tiles.append(("Top-5", _percent(last["val_top5"]), "last epoch"))
    speeds = [row["images_per_s"] for row in record.rows if row["images_per_s"] is not None]
    if speeds:
        tiles.append(("Images per second", f"{statistics.median(speeds):,.0f}", "median of epochs"))
    if _wait_share(record) is not None:
        tiles.append(("Waited for data", _percent(_wait_share(record)), "of training time"))
    uses = [row["gpu_util"] for row in record.rows if row["gpu_util"] is not None]
    if uses:
        tiles.append(("GPU in use", f"{statistics.mean(uses):.0f} %", "as nvidia-smi counts"))
    seconds = sum((row["train_s"] or 0) + (row["val_s"] or 0) for row in record.rows)
    if seconds:
        tiles.append(("Time", _duration(seconds), _count(len(record.rows), "epoch")))
    cells = "".join(
        f'<div class="card"><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>'
        for name, value, note in tiles
    )
    return f'<dl class="tiles">{cells}</dl>'


def _charts(record: RunRecord) -> Iterable[str]:
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


def _epoch_table(record: RunRecord) -> str:
    if not record.rows:
        return ""
    columns = {
        "Epoch": lambda row: row["epoch"] + 1,
        "Loss": lambda row: _number(row["train_loss"], ".3f"),
        "Top-1": lambda row: _percent(row["train_top1"]),
        "Val loss": lambda row: _number(row["val_loss"], ".3f"),
        "Val top-1": lambda row: _percent(row["val_top1"]),
        "Val top-5": lambda row: _percent(row["val_top5"]),
        "Images/s": lambda row: _number(row["images_per_s"], ",.0f"),
        "Waiting": lambda row: _percent(row["data_wait_share"]),
        "First batch": lambda row: _number(row["first_batch_s"], ".2f", " s"),
        "Rate": lambda row: _number(row["lr"], ".3g"),
        "Skipped steps": lambda row: _number(row["skipped_steps"], ".0f"),
    }
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{show(row)}</td>' for show in columns.values())}</tr>"
        for row in record.rows
    )
    table = f'<table class="numbers"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return _details("Every epoch in numbers", f'<div class="scroll">{table}</div>')


def _number(value: Optional[float], form: str, unit: str = "") -> str:
    return "unknown" if value is None else f"{value:{form}}{unit}"


def _details(title: str, inside: str) -> str:
    return f'<details class="card"><summary>{title}</summary>{inside}</details>'


def _rows(head: Sequence[str], rows: Optional[List[Dict[str, Any]]], keys: Sequence[str]) -> str:
    if not rows:
        return '<p class="muted">Not written down by this run.</p>'
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{_text(row.get(key, str()))}</td>' for key in keys)}</tr>"
        for row in rows
    )
    table = f'<table class="rows"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="card">{table}</div>'


def _bad_samples(record: RunRecord) -> str:
    if not record.bad_samples:
        return '<p class="muted">None was written down.</p>'
    number, shown = len(record.bad_samples), record.bad_samples[:_BAD_SAMPLES_SHOWN]
    text = f"{_count(number, 'sample')} could not be used and {'was' if number == 1 else 'were'}"
    text += " left out or replaced by another one."
    if number > len(shown):
        text += f" The first {len(shown)} are shown; bad_samples.jsonl has all."
    return f"<p>{text}</p>" + _rows(("File", "Why"), shown, ("key", "reason"))


def _commands(run_dir: Path) -> str:
    def path(ending: str = "") -> str:
        return shlex.quote(f"{run_dir}{ending}")

    train = ["python", "-m", "train", "fit"]
    lines = [
        ("Go on after an interruption:", [*train, "--run.resume", path()]),
        (
            "The same run again, in a new folder:",
            [*train, "--config", path("/config.yaml"), "--run.folder", path("-again")],
        ),
        ("The curves while it runs:", ["tensorboard", "--logdir", path("/tensorboard")]),
    ]
    return "".join(
        f'<div class="command"><p>{title}</p><div class="card"><pre>'
        f"{' '.join(f'<span>{_text(word)}</span>' for word in words)}</pre></div></div>"
        for title, words in lines
    )


def _config(text: Optional[str]) -> str:
    if not text:
        return ""
    lines = "\n".join(_text(line) for line in text.splitlines())
    return _details("The whole configuration", f"<pre>{lines}</pre>")
