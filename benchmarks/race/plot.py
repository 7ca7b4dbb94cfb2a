"""Draws the rows: one bar an arm, the least and most round as a line across its end."""

from race.arms import LIMIT, OURS, PEER, WRITTEN

COLOURS = {LIMIT: "#9aa0a6", OURS: "#1a73e8", PEER: "#e8710a", WRITTEN: "#f4b98a"}
WORDS = {
    LIMIT: "libjpeg-turbo alone, whole pictures",
    OURS: "ours",
    PEER: "peers as they come",
    WRITTEN: "peers with decode code written by us",
}
SETS = {"full": "Original size", "short256": "Short side 256"}


def draw(rows, path, subtitle):
    """Write the picture of all rows that have a result.

    Args:
        rows: from figures.summarise.
        path: of the PNG.
        subtitle: machine, data and date in one line.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets = {
        data: sorted(
            (row for row in rows if row.arm.data == data and row.images_per_s),
            key=lambda row: row.images_per_s[0],
        )
        for data in SETS
    }
    sets = {data: found for data, found in sets.items() if found}
    heights = [len(found) + 2 for found in sets.values()] or [2]
    figure, axes = plt.subplots(
        max(1, len(sets)),
        1,
        figsize=(10, 0.27 * sum(heights) + 1.2),
        squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )
    for axis, (data, found) in zip(axes[:, 0], sets.items()):
        _bars(axis, found)
        axis.set_title(f"{SETS[data]}: images a second", loc="left", fontsize=10)
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=COLOURS[kind])
        for kind in WORDS
        if any(row.arm.kind == kind and row.images_per_s for row in rows)
    ]
    words = [
        text
        for kind, text in WORDS.items()
        if any(row.arm.kind == kind and row.images_per_s for row in rows)
    ]
    if handles:
        axes[0, 0].legend(handles, words, loc="lower right", fontsize=8, frameon=False)
    figure.supxlabel(subtitle, fontsize=8, color="#5f6368")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _bars(axis, rows):
    for place, row in enumerate(rows):
        middle, least, most = row.images_per_s
        axis.barh(place, middle, color=COLOURS[row.arm.kind], height=0.72)
        axis.plot([least, most], [place, place], color="#202124", linewidth=1)
        axis.text(most, place, f"  {middle:,.0f}", va="center", fontsize=7.5)
    axis.set_yticks(range(len(rows)), [row.arm.title for row in rows], fontsize=7.5)
    axis.set_xlim(0, max(row.images_per_s[2] for row in rows) * 1.12)
    axis.margins(y=0.01)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="x", labelsize=7.5)
