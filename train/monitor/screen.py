"""A snapshot of a run as a screen of text."""

from typing import Any, Dict, List, Optional

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from train.cgroup import bytes_text
from train.monitor.look import Row, Snapshot, number
from train.report_text import visible

_BAR = 20  # cells of a bar
_OLD_S = 5.0  # a state that is older is told as such

KEYS = "q or Ctrl-C ends this view, never the run"


def screen(snapshot: Snapshot, height: int = 24, keys: bool = True) -> Group:
    """Draw it.

    Args:
        snapshot: what was seen.
        height: lines that there are.
        keys: say which keys there are.
    """
    status = snapshot.status
    head = [_line("run", snapshot.run)]
    head += _progress(snapshot) if status else [_line("state", "starting: it has no step yet")]
    tail = _queue(status) + _machine(snapshot)
    if keys:
        tail += [Text(KEYS, style="dim")]
    room = height - len(head) - len(tail) - 4
    parts: List[RenderableType] = [*head, Text("")]
    if snapshot.rows:
        parts += [_table(snapshot.rows, max(2, room)), Text("")]
    elif not snapshot.here:
        place = f"on {status['host']}" if status.get("host") else "elsewhere"
        hint = f"its processes are not to be seen from here: it runs {place}"
        parts += [Text(visible(hint)), Text("")]
    return Group(*parts, *tail)


def _line(name: str, value: str) -> Text:
    line = Text(f"{name:<10}", style="dim", no_wrap=True, overflow="ellipsis")
    line.append(visible(value), style="not dim")
    return line


def _progress(snapshot: Snapshot) -> List[Text]:
    status = snapshot.status
    done, total = number(status.get("done")), number(status.get("total"))
    words = [str(status.get("title", ""))]
    if done is not None and total:
        words.append(f"{_bar(done / total)} {done:.0f} of {total:.0f} images")
    speed, share = number(status.get("images_per_s")), number(status.get("wait_share"))
    words.append(f"{speed:,.0f}/s" if speed else "")  # 0: a step that is longer than a look
    lines = [_line("state", "  ".join(word for word in words if word))]
    told = []
    if share is not None:
        told.append(f"waiting for data {share:.0%}")
    if snapshot.stages is not None and _workers(status):
        reading, making = snapshot.stages
        told.append(f"workers read {reading:.1f}, decode {making:.1f} of {_workers(status)}")
    if told:
        lines.append(_line("loader", "; ".join(told)))
    if snapshot.age_s is not None and snapshot.age_s > _OLD_S:
        lines.append(_line("", f"in a step for {snapshot.age_s:.0f} s, or waiting for its batch"))
    return lines


def _workers(status: Dict[str, Any]) -> int:
    loader = status.get("loader") or {}
    return 0 if loader.get("kind") == "none" else len(loader.get("workers") or [])


def _queue(status: Dict[str, Any]) -> List[Text]:
    queue = (status.get("loader") or {}).get("queue") or {}
    ready, asked = number(queue.get("ready")), number(queue.get("asked"))
    lines = []
    if asked:
        share = (ready or 0) / asked
        lines.append(_line("queue", f"{_bar(share)} {ready or 0:.0f} of {asked:.0f} batches ready"))
    slots, free = number(queue.get("slots")), number(queue.get("free"))
    if slots:
        used = slots - (free or 0)
        lines.append(_line("ring", f"{_bar(used / slots)} {used:.0f} of {slots:.0f} slots in use"))
    return lines


def _machine(snapshot: Snapshot) -> List[Text]:
    lines = []
    if snapshot.machine_cores is not None and snapshot.cpus:
        share = snapshot.machine_cores / snapshot.cpus
        busy = f"{_bar(share)} {snapshot.machine_cores:.1f} of {snapshot.cpus} CPUs busy"
        lines.append(_line("machine", busy))
    used, total = snapshot.memory
    if total:
        lines.append(
            _line(
                "memory", f"{_bar(used / total)} {bytes_text(used)} of {bytes_text(total)} in use"
            )
        )
    return lines + [_line("GPU", line) for line in snapshot.gpus]


def _table(rows: List[Row], room: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("who", no_wrap=True)
    for name in ("number", "CPU", "memory", "from disk"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("at sample", no_wrap=True, overflow="ellipsis", ratio=1)
    shown = rows if len(rows) <= room else rows[: room - 1]
    for row in shown:
        table.add_row(
            Text(visible(row.name)),
            str(row.ident) if row.ident else "",
            _percent(row.cores),
            "" if row.memory_bytes is None else bytes_text(row.memory_bytes),
            "" if row.read_bytes_s is None else f"{bytes_text(row.read_bytes_s)}/s",
            Text(visible(row.doing)),  # [..] in a file's name is no markup
        )
    rest = rows[len(shown) :]
    if rest:
        table.add_row(f"and {len(rest)} more", "", _percent(_sum(rest)), "", "", "")
    return table


def _sum(rows: List[Row]) -> Optional[float]:
    known = [row.cores for row in rows if row.cores is not None]
    return sum(known) if known else None


def _percent(cores: Optional[float]) -> str:
    return "" if cores is None else f"{cores:.0%}"


def _bar(share: float) -> str:
    full = round(_BAR * min(1.0, max(0.0, share)))
    return "█" * full + "░" * (_BAR - full)
