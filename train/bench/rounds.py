"""All arms in turn, round by round; every other round goes backwards."""

from typing import Any, Callable, Dict, List

from train.bench.figures import Measured, Result
from train.bench.jobs import JobFailed, run_job
from train.bench.progress import Show
from train.bench.table import result_line
from train.console import say

Jobs = Dict[str, Dict[str, Any]]
"""By the arm's name: the job of one measurement."""


def measure(
    job: Dict[str, Any], name: str, title: str, stopped: Callable[[], bool], show: Show
) -> Result:
    """One measurement, with its progress shown.

    Raises:
        JobFailed, Stopped: see `run_job`.
    """

    def listen(line: Dict[str, Any]) -> None:
        show.note(f"{line['images'] / line['seconds']:,.0f} images/s")

    with show.measuring(name, title):
        return run_job(job, stopped, listen, show.note)


def race(
    measured: List[Measured],
    jobs: Jobs,
    rounds: int,
    stopped: Callable[[], bool],
    show: Show,
    after_each: Callable[[], None],
) -> None:
    """Measure all arms, and write each result into its `rounds`.

    An arm that fails is left out of the rounds after.

    Args:
        measured: the arms; their results are added.
        jobs: what to do.
        rounds: how many.
        stopped: whether a signal came.
        show: what is seen.
        after_each: called after each measurement.

    Raises:
        Stopped: a signal came.
    """
    width = max((len(name) for name in jobs), default=0)
    for number in range(rounds):
        for place in range(len(measured))[:: 1 if number % 2 == 0 else -1]:
            one, result = measured[place], None
            name = one.arm.name
            if name not in jobs or one.why_not:
                one.rounds.append(None)
                continue
            title = f"round {number + 1} of {rounds}  {name}"
            job = {**jobs[name], "timer": number == 0}
            try:
                result = measure(job, name, title, stopped, show)
                text = result_line(result)
            except JobFailed as failure:
                text = f"failed: {failure}"
                measured[place] = one._replace(why_not=str(failure))
                show.plan.drop(name)
            one.rounds.append(result)
            say(f"[{number + 1}/{rounds}] {name:<{width}}  {text}", indent=8 + width)
            after_each()
