"""Writes report.html: one run on one page, in one file that needs nothing else.

It reads what the run wrote. Each file may be missing or cut off: the page is made all the same and
says what is missing. All text is escaped: file names come from anywhere.
"""

import shlex
import statistics
import string
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from train.files import write_whole
from train.report_charts import charts
from train.report_text import counted, decimal, duration, escaped, percent
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
        title=escaped(f"{run_dir.name}: {_headline(record)}"),
        run=escaped(run_dir),
        headline=escaped(_headline(record)).replace(" %", "&nbsp;%"),
        lead=escaped(_lead(record)),
        notes=_notes(record.notes),
        tiles=_tiles(record),
        charts="\n".join(charts(record)),
        epochs=_epoch_table(record),
        profile=_profile(run_dir),
        settings=_rows(("Setting", "Value", "Why"), record.settings, ("name", "value", "reason")),
        bad_samples=_bad_samples(record),
        machine=_rows(("What", "Value", "From"), record.machine, ("name", "value", "source")),
        commands=_commands(run_dir),
        config=_config(record.config_text),
    )
    path = run_dir / "report.html"
    write_whole(path, page.encode("utf-8"))
    return path


def _wait_share(record: RunRecord) -> Optional[float]:
    """The share of all training time: each epoch's share counts by its length."""
    pairs = [
        (row["data_wait_share"], row["train_s"] if row["train_s"] is not None else 1.0)
        for row in record.rows
        if row["data_wait_share"] is not None
    ]
    total_s = sum(seconds for _, seconds in pairs)
    return sum(share * seconds for share, seconds in pairs) / total_s if total_s > 0 else None


def _best(record: RunRecord) -> Optional[Dict[str, Any]]:
    """The first of the epochs with the highest top-1; None: no epoch has one."""
    scored = [row for row in record.rows if row["val_top1"] is not None]
    return max(scored, key=lambda row: row["val_top1"]) if scored else None


def _headline(record: RunRecord) -> str:
    if not record.rows:
        return "No epoch is finished yet"
    planned = record.config_value("optim", "epochs")
    done = record.rows[-1]["epoch"] + 1
    of_planned = f"{done} of {planned}" if isinstance(planned, int) and planned > done else done
    after = f"after {of_planned} epoch" + ("" if of_planned == 1 else "s")
    top1 = record.rows[-1]["val_top1"]
    result = f"No accuracy {after}" if top1 is None else f"Top-1 {percent(top1)} {after}"
    best = _best(record)
    if top1 is not None and best is not None and percent(best["val_top1"]) != percent(top1):
        result += f" (best {percent(best['val_top1'])}, epoch {best['epoch'] + 1})"
    share = _wait_share(record)
    if share is None:
        return result
    return f"{result}; the device waited {percent(share)} of its time for data"


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
    return f'<div class="note">{"".join(f"<p>{escaped(note)}</p>" for note in notes)}</div>'


def _tiles(record: RunRecord) -> str:
    if not record.rows:
        return ""
    last, tiles = record.rows[-1], []
    best = _best(record)
    if best is not None:
        tiles.append(("Best top-1", percent(best["val_top1"]), f"epoch {best['epoch'] + 1}"))
    if last["val_top5"] is not None:
        tiles.append(("Top-5", percent(last["val_top5"]), "last epoch"))
    speeds = [row["images_per_s"] for row in record.rows if row["images_per_s"] is not None]
    if speeds:
        tiles.append(("Images per second", f"{statistics.median(speeds):,.0f}", "median of epochs"))
    if _wait_share(record) is not None:
        tiles.append(("Waited for data", percent(_wait_share(record)), "of training time"))
    uses = [row["gpu_util"] for row in record.rows if row["gpu_util"] is not None]
    if uses:
        tiles.append(("GPU in use", f"{statistics.mean(uses):.0f} %", "as nvidia-smi counts"))
    seconds = sum((row["train_s"] or 0) + (row["val_s"] or 0) for row in record.rows)
    if seconds:
        tiles.append(("Time", duration(seconds), counted(len(record.rows), "epoch")))
    cells = "".join(
        f'<div class="card"><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>'
        for name, value, note in tiles
    )
    return f'<dl class="tiles">{cells}</dl>'


def _epoch_table(record: RunRecord) -> str:
    if not record.rows:
        return ""
    columns = {
        "Epoch": lambda row: row["epoch"] + 1,
        "Loss": lambda row: decimal(row["train_loss"], ".3f"),
        "Top-1": lambda row: percent(row["train_top1"]),
        "Val loss": lambda row: decimal(row["val_loss"], ".3f"),
        "Val top-1": lambda row: percent(row["val_top1"]),
        "Val top-5": lambda row: percent(row["val_top5"]),
        "Images/s": lambda row: decimal(row["images_per_s"], ",.0f"),
        "Waiting": lambda row: percent(row["data_wait_share"]),
        "Short was": lambda row: escaped(row["short_stage"]) or "nothing",
        "First batch": lambda row: decimal(row["first_batch_s"], ".2f", " s"),
        "Rate": lambda row: decimal(row["lr"], ".3g"),
        "Skipped steps": lambda row: decimal(row["skipped_steps"], ".0f"),
    }
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{show(row)}</td>' for show in columns.values())}</tr>"
        for row in record.rows
    )
    table = f'<table class="numbers"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return _details("Every epoch in numbers", f'<div class="scroll">{table}</div>')


def _details(title: str, inside: str) -> str:
    return f'<details class="card"><summary>{title}</summary>{inside}</details>'


def _rows(head: Sequence[str], rows: Optional[List[Dict[str, Any]]], keys: Sequence[str]) -> str:
    if not rows:
        return '<p class="muted">Not written down by this run.</p>'
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escaped(row.get(key, str()))}</td>' for key in keys)}</tr>"
        for row in rows
    )
    table = f'<table class="rows"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="card">{table}</div>'


def _bad_samples(record: RunRecord) -> str:
    if not record.bad_samples:
        return '<p class="muted">None was written down.</p>'
    number, shown = len(record.bad_samples), record.bad_samples[:_BAD_SAMPLES_SHOWN]
    text = f"{counted(number, 'sample')} could not be used and {'was' if number == 1 else 'were'}"
    text += " left out or replaced by another one."
    if number > len(shown):
        text += f" The first {len(shown)} are shown; bad_samples.jsonl has all."
    return f"<p>{text}</p>" + _rows(("File", "Why"), shown, ("key", "reason"))


_PROFILES = {
    "profile.svg": "flame graph of all processes: open it by itself, to search and to zoom",
    "trace.json.gz": "trace of some steps by torch's profiler, for ui.perfetto.dev",
    "stacks.txt": "stacks of all processes, taken by a signal",
}


def _profile(run_dir: Path) -> str:
    """Links to what `make profile` has written."""
    found = [(name, what) for name, what in _PROFILES.items() if (run_dir / name).is_file()]
    if not found:
        return ""
    items = "".join(f'<li><a href="{name}">{name}</a>: {what}</li>' for name, what in found)
    return f"<h2>Profile</h2><ul>{items}</ul>"


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
        f"{' '.join(f'<span>{escaped(word)}</span>' for word in words)}</pre></div></div>"
        for title, words in lines
    )


def _config(text: Optional[str]) -> str:
    if not text:
        return ""
    lines = "\n".join(escaped(line) for line in text.splitlines())
    return _details("The whole configuration", f"<pre>{lines}</pre>")
