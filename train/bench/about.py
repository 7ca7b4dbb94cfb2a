"""What there is to say of a comparison beside its figures: how, on what, by which command."""

import dataclasses
import datetime
import shlex
from statistics import median
from typing import Any, Dict, List, Optional, Sequence

from train import __version__, machine
from train.bench import articles
from train.bench.figures import Row, disagreement, verdict
from train.bench.options import BenchOptions
from train.config import Config, flatten
from train.trial import WARM_BATCHES, WARM_S
from train.tune.commands import arguments_of

DISTURBED = 0.1
"""Share of the cores that other programs may take before it is told."""


@dataclasses.dataclass
class Facts:
    """What a comparison is made on; filled in as it goes on.

    Attributes:
        config, options: what was asked for.
        cpus: usable ones.
        kind: of the accelerator: "cpu", "cuda" or "sim".
        name, root, container, classes, train_images, images_per_epoch: of the data.
        images_per_s: of a simulated accelerator.
        calibration: the plain loader alone, where the simulated device follows from it.
        warm: of each kind of data, whether it was in memory.
    """

    config: Config
    options: BenchOptions
    cpus: machine.Measure[int]
    kind: str
    name: str
    root: str
    container: str
    classes: int
    train_images: int
    images_per_epoch: int
    images_per_s: Optional[float] = None
    calibration: Optional[Dict[str, Any]] = None
    warm: List[str] = dataclasses.field(default_factory=list)


def command(config: Config, options: BenchOptions) -> str:
    """What to type to do it again: what differs from the defaults."""
    words = ["python", "-m", "train", "bench", *arguments_of(config)]
    plain = BenchOptions()
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name != "out" and value != getattr(plain, field.name):
            words += [f"--{field.name}", str(value)]
    return shlex.join(words)


def accelerator_words(facts: Facts, rows: Sequence[Row] = ()) -> str:
    """The accelerator, for people."""
    if facts.kind == "sim":
        speed = f"simulated, {facts.images_per_s or 0:,.0f} images/s"
        if facts.calibration is None:
            return speed
        alone = facts.calibration["images_per_s"]
        if disagreement(rows, alone):
            return speed
        return f"{speed} (2.5 x the plain loader's own {alone:,.0f}, measured first)"
    names = [result["accelerator"] for row in rows for result in row.measured.rounds if result] or [
        facts.kind
    ]
    return f"{names[0]}, training {facts.config.model.name}"


def loader_words(settings: Dict[str, Any]) -> str:
    """The settings of one of our loaders, for people."""
    workers = settings["workers"]
    if not workers:
        return "no workers: the program makes the batches itself"
    names = {"process": "process", "thread": "thread"} if workers == 1 else _MANY
    return f"{workers} {names[settings['workers_kind']]}, prefetch {settings['prefetch']}"


_MANY = {"process": "processes", "thread": "threads"}


def rounds_words(options: BenchOptions) -> str:
    """How often each arm is measured, and how long."""
    if options.rounds == 1:
        return f"1 round of {options.seconds:g} s an arm"
    return (
        f"{options.rounds} rounds of {options.seconds:g} s an arm, interleaved, every other round "
        "backwards"
    )


def disturbed(rows: Sequence[Row], cpus: int) -> str:
    """What other programs took meanwhile, where it matters; '' otherwise."""
    shares = [row.spread["others_cores"] for row in rows if "others_cores" in row.spread]
    middle = median(share.middle for share in shares) if shares else 0.0
    if middle < DISTURBED * cpus:
        return ""
    return (
        f"other programs kept {middle:.1f} of {cpus} cores busy meanwhile: measure again on a "
        "quiet machine"
    )


def how(facts: Facts, rows: Sequence[Row]) -> List[str]:
    """How it was measured, a sentence or two each."""
    data, options = facts.config.data, facts.options
    lines = [
        f"Accelerator: {accelerator_words(facts, rows)}.",
        f"Data: {facts.name} ({facts.container}), {facts.train_images:,} training images in "
        f"{facts.classes} classes; batches of {data.batch_size} at {data.image_size} px, "
        f"seed {facts.config.run.seed}. Page cache: {'; '.join(facts.warm)}.",
        "All arms see the same images in the same order, with the same crops and flips; plain and "
        "articles read them through the same source as ours.",
        f"{rounds_words(options)}. Left out before each: {WARM_BATCHES} batches and {WARM_S} s. "
        "Each measurement in a process of its own.",
        "First batch: from opening the loader to its first batch, imports left out."
        + (
            ""
            if facts.kind == "sim"
            else " Ours starts its workers before the model is made, as train fit does."
        ),
    ]
    if facts.kind == "sim":
        lines.append(
            "The simulated device takes a fixed time an image and a fixed time a byte copied, "
            "works beside the host as a GPU does, and costs no CPU."
        )
    if facts.kind == "cpu":
        lines.append("The model shares the CPUs with the loader; cores and CPU s count both.")
    other = disturbed(rows, facts.cpus.value)
    return [*lines, *([f"Disturbed: {other}."] if other else [])]


def describe(facts: Facts, rows: Sequence[Row], complete: bool) -> Dict[str, Any]:
    """The content of bench.json.

    Args:
        facts: what it is made on.
        rows: the figures so far.
        complete: all rounds are done.
    """
    alone = facts.calibration["images_per_s"] if facts.calibration else None
    return {
        "made_by": f"wellfed {__version__}",
        "time": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "complete": complete,
        "command": command(facts.config, facts.options),
        "verdict": verdict(rows, alone),
        "unsettled": bool(disagreement(rows, alone)),
        "disturbed": disturbed(rows, facts.cpus.value),
        "accelerator": {
            "kind": facts.kind,
            "words": accelerator_words(facts, rows),
            "images_per_s": facts.images_per_s,
            "calibration": facts.calibration,
        },
        "data": {
            "name": facts.name,
            "path": facts.root,
            "container": facts.container,
            "classes": facts.classes,
            "train_images": facts.train_images,
            "images_per_epoch": facts.images_per_epoch,
            "warm": facts.warm,
        },
        "arms": {row.name: _arm(row) for row in rows},
        "articles": {"gpu_use": articles.BUSY, "epoch_s": articles.EPOCH_S},
        "how": how(facts, rows),
        "options": dataclasses.asdict(facts.options),
        "config": flatten(facts.config),
        "cpus": facts.cpus.value,
        "machine": [dataclasses.asdict(row) for row in machine.describe()],
    }


def _arm(row: Row) -> Dict[str, Any]:
    measured = row.measured
    return {
        "title": measured.arm.title,
        "about": measured.arm.about,
        "settings": measured.settings,
        "notes": measured.notes,
        "why_not": measured.why_not,
        "medians": {field: spread.middle for field, spread in row.spread.items()},
        "least": {field: spread.least for field, spread in row.spread.items()},
        "most": {field: spread.most for field, spread in row.spread.items()},
        "times_plain": row.times_plain,
        "of_limit": row.of_limit,
        "timer_s": row.timer_s,
        "rounds": measured.rounds,
    }
