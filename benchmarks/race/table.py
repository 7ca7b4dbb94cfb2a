"""Prints the rows as Markdown tables that also read well in a terminal. Pure functions."""

from typing import List

from race.arms import LIMIT, OURS, PEER, WRITTEN

_KINDS = {
    LIMIT: "the machine's limit",
    OURS: "ours",
    PEER: "peers as they come",
    WRITTEN: "with decode code written by us",
}
_SETS = {"full": "Original size", "short256": "Short side 256"}
_HEAD = [
    "arm",
    "images/s",
    "least - most",
    "CPU s/1,000",
    "kB/image",
    "resize",
    "output",
    "first s",
    "MB",
    "x limit",
    "x peer",
    "notes",
]


LEGEND = (
    "Medians of all rounds; ratios are medians of the ratios within a round. CPU s/1,000: CPU time "
    "of the whole process tree for 1,000 images. first s: from the start of the process to the "
    "first batch. MB: memory of the process tree (PSS), without mapped files."
)


def _number(value, digits=0):
    return "" if value is None else f"{value:,.{digits}f}"


def _cells(row, notes):
    marks = []
    for note in (*row.arm.notes, *([row.why_not] if row.why_not else [])):
        if note not in notes:
            notes.append(note)
        marks.append(str(notes.index(note) + 1))
    middle, least, most = row.images_per_s
    return [
        row.arm.title,
        _number(middle),
        f"{least:,.0f} - {most:,.0f}",
        _number(row.cpu_s_per_1000, 2),
        _number(row.kb_an_image, 1),
        row.arm.resize,
        row.output,
        _number(row.first_batch_s, 1),
        _number(row.memory_mb),
        _number(row.of_limit, 2),
        _number(row.of_best_peer, 2),
        " ".join(marks),
    ]


def markdown(head: List[str], lines: List[List[str]]) -> str:
    """A Markdown table, its columns padded so that they line up; the first one to the left."""
    widths = [max(len(line[place]) for line in [head, *lines]) for place in range(len(head))]

    def padded(cells):
        first, *rest = (
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths))
        )
        return "| " + " | ".join([first, *rest]) + " |"

    rule = "|" + "|".join(
        "-" * (width + 2) if place == 0 else "-" * (width + 1) + ":"
        for place, width in enumerate(widths)
    )
    return "\n".join([padded(head), rule + "|", *map(padded, lines)])


def tables(rows, described) -> str:
    """All tables, the notes below them, and what did not run.

    Args:
        rows: from figures.summarise.
        described: {set: what data.describe says}.
    """
    notes: List[str] = []
    parts = []
    for data, title in _SETS.items():
        mine = [row for row in rows if row.arm.data == data and row.images_per_s]
        if not mine:
            continue
        about = described[data]
        kinds = ", ".join(f"{count} {kind}" for kind, count in about["kinds"].items())
        parts.append(
            f"{title}: {about['files']:,} files, {about['pixels']:,} pixels and "
            f"{about['bytes']:,} bytes on average ({kinds})"
        )
        lines = []
        for kind, words in _KINDS.items():
            found = [row for row in mine if row.arm.kind == kind]
            found.sort(key=lambda row: -row.images_per_s[0])
            if found:
                lines.append([words.upper()] + [""] * (len(_HEAD) - 1))
                lines += [_cells(row, notes) for row in found]
        parts.append(markdown(_HEAD, lines))
        best = {row.arm.raw: row for row in mine if row.of_best_peer == 1 and row.arm.kind == PEER}
        if best:
            words = {False: "that decodes JPEG", True: "that keeps raw pixels"}
            named = [f"{best[raw].arm.title} ({words[raw]})" for raw in sorted(best)]
            parts.append(f"x peer: of the fastest peer as it comes, {' or '.join(named)}")
    parts.append(LEGEND)
    if notes:
        parts.append("\n".join(f"{place}. {note}" for place, note in enumerate(notes, 1)))
    missing = [row for row in rows if not row.images_per_s]
    if missing:
        lines = [f"- {row.arm.title} ({row.arm.name}): {row.why_not}" for row in missing]
        parts.append("\n".join(["Not run:", *lines]))
    return "\n\n".join(parts)


def versions(rows) -> str:
    """One line for each environment: its packages' versions."""
    lines = {}
    for row in rows:
        if row.versions:
            said = ", ".join(f"{name} {version}" for name, version in row.versions.items())
            lines.setdefault(said, row.arm.environment or row.arm.kind)
    return "\n".join(f"{name}: {said}" for said, name in lines.items())
