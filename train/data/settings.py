"""Choose the loader's settings from the machine, each with its reason.

A pure function of what was asked for and what the machine offers: no torch, no files. "auto" means
what `train tune` has found, and where it has found nothing, that the machine decides by rules. What
was asked for is kept, unless the batches in flight would not fit: too much memory kills the run, so
the settings are lowered before the start, with the numbers and the remedy.

Our own batches are not in /dev/shm (ring.py). Samples of a user's own data set are collated to
tensors, and those do travel through it: a full /dev/shm kills workers with a bus error.
"""

from dataclasses import replace
from typing import Callable, Optional

from train.config import START_METHODS
from train.data.plan import (
    CPU_PERCENT,
    MEASURED_KIND,
    MOST_WORKERS,
    MOST_WORKERS_ON_CPU,
    Budget,
    Choice,
    Known,
    LoaderSettings,
    MachineView,
    Plan,
    Requested,
    Setting,
    Sizes,
    held,
)
from train.data.reasons import doubtful, lowered, reasons, remedy_text, shortage_text
from train.errors import ConfigError
from train.machine import bytes_text

__all__ = ["Known", "LoaderSettings", "MachineView", "Requested", "Setting", "choose"]

_SHM_PERCENT = 80  # the rest for other users of /dev/shm, such as NCCL
_MEMORY_PERCENT = 20  # the rest for model, optimizer, decoding, and the page cache of the files


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
    sizes = Sizes(batch_bytes, eval_batch_bytes)
    kind = requested.kind
    if kind == "auto" and requested.known is not None:
        kind = requested.known.workers_kind
    elif kind == "auto":
        kind = "process" if requested.own_samples else MEASURED_KIND
    through_shm = requested.own_samples and kind == "process"
    wanted, budget = _wanted(requested, machine, sizes), _tightest_budget(machine, through_shm)
    plan, shortage, remedy = wanted, "", ""
    if budget is not None:
        ranks = machine.local_ranks
        plan = _fit(wanted, budget.limit_bytes // ranks, sizes)
        if plan != wanted:
            shortage = shortage_text(wanted, budget, ranks, sizes)
            remedy = remedy_text(wanted, budget, ranks, sizes)
    method = requested.workers_kind
    if method not in START_METHODS:
        method = "fork" if machine.platform.startswith("linux") else "spawn"
    choice = Choice(
        requested,
        machine,
        wanted,
        plan,
        shortage,
        eval_batch_bytes > 0,
        kind,
        method,
        "" if through_shm else _small_shm(machine, plan.need_bytes(sizes)),
    )
    return LoaderSettings(
        workers=plan.workers,
        prefetch=plan.prefetch if plan.workers else None,
        eval_workers=plan.eval_workers,
        eval_prefetch=plan.prefetch if plan.eval_workers else None,
        pin_memory=machine.device_type == "cuda",
        start_method=method,
        reasons=reasons(choice),
        warnings=lowered(choice, f"{shortage}; {remedy}") + doubtful(choice),
        workers_kind=kind,
    )


def _small_shm(machine: MachineView, need_bytes: int) -> str:
    """How small /dev/shm is, where PyTorch's own way of passing batches would not fit into it."""
    shm = machine.shm_free_bytes
    if not machine.platform.startswith("linux") or need_bytes <= shm.value * _SHM_PERCENT // 100:
        return ""
    return f"{bytes_text(shm.value)} of /dev/shm free"


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
    methods = ("spawn",) if machine.platform == "win32" else START_METHODS
    kinds = ["auto", "thread", "process", *methods]
    if requested.workers_kind not in kinds:
        raise ConfigError(
            f"data.workers_kind must be one of {', '.join(kinds)} on this system, got "
            f"{requested.workers_kind!r}; set data.workers_kind=auto to let the program decide"
        )


def _wanted(requested: Requested, machine: MachineView, sizes: Sizes) -> Plan:
    cpus = machine.cpus.value
    if machine.device_type == "cuda":
        by_machine, prefetch = min(MOST_WORKERS, max(1, cpus * CPU_PERCENT // 100)), 4
    elif cpus == 1:
        by_machine, prefetch = 0, 2
    else:
        by_machine, prefetch = min(MOST_WORKERS_ON_CPU, max(1, cpus // 4)), 2
    if requested.known is not None:  # of a run with as many workers, if they were set
        by_machine, prefetch = requested.known.workers, requested.known.prefetch or prefetch
    workers = by_machine if requested.workers == "auto" else int(requested.workers)
    if requested.prefetch != "auto":
        prefetch = int(requested.prefetch)
    eval_workers = min(workers, max(1, by_machine)) if sizes.evaluation else 0
    # Of a user's own samples only a copy is page-locked and held; /dev/shm is free again.
    in_hand = held(machine.device_type == "cuda" and not requested.own_samples)
    return Plan(workers, eval_workers, prefetch, in_hand)


def _tightest_budget(machine: MachineView, through_shm: bool) -> Optional[Budget]:
    """The budget that binds: memory, or /dev/shm where batches travel through it."""
    budgets = []
    shm, memory = machine.shm_free_bytes, machine.memory_bytes
    if through_shm and machine.platform.startswith("linux"):
        words = f"{bytes_text(shm.value)} of /dev/shm free ({shm.source})"
        remedy = "give /dev/shm {mib} MiB (docker run --shm-size={mib}m, compose shm_size: {mib}m)"
        budgets.append(Budget(shm.value * _SHM_PERCENT // 100, _SHM_PERCENT, words, remedy))
    if memory.value > 0:
        words = f"{bytes_text(memory.value)} of memory ({memory.source})"
        remedy = "allow {mib} MiB of memory (docker run --memory={mib}m, compose mem_limit: {mib}m)"
        limit = memory.value * _MEMORY_PERCENT // 100
        budgets.append(Budget(limit, _MEMORY_PERCENT, words, remedy))
    return min(budgets, default=None)


def _fit(wanted: Plan, room_bytes: int, sizes: Sizes) -> Plan:
    def largest(most: int, plan_of: Callable[[int], Plan]) -> int:
        """The largest number up to `most` whose plan fits, by bisection; 0 where none does."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if plan_of(middle).need_bytes(sizes) <= room_bytes:
                low = middle
            else:
                high = middle - 1
        return low

    def with_evaluation(workers: int) -> Plan:
        return Plan(workers, min(workers, wanted.eval_workers), 1, wanted.held)

    prefetch = largest(wanted.prefetch, lambda count: replace(wanted, prefetch=count))
    if prefetch:
        return replace(wanted, prefetch=prefetch)
    workers = largest(wanted.workers, with_evaluation)
    if workers:
        return with_evaluation(workers)
    # Evaluation is the smaller part of an epoch: better that it waits than the training.
    trained = largest(wanted.workers, lambda count: Plan(count, 0, 1, wanted.held))
    return Plan(trained, 0, 1, wanted.held)
