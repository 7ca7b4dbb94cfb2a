"""Choose the loader's settings from the machine, each with its reason.

A pure function of what was asked for and what the machine offers: no torch, no files. "auto" means
that the machine decides. What was asked for is kept, unless the batches in flight would not fit: a
full /dev/shm kills workers with a bus error and too much memory kills the run, so the settings are
lowered before the start, with the numbers and the remedy.
"""

import sys
from dataclasses import dataclass, replace
from typing import Callable, List, NamedTuple, Optional, Union

from train.errors import ConfigError
from train.machine import Measure, bytes_text

Auto = Union[int, str]  # a number or "auto"

_CPU_PERCENT = 80  # the rest launches the kernels; 70 to 90 is usual
_MOST_WORKERS = 16  # more cost memory and scheduling, and rarely make anything faster
_MOST_WORKERS_ON_CPU = 4  # there the training itself wants the CPUs
_HELD = 2  # batches that a loader holds beside its queues: one on its way, one in use
_SHM_PERCENT = 80  # the rest for other users of /dev/shm, such as NCCL
_MEMORY_PERCENT = 20  # the rest for model, optimizer, decoding, and the page cache of the files

_WHY_PIN = {
    True: "CUDA copies from page-locked memory while it computes",
    False: "no CUDA device, so no copy that it could speed up",
}
_WHY_METHOD = {
    "fork": "workers share the file list without a copy, start fast, and start before CUDA does",
    "forkserver": "as asked for",
    "spawn": "fork is safe on Linux alone",
}


@dataclass(frozen=True)
class Requested:
    """What the config asks for: `data.workers`, `data.prefetch`, `data.start_method`."""

    workers: Auto = "auto"
    prefetch: Auto = "auto"
    start_method: str = "auto"


@dataclass(frozen=True)
class MachineView:
    """What the choice depends on.

    Args:
        device_type: "cpu" or "cuda".
        cpus: usable CPUs of this rank.
        memory_bytes: memory limit of all ranks of this machine; 0 when unknown.
        shm_free_bytes: free shared memory, for all ranks of this machine.
        local_ranks: training processes on this machine; memory is shared evenly.
        platform: as `sys.platform`.
    """

    device_type: str
    cpus: Measure[int]
    memory_bytes: Measure[int]
    shm_free_bytes: Measure[int]
    local_ranks: int = 1
    platform: str = sys.platform


@dataclass(frozen=True)
class Setting:
    """One chosen value and its reason, as it is printed and written to settings.json."""

    name: str
    value: Union[int, bool, str, None]
    reason: str


@dataclass(frozen=True)
class LoaderSettings:
    """What the loaders are built with; prefetch is None without workers, as torch wants it."""

    workers: int
    prefetch: Optional[int]
    eval_workers: int
    eval_prefetch: Optional[int]
    pin_memory: bool
    start_method: str
    reasons: List[Setting]
    warnings: List[str]


class _Sizes(NamedTuple):
    """Bytes of one batch; evaluation 0 when there is none."""

    train: int
    evaluation: int


@dataclass(frozen=True)
class _Plan:
    """Numbers that are held against the budget."""

    workers: int
    eval_workers: int
    prefetch: int

    def in_flight(self) -> _Sizes:
        """Batches of training and of evaluation: both loaders stay alive, so both count."""
        return _Sizes(
            self.workers * self.prefetch + _HELD if self.workers else 0,
            self.eval_workers * self.prefetch + _HELD if self.eval_workers else 0,
        )

    def need_bytes(self, sizes: _Sizes) -> int:
        count = self.in_flight()
        return count.train * sizes.train + count.evaluation * sizes.evaluation


class _Budget(NamedTuple):
    """Bytes that the batches of all ranks may take, of what, and how to get more of it."""

    limit_bytes: int
    percent: int
    words: str
    remedy: str


class _Choice(NamedTuple):
    """What the reasons and warnings are told from."""

    requested: Requested
    machine: MachineView
    wanted: _Plan
    plan: _Plan
    shortage: str
    has_eval: bool


