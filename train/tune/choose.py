"""From costs and trials to the settings that are chosen, in plain words."""

import time
from datetime import date
from typing import Any, Callable, List, Optional, Tuple

from train import machine
from train.accelerator import Accelerator, SimulatedAccelerator
from train.config import Config
from train.data import build_loader
from train.tune.budgets import Budgets
from train.tune.costs import Costs, measure_costs
from train.tune.predict import Candidate, Prediction, Space, candidate
from train.tune.recommend import Advice, advise, options
from train.tune.search import ENOUGH, Summary, pick, summarise
from train.tune.trials import Outcome, Trials, space_of
from train.tune.tuned import Row, Tuned
from train.usage import OthersClock

DISTURBED = 0.15
"""Share of the cores that other programs may take before it is told."""

DOUBTFUL = 0.5
"""Share that they may take before nothing that was measured holds."""

ADVICE_S = 0.3
"""Seconds for each content that the data could be packed as."""


def tuned_settings(
    config: Config,
    source: Any,
    accelerator: Accelerator,
    cpus: machine.Measure[int],
    seconds: float = 60.0,
    progress: Callable[[str], None] = lambda text: None,
    kind: str = "folder",
) -> Tuned:
    """Measure, predict, try, choose.

    What config.data sets by hand is kept; only what is auto is chosen.

    Args:
        config: the run's settings.
        source: what it trains on: a source of records, or a map-style data set of a user's own.
        accelerator: what consumes the batches; its training is thrown away.
        cpus: usable ones.
        seconds: the most that all of it may take, about.
        progress: told what goes on, a line each.
        kind: of the data's container.

    Raises:
        DataError: no batch can be made of these data.
    """
    begin = time.perf_counter()
    own_samples = not hasattr(source, "key")
    budgets = Budgets(config, own_samples, accelerator.device.type, cpus)
    rule = budgets.settings(None)
    dataset = build_loader(source, config.data, rule, train=True, seed=config.run.seed).dataset
    costs = measure_costs(
        dataset,
        config,
        accelerator,
        threads=not own_samples and cpus.value > 1,
        start_method=rule.start_method,
        stage_s=min(0.4, seconds / 60),
        progress=progress,
    )
    simulated = isinstance(accelerator, SimulatedAccelerator)
    space = space_of(config, costs, cpus.value, accelerator.device.type, simulated, budgets)
    trials = Trials(config, source, accelerator, budgets, begin + 0.93 * seconds, progress)
    others = OthersClock()
    outcome = trials.all(space)
    busy = others.cores()
    if outcome is None:  # not even one worker fits
        outcome = Outcome([], Candidate(0, rule.workers_kind, 1), costs.batch_size, "nothing fits")
    advice = None
    if not own_samples and _limit(space, outcome) == "data":
        found = options(source, config, ADVICE_S, begin + seconds, progress)
        advice = advise(found, costs, config.data.path, kind)
    return decide(
        space,
        outcome,
        advice,
        accelerator.name,
        time.perf_counter() - begin,
        lambda one: space.workers is None and not space.fits(one),
        busy,
    )


def _limit(space: Space, outcome: Outcome) -> str:
    _, found, predicted = _best(space, outcome)
    if space.competes:
        return "cores"
    return "accelerator" if (found or predicted).wait_share < ENOUGH else "data"


def _best(space: Space, outcome: Outcome) -> Tuple[Candidate, Optional[Summary], Prediction]:
    measured = summarise(outcome.done)
    best = pick(measured, space.competes) if measured else outcome.first
    return best, measured.get(best), space.predict(best)


def decide(
    space: Space,
    outcome: Outcome,
    advice: Optional[Advice],
    accelerator: str,
    seconds: float,
    too_much: Callable[[Candidate], bool] = lambda one: False,
    others: float = 0.0,
) -> Tuned:
    """The choice and its words; a pure function but for today's date.

    Args:
        space: costs and what fits.
        outcome: of the trials.
        advice: what packing would gain.
        accelerator: its name.
        seconds: that it all took.
        too_much: whether a candidate is beyond a budget.
        others: cores that other programs kept busy meanwhile.
    """
    best, found, predicted = _best(space, outcome)
    measured = summarise(outcome.done)
    rows = [Row(one, space.predict(one), measured[one], one == best) for one in measured]
    if not measured:
        rows = [Row(best, predicted, None, True)]
    return Tuned(
        workers=best.workers,
        prefetch=best.prefetch if best.workers else None,
        workers_kind=best.kind,
        limit=_limit(space, outcome),
        reasons=_reasons(space, outcome, rows, accelerator, too_much) + _disturbed(space, others),
        rows=sorted(rows, key=lambda row: (row.candidate.workers, row.candidate)),
        recommendation=advice.words if advice else None,
        command=advice.command if advice else None,
        predicted=predicted,
        measured=found,
        costs=space.costs,
        cpus=space.cpus,
        accelerator=accelerator,
        seconds=round(seconds, 1),
        made=date.today().isoformat(),
        disturbed=bool(_disturbed(space, others)),
        doubtful=others > DOUBTFUL * space.cpus,
    )


