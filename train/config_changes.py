"""Settings that changed: since a checkpoint was written, since an older version of the program."""

from typing import Any, Dict, List

# These decide how a run is carried out, not what it computes: a resumed run may change them.
FREE_ON_RESUME = frozenset(
    {
        "data.path",  # the folder may have moved; the checkpoint compares its classes and size
        "data.workers",
        "data.prefetch",
        "data.workers_kind",
        "data.bad_budget",
        "run.folder",
        "run.checkpoint_minutes",
        "run.max_steps",
        "run.resume",
        "run.device",
    }
)

RETIRED = {
    "data.start_method": "it is part of data.workers_kind now: fork, forkserver or spawn there "
    "start processes in that way, and process is what auto was; take data.start_method out",
}
"""Settings of before, each with what to do; runs that were begun with one go on."""


def conflicts(saved: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """Lines 'key: saved -> now' for each setting that changes what a resumed run computes."""
    return [
        f"{key}: {saved.get(key)!r} -> {now.get(key)!r}"
        for key in sorted(set(saved) | set(now))
        if key not in FREE_ON_RESUME and key not in RETIRED and saved.get(key) != now.get(key)
    ]
