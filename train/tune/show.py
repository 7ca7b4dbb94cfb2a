"""What `train tune` prints: costs, table, choice, reasons, YAML; fits 80 columns."""

from typing import List, Optional

from train.config import Config
from train.console import say
from train.tune.choose import split_costs
from train.tune.commands import fit_command
from train.tune.predict import Prediction
from train.tune.tuned import Row, Tuned

WIDTH = 78


def show(tuned: Tuned, config: Config, note: str, simulated: bool) -> None:
    """Print a finding.

    Args:
        tuned: it.
        config: of the run.
        note: where it is from, where it was not measured now.
        simulated: the accelerator is not that of a run.
    """
    say("")
    say("one core, ms an image")
    costs = split_costs(tuned.costs)
    say("  " + "   ".join(f"{name} {cost:.2f}" for name, cost in costs), indent=2, unit="   ")
    ceiling = tuned.costs.ceiling
    say(f"  accelerator {tuned.accelerator}: {ceiling.images_per_s:,.0f} images/s at most")
    say("")
    for line in table(tuned.rows):
        say(line)
    say("")
    _wrapped("choice", _choice(tuned))
    for reason in tuned.reasons:
        _wrapped("", reason)
    if tuned.recommendation:
        _wrapped("advice", tuned.recommendation)
        say(f"          {tuned.command}", indent=12)
    how = note or f"measured in {tuned.seconds:.0f} s; kept for this machine, data and versions"
    if tuned.doubtful:
        how = "not kept: other programs had more than half of the cores meanwhile"
    _wrapped("known", how)
    for line in [] if tuned.doubtful else used_by(config, simulated):
        say(line, indent=12)
    say("")
    say("To pin it, in a recipe:")
    say("")
    for line in yaml_lines(tuned):
        say(line)


def used_by(config: Config, simulated: bool) -> List[str]:
    """Which run takes it up, and the command of that run."""
    if simulated:
        return ["used      by no run by itself: the accelerator is a simulated one; pin it"]
    return [
        "used      by a run of these very settings; other data, image_size, batch_size,",
        "          crop_min, resize, model or precision are tuned on their own:",
        f"          {fit_command(config)}",
    ]


def table(rows: List[Row]) -> List[str]:
    """The settings that were tried, a line each."""
    head = f"{'':<2}{'setting':<18}{'predicted':>10}{'measured':>10}{'runs':>6}"
    lines = [f"{head}{'waiting':>9}{'cores':>7}{'memory':>9}"]
    for row in rows:
        found = row.measured
        mark = ">" if row.chosen else ""
        line = f"{mark:<2}{row.candidate.words():<18}{_speed(row.predicted):>10}"
        if found is None:
            lines.append(f"{line}{'-':>10}{'-':>6}{row.predicted.wait_share:>9.1%}{'':>7}".rstrip())
            continue
        lines.append(
            f"{line}{found.images_per_s:>10,.0f}{found.runs:>6}{found.wait_share:>9.1%}"
            f"{found.cores:>7.2f}{_mib(found.memory_bytes):>9}"
        )
    lines.append("  predicted and measured: images/s; waiting: of the accelerator")
    return lines


def yaml_lines(tuned: Tuned) -> List[str]:
    """The choice as a part of a recipe."""
    lines = ["data:", f"  workers: {tuned.workers}"]
    if tuned.workers:
        lines += [f"  prefetch: {tuned.prefetch}", f"  workers_kind: {tuned.workers_kind}"]
    return lines


def _choice(tuned: Tuned) -> str:
    if tuned.workers == 0:
        return "data.workers=0: batches are made in the training process"
    return (
        f"data.workers={tuned.workers} data.prefetch={tuned.prefetch} "
        f"data.workers_kind={tuned.workers_kind}"
    )


def _wrapped(title: str, text: str) -> None:
    """A title of ten columns, and lines beside it that fit a terminal."""
    line = ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > WIDTH - 10:
            say(f"{title:<10}{line}")
            title, line = "", word
        else:
            line = f"{line} {word}" if line else word
    say(f"{title:<10}{line}")


def _speed(predicted: Prediction) -> str:
    return f"{predicted.images_per_s:,.0f}"


def _mib(count: Optional[int]) -> str:
    return "-" if count is None else f"{count / 2**20:,.0f} MiB"