def _reasons(
    space: Space,
    outcome: Outcome,
    rows: List[Row],
    accelerator: str,
    too_much: Callable[[Candidate], bool],
) -> List[str]:
    best, found, predicted = _best(space, outcome)
    now = found or predicted
    costs, said = space.costs, []
    most = f"{costs.ceiling.images_per_s:,.0f}"
    limit = _limit(space, outcome)
    how = "measured" if found else "predicted"
    others = [row for row in rows if not row.chosen and row.measured is not None]
    if limit == "accelerator":
        said.append(
            f"{best.words()}: the accelerator ({accelerator}) waits {now.wait_share:.1%} of the "
            f"time, {now.cores:.1f} cores busy ({how})"
        )
        fewer = [row for row in others if row.candidate.workers < best.workers]
        for row in sorted(fewer, key=lambda row: row.candidate.workers)[-1:]:
            said.append(f"with {row.candidate.words()} it would wait {_wait(row):.1%}")
        if len(rows) == 1 and not outcome.cut_short:
            said.append(_why_no_other(space, best))
    else:
        could = "could take" if limit == "data" else "trains on when batches cost nothing"
        what = "the data are the limit" if limit == "data" else "training and loading share the CPU"
        said.append(
            f"{what}: {best.words()} give {now.images_per_s:,.0f} images/s ({how}), the "
            f"accelerator ({accelerator}) {could}: {most}; it waits {now.wait_share:.1%}"
        )
        for row in sorted(others, key=_speed)[-2:]:
            said.append(f"{row.candidate.words()}: {_speed(row):,.0f} images/s")
    more = Candidate(best.workers + 1, best.kind, best.prefetch)
    if limit == "data" and too_much(more):
        said.append(f"{more.words()} do not fit into memory, shared memory or open files")
    if outcome.done and outcome.batch_size != costs.batch_size:
        said.append(
            f"trials had batches of {outcome.batch_size} images: one of {costs.batch_size} takes "
            f"{costs.batch_size * max(costs.batch.seconds, _step(space)):.1f} s"
        )
    if outcome.cut_short:
        said.append(f"not everything was tried: {outcome.cut_short}")
    return said


def _why_no_other(space: Space, best: Candidate) -> str:
    """Why one trial was enough: what takes less would not do, and what takes more is not wanted."""
    if best.workers == 0:
        return "nothing else was tried: it is fed without workers, and more would only take cores"
    fewer = candidate(space, best.workers - 1, best.kind, best.prefetch)
    if not space.fits(fewer):
        return "nothing else was tried: it is fed, and fewer workers are not what was asked for"
    return (
        f"nothing else was tried: it is fed, and with {fewer.words()} it would wait "
        f"{space.predict(fewer).wait_share:.1%} (predicted)"
    )


def _disturbed(space: Space, others: float) -> List[str]:
    if others < DISTURBED * space.cpus:
        return []
    return [
        f"other programs kept {others:.1f} of {space.cpus} cores busy meanwhile: measure again "
        "when they are done (train tune --fresh)"
    ]


def _step(space: Space) -> float:
    return 1.0 / space.costs.ceiling.images_per_s if space.competes else 0.0


def _speed(row: Row) -> float:
    return row.measured.images_per_s if row.measured else row.predicted.images_per_s


def _wait(row: Row) -> float:
    return row.measured.wait_share if row.measured else row.predicted.wait_share


def split_costs(costs: Costs) -> List[Tuple[str, float]]:
    """(stage, milliseconds an image) for people, in the order of the line."""
    stages = [("read", costs.read), ("decode", costs.decode), ("resize", costs.resize)]
    found = [(name, stage.seconds * 1000) for name, stage in stages if stage is not None]
    found.append(("whole batch", costs.batch.seconds * 1000))
    found.append(("hand over", costs.handover.seconds * 1000))
    return found