def choose(
    requested: Requested, machine: MachineView, batch_bytes: int, eval_batch_bytes: int = 0
) -> LoaderSettings:
    """Settings for the training and the evaluation loader.

    When the batches in flight do not fit, the prefetch is lowered first, down to 1, then the number
    of workers, then evaluation gets none, and at last the main process makes the batches itself.

    Args:
        requested: the user's wishes; "auto" leaves the choice to this function.
        machine: what there is.
        batch_bytes: one training batch, uint8, in bytes.
        eval_batch_bytes: one evaluation batch in bytes; 0 when there is no evaluation.

    Returns:
        The settings with a reason each, and warnings where a wish was lowered or looks harmful.

    Raises:
        ConfigError: a wish is out of range.
    """
    _check(requested, machine)
    sizes = _Sizes(batch_bytes, eval_batch_bytes)
    wanted, budget = _wanted(requested, machine, sizes), _tightest_budget(machine)
    plan, shortage, remedy = wanted, "", ""
    if budget is not None:
        ranks = machine.local_ranks
        plan = _fit(wanted, budget.limit_bytes // ranks, sizes)
        if plan != wanted:
            shortage = _shortage(wanted, budget, ranks, sizes)
            remedy = _remedy(wanted, budget, ranks, sizes)
    choice = _Choice(requested, machine, wanted, plan, shortage, eval_batch_bytes > 0)
    method = requested.start_method
    if method == "auto":
        method = "fork" if machine.platform.startswith("linux") else "spawn"
    return LoaderSettings(
        workers=plan.workers,
        prefetch=plan.prefetch if plan.workers else None,
        eval_workers=plan.eval_workers,
        eval_prefetch=plan.prefetch if plan.eval_workers else None,
        pin_memory=machine.device_type == "cuda",
        start_method=method,
        reasons=_reasons(choice, method),
        warnings=_lowered(choice, f"{shortage}; {remedy}") + _doubtful(choice),
    )


def _check(requested: Requested, machine: MachineView) -> None:
    for key, value, least in (
        ("workers", requested.workers, 0),
        ("prefetch", requested.prefetch, 1),
    ):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value != "auto" and not (whole and int(value) >= least):
            raise ConfigError(
                f"data.{key} must be 'auto' or a whole number >= {least}, got {value!r}; "
                f"set data.{key}=auto to let the machine decide"
            )
    known = ["auto", "spawn"] if machine.platform == "win32" else ["auto", *_WHY_METHOD]
    if requested.start_method not in known:
        raise ConfigError(
            f"data.start_method must be one of {', '.join(known)} on this system, "
            f"got {requested.start_method!r}; set data.start_method=auto to let the machine decide"
        )


def _wanted(requested: Requested, machine: MachineView, sizes: _Sizes) -> _Plan:
    cpus = machine.cpus.value
    if machine.device_type == "cuda":
        by_machine, prefetch = min(_MOST_WORKERS, max(1, cpus * _CPU_PERCENT // 100)), 4
    elif cpus == 1:
        by_machine, prefetch = 0, 2
    else:
        by_machine, prefetch = min(_MOST_WORKERS_ON_CPU, max(1, cpus // 4)), 2
    workers = by_machine if requested.workers == "auto" else int(requested.workers)
    if requested.prefetch != "auto":
        prefetch = int(requested.prefetch)
    eval_workers = min(workers, max(1, by_machine)) if sizes.evaluation else 0
    return _Plan(workers, eval_workers, prefetch)


def _tightest_budget(machine: MachineView) -> Optional[_Budget]:
    """The budget that binds: shared memory on Linux, where workers put batches, or memory."""
    budgets = []
    shm, memory = machine.shm_free_bytes, machine.memory_bytes
    if machine.platform.startswith("linux"):
        words = f"{bytes_text(shm.value)} of /dev/shm free ({shm.source})"
        remedy = "give /dev/shm {mib} MiB (docker run --shm-size={mib}m, compose shm_size: {mib}m)"
        budgets.append(_Budget(shm.value * _SHM_PERCENT // 100, _SHM_PERCENT, words, remedy))
    if memory.value > 0:
        words = f"{bytes_text(memory.value)} of memory ({memory.source})"
        remedy = "allow {mib} MiB of memory (docker run --memory={mib}m, compose mem_limit: {mib}m)"
        limit = memory.value * _MEMORY_PERCENT // 100
        budgets.append(_Budget(limit, _MEMORY_PERCENT, words, remedy))
    return min(budgets, default=None)


def _fit(wanted: _Plan, room_bytes: int, sizes: _Sizes) -> _Plan:
    def largest(most: int, plan_of: Callable[[int], _Plan]) -> int:
        """The largest number up to `most` whose plan fits, by bisection; 0 where none does."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if plan_of(middle).need_bytes(sizes) <= room_bytes:
                low = middle
            else:
                high = middle - 1
        return low

    def with_evaluation(workers: int) -> _Plan:
        return _Plan(workers, min(workers, wanted.eval_workers), 1)

    prefetch = largest(wanted.prefetch, lambda count: replace(wanted, prefetch=count))
    if prefetch:
        return replace(wanted, prefetch=prefetch)
    workers = largest(wanted.workers, with_evaluation)
    if workers:
        return with_evaluation(workers)
    # Evaluation is the smaller part of an epoch: better that it waits than the training.
    return _Plan(largest(wanted.workers, lambda count: _Plan(count, 0, 1)), 0, 1)


def _shortage(wanted: _Plan, budget: _Budget, ranks: int, sizes: _Sizes) -> str:
    """Plain words with the numbers: what there is, and what would be needed."""
    count = wanted.in_flight()
    batches = f"{count.train} batches of {bytes_text(sizes.train)}"
    if count.evaluation:
        batches += f" and {count.evaluation} for evaluation of {bytes_text(sizes.evaluation)}"
    shared = f" shared by {ranks} ranks" if ranks > 1 else ""
    room = bytes_text(budget.limit_bytes // ranks)
    return (
        f"{budget.words}{shared}: batches may take {budget.percent} % of it, {room}; "
        f"{batches} (workers x prefetch + {_HELD}) need {bytes_text(wanted.need_bytes(sizes))}"
    )


def _remedy(wanted: _Plan, budget: _Budget, ranks: int, sizes: _Sizes) -> str:
    need = wanted.need_bytes(sizes) * ranks
    mib = -(-need * 100 // (budget.percent << 20))  # rounded up
    return f"{budget.remedy.format(mib=mib)} or lower data.batch_size"


def _reasons(choice: _Choice, method: str) -> List[Setting]:
    plan, workers = choice.plan, choice.plan.workers
    # The numbers are told once.
    again = " for the same reason" if workers < choice.wanted.workers else f": {choice.shortage}"
    if plan.eval_workers:
        why_eval = "at most as many as for training, which stay alive meanwhile"
    else:
        why_eval = f"lowered to 0{again}" if workers else "no workers for training either"
    if not workers:
        why_method = "no workers to start"
    else:
        by_machine = choice.requested.start_method == "auto"
        why_method = _WHY_METHOD[method] if by_machine else "as asked for"
    pin = choice.machine.device_type == "cuda"
    rows = [
        Setting("data.workers", workers, _why_workers(choice)),
        Setting("data.prefetch", plan.prefetch if workers else None, _why_prefetch(choice, again)),
        Setting("eval_workers", plan.eval_workers, why_eval),
        Setting("pin_memory", pin, _WHY_PIN[pin]),
        Setting("data.start_method", method, why_method),
    ]
    return [row for row in rows if choice.has_eval or row.name != "eval_workers"]


def _why_workers(choice: _Choice) -> str:
    measure = choice.machine.cpus
    cpus = f"{measure.value} usable CPU{'s' if measure.value > 1 else ''} ({measure.source})"
    if choice.plan.workers < choice.wanted.workers:
        return f"lowered from {choice.wanted.workers}: {choice.shortage}"
    if choice.requested.workers != "auto":
        return "as asked for"
    if choice.machine.device_type == "cuda":
        return f"{_CPU_PERCENT} % of {cpus}, 1 to {_MOST_WORKERS}; the rest feeds the GPU"
    if choice.plan.workers == 0:
        return f"{cpus}: a worker would only take turns with the training"
    return f"a quarter of {cpus}, 1 to {_MOST_WORKERS_ON_CPU}; the training needs the others"


def _why_prefetch(choice: _Choice, again: str) -> str:
    if choice.plan.workers == 0:
        return "no workers, so nothing is made ahead"
    if choice.plan.prefetch < choice.wanted.prefetch:
        return f"lowered from {choice.wanted.prefetch}{again}"
    if choice.requested.prefetch != "auto":
        return "as asked for"
    if choice.machine.device_type == "cuda":
        return "batches ready per worker: a fast GPU must not notice a slow read"
    return "batches ready per worker: enough for a CPU, and small in memory"


def _lowered(choice: _Choice, cause: str) -> List[str]:
    """A warning where a wish was not granted, or where workers chosen by the machine were lost."""
    requested, wanted, plan = choice.requested, choice.wanted, choice.plan
    changes = []
    if plan.workers < wanted.workers:
        changes.append(f"data.workers is lowered from {wanted.workers} to {plan.workers}")
    if requested.prefetch != "auto" and plan.workers and plan.prefetch < wanted.prefetch:
        changes.append(f"data.prefetch is lowered from {wanted.prefetch} to {plan.prefetch}")
    return [f"{' and '.join(changes)}: {cause}"] if changes else []


def _doubtful(choice: _Choice) -> List[str]:
    """Warnings about wishes that are granted but do harm or nothing."""
    requested, cpus = choice.requested, choice.machine.cpus
    warnings = []
    if requested.workers != "auto" and choice.plan.workers > cpus.value:
        warnings.append(
            f"data.workers={choice.plan.workers} is more than the usable CPUs, {cpus.value} "
            f"({cpus.source}): workers slow each other down; set data.workers=auto"
        )
    if requested.workers == 0 and requested.prefetch != "auto":
        warnings.append(
            f"data.prefetch={requested.prefetch} has no effect with data.workers=0, where each "
            "batch is made in the main process; set data.workers=auto"
        )
    return warnings
