"""Reads back what a run wrote, for people: whatever is missing or cut off becomes a note."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional

import yaml

# The numbers of an epoch's row; each may be missing, null or not a number: None then.
_COLUMNS = (
    "lr",
    "train_loss",
    "train_top1",
    "train_top5",
    "val_loss",
    "val_top1",
    "val_top5",
    "images_per_s",
    "data_wait_share",
    "first_batch_s",
    "train_s",
    "val_s",
    "skipped_steps",
    "gpu_util",
    "read_share",
    "decode_share",
    "sample_share",
    "collate_share",
    "time",
)


@dataclass
class RunRecord:
    """What a run's folder tells.

    `rows` holds one dictionary an epoch, ascending: "epoch" from 0, and each of `_COLUMNS` as a
    finite number or None, and "short_stage" as text, '' where there is none. `notes` says what
    could not be read.
    """

    config_text: str = ""
    config: Dict[str, Any] = field(default_factory=dict)
    rows: List[Dict[str, Any]] = field(default_factory=list)
    settings: List[Dict[str, Any]] = field(default_factory=list)
    machine: List[Dict[str, Any]] = field(default_factory=list)
    bad_samples: List[Dict[str, Any]] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)

    def config_value(self, section: str, key: str) -> Any:
        """One setting, or None."""
        part = self.config.get(section)
        return part.get(key) if isinstance(part, dict) else None


def read_record(run_dir: Path) -> RunRecord:
    """Read the files of a run; never fails for what stands in them."""
    record = RunRecord()
    notes = record.notes
    record.config_text = _read(run_dir / "config.yaml", notes) or ""
    record.config = _parse_config(record.config_text, notes)
    metrics = _parse_lines(run_dir / "metrics.jsonl", notes, "the curves and results are missing")
    by_epoch = {row["epoch"]: row for row in map(_clean_row, metrics) if row["epoch"] is not None}
    record.rows = [by_epoch[epoch] for epoch in sorted(by_epoch)]
    record.settings = _parse_list(run_dir / "settings.json", notes)
    record.machine = _parse_list(run_dir / "machine.json", notes)
    if (run_dir / "bad_samples.jsonl").exists():  # no bad sample, no file
        record.bad_samples = _parse_lines(run_dir / "bad_samples.jsonl", notes, "")
    return record


def _read(path: Path, notes: List[str], lost: str = "") -> Optional[str]:
    try:
        return path.read_text("utf-8", errors="backslashreplace")
    except FileNotFoundError:
        notes.append(f"{path.name} is not there" + (f": {lost}" if lost else ""))
    except OSError as error:
        notes.append(f"{path.name} cannot be read: {error.strerror or error}")
    return None


def _parse_config(text: str, notes: List[str]) -> Dict[str, Any]:
    try:
        config = yaml.safe_load(text) if text else {}
    except Exception:  # PyYAML passes on what becomes of dates and numbers that are none
        config = None
    if isinstance(config, dict):
        return config
    notes.append("config.yaml is damaged: it is shown as it stands")
    return {}


def _parse_list(path: Path, notes: List[str]) -> List[Dict[str, Any]]:
    text = _read(path, notes)
    if text is None:
        return []
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        rows = None
    if isinstance(rows, list):
        return [row for row in rows if isinstance(row, dict)]
    notes.append(f"{path.name} is damaged or cut off")
    return []


def _parse_lines(path: Path, notes: List[str], lost: str) -> List[Dict[str, Any]]:
    rows, damaged = [], 0
    for line in (_read(path, notes, lost) or "").split("\n"):
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            row = ()
        if isinstance(row, dict):
            rows.append(row)
        elif row is not None:
            damaged += 1
    if damaged:
        notes.append(f"{path.name}: {damaged} damaged or cut off line(s) left out")
    return rows


def _clean_row(row: Dict[str, Any]) -> Dict[str, Any]:
    clean: Dict[str, Any] = {name: _number(row.get(name)) for name in _COLUMNS}
    epoch = row.get("epoch")
    is_epoch = isinstance(epoch, int) and not isinstance(epoch, bool) and 0 <= epoch < 10**9
    clean["epoch"] = epoch if is_epoch else None
    short = row.get("short_stage")
    clean["short_stage"] = short if isinstance(short, str) else ""
    return clean


def _number(value: Any) -> Optional[float]:
    """A finite number that can be drawn, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e15 and math.isfinite(value) else None
