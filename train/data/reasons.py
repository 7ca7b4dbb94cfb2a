"""The words of the loader's settings: a reason for each value, and warnings.

Pure functions of the choice that `settings.py` made. No torch here, no files.
"""

from typing import List

from train.config import START_METHODS
from train.data.plan import (
    CPU_PERCENT,
    MEASURED_WHY,
    MOST_WORKERS,
    MOST_WORKERS_ON_CPU,
    Budget,
    Choice,
    Plan,
    Setting,
    Sizes,
)
from train.machine import bytes_text

_WHY_PIN = {
    True: "CUDA copies from page-locked memory while it computes",
    False: "no CUDA device, so no copy that it could speed up",
}
WHY_METHOD = {
    "fork": "workers share the file list without a copy, start fast, and start before CUDA does",
    "forkserver": "as asked for",
    "spawn": "fork is safe on Linux alone",
}


def shortage_text(wanted: Plan, budget: Budget, ranks: int, sizes: Sizes) -> str:
    """Plain words with the numbers: what there is, and what would be needed."""
    count = wanted.in_flight()
    batches = f"{count.train} batches of {bytes_text(sizes.train)}"
    if count.evaluation:
        batches += f" and {count.evaluation} for evaluation of {bytes_text(sizes.evaluation)}"
    shared = f" shared by {ranks} ranks" if ranks > 1 else ""
    room = bytes_text(budget.limit_bytes // ranks)
    return (
        f"{budget.words}{shared}: batches may take {budget.percent} % of it, {room}; "
        f"{batches} (workers x prefetch + {wanted.held}) need "
        f"{bytes_text(wanted.need_bytes(sizes))}"
    )


def remedy_text(wanted: Plan, budget: Budget, ranks: int, sizes: Sizes) -> str:
    """How to make the wanted plan fit: so much more room, or smaller batches."""
    need = wanted.need_bytes(sizes) * ranks
    mib = -(-need * 100 // (budget.percent << 20))  # rounded up
    return f"{budget.remedy.format(mib=mib)} or lower data.batch_size"


def reasons(choice: Choice) -> List[Setting]:
    """One row for each setting, in the order in which they are printed."""
    plan, workers = choice.plan, choice.plan.workers
    # The numbers are told once.
    again = " for the same reason" if workers < choice.wanted.workers else f": {choice.shortage}"
    if plan.eval_workers:
        why_eval = "at most as many as for training, which stay alive meanwhile"
    else:
        why_eval = f"lowered to 0{again}" if workers else "no workers for training either"
    pin = choice.machine.device_type == "cuda"
    rows = [
        Setting("data.workers", workers, _why_workers(choice)),
        Setting("data.prefetch", plan.prefetch if workers else None, _why_prefetch(choice, again)),
        Setting("data.workers_kind", choice.kind, _why_kind(choice)),
        Setting("eval_workers", plan.eval_workers, why_eval),
        Setting("pin_memory", pin, _WHY_PIN[pin]),
        Setting("start method", choice.method, _why_method(choice)),
    ]
    return [row for row in rows if choice.has_eval or row.name != "eval_workers"]


def _why_kind(choice: Choice) -> str:
    if choice.plan.workers == 0:
        return "no workers to start"
    if choice.requested.kind != "auto":
        return "as asked for"
    if choice.requested.known is not None:
        return _why_known(choice, "workers_kind")
    if choice.requested.own_samples:
        return "Python code of your own runs side by side in processes alone"
    return MEASURED_WHY


def _why_known(choice: Choice, name: str) -> str:
    """The reason that tuning gave, told once: at the first setting that it chose."""
    asked, known = choice.requested, choice.requested.known
    chosen = [
        one for one in ("workers", "prefetch", "workers_kind") if getattr(asked, one) == "auto"
    ]
    return known.reason if known is not None and chosen[:1] == [name] else "tuned with it"


def _why_method(choice: Choice) -> str:
    if choice.plan.workers == 0:
        return "no workers to start"
    if choice.kind == "thread":
        return "not used: threads are not started as processes"
    if choice.requested.workers_kind in START_METHODS:
        return "as asked for"
    return WHY_METHOD[choice.method]


def _why_workers(choice: Choice) -> str:
    outside = ""
    if choice.shm_words and choice.plan.workers:
        outside = (
            f"; their batches lie outside /dev/shm, which could not hold them ({choice.shm_words})"
        )
    return _why_so_many(choice) + outside


def _why_so_many(choice: Choice) -> str:
    measure = choice.machine.cpus
    cpus = f"{measure.value} usable CPU{'s' if measure.value > 1 else ''} ({measure.source})"
    if choice.plan.workers < choice.wanted.workers:
        return f"lowered from {choice.wanted.workers}: {choice.shortage}"
    if choice.requested.workers != "auto":
        return "as asked for"
    if choice.requested.known is not None:
        return _why_known(choice, "workers")
    if choice.machine.device_type == "cuda":
        return f"{CPU_PERCENT} % of {cpus}, 1 to {MOST_WORKERS}; the rest feeds the GPU"
    if choice.plan.workers == 0:
        return f"{cpus}: a worker would only take turns with the training"
    return f"a quarter of {cpus}, 1 to {MOST_WORKERS_ON_CPU}; the training needs the others"


def _why_prefetch(choice: Choice, again: str) -> str:
    if choice.plan.workers == 0:
        return "no workers, so nothing is made ahead"
    if choice.plan.prefetch < choice.wanted.prefetch:
        return f"lowered from {choice.wanted.prefetch}{again}"
    if choice.requested.prefetch != "auto":
        return "as asked for"
    if choice.requested.known is not None:
        return _why_known(choice, "prefetch")
    if choice.machine.device_type == "cuda":
        return "batches ready per worker: a fast GPU must not notice a slow read"
    return "batches ready per worker: enough for a CPU, and small in memory"


def lowered(choice: Choice, cause: str) -> List[str]:
    """A warning where a wish was not granted, or where workers chosen by the machine were lost."""
    requested, wanted, plan = choice.requested, choice.wanted, choice.plan
    changes = []
    if plan.workers < wanted.workers:
        changes.append(f"data.workers is lowered from {wanted.workers} to {plan.workers}")
    if requested.prefetch != "auto" and plan.workers and plan.prefetch < wanted.prefetch:
        changes.append(f"data.prefetch is lowered from {wanted.prefetch} to {plan.prefetch}")
    return [f"{' and '.join(changes)}: {cause}"] if changes else []


def doubtful(choice: Choice) -> List[str]:
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
