"""status.json of a run: where it is at this moment. `make monitor` reads it.

It is written about once a second, beside and renamed, but never flushed to the disk: nobody needs
it after a crash. Where it can't be written, the run goes on without.
"""

import json
import os
import platform
import time
from pathlib import Path
from typing import Any, Dict, Optional

from train.console import Bar
from train.data.loader import Loader
from train.data.watch import sample_name

EVERY_S = 1.0

NAME = "status.json"

MOST_BYTES = 1 << 24
"""A larger one is none of ours, even with a thousand workers."""


class StatusFile:
    """Keeps the file of one run.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path):
        self._path: Optional[Path] = folder / NAME
        self._last = 0.0
        self._wait_s: Dict[int, float] = {}
        self._done = 0

    def tick(self, bar: Bar, step: int, loader: Loader) -> None:
        """Write it, when it is time for that."""
        now = time.monotonic()
        if self._path is None or now - self._last < EVERY_S:
            return
        elapsed, self._last = now - self._last, now
        done, self._done = bar.done - self._done, bar.done
        wait_s = loader.account.wait_s
        waited = wait_s - self._wait_s.get(id(loader), wait_s)
        self._wait_s = {id(loader): wait_s}
        # Between two passes, and at the first look, there is no speed.
        known = done >= 0 and elapsed < 10 * EVERY_S
        content = {
            "pid": os.getpid(),
            "host": platform.node(),
            "time": time.time(),
            "clock_s": now,  # of the whole machine; nobody sets it
            "title": bar.title,
            "done": bar.done,
            "total": bar.total,
            "step": step,
            "images_per_s": done / elapsed if known else None,
            "wait_share": min(1.0, waited / elapsed) if known else None,
            "loader": _loader(loader),
        }
        beside = self._path.with_name(f".{NAME}.part")
        try:
            beside.write_text(json.dumps(content), encoding="utf-8")
            os.replace(beside, self._path)
        except OSError:
            self._path = None

    def __enter__(self) -> "StatusFile":
        return self

    def __exit__(self, *_: Any) -> None:
        """The run ended: take the file away."""
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError:
                pass


def read_status(run: Path) -> Dict[str, Any]:
    """What stands in the file; empty where there is none, or none that can be read."""
    path = run / NAME
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return {}  # a pipe or a device would be read for ever
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _loader(loader: Loader) -> Dict[str, Any]:
    places = []
    for place in loader.account.places():
        name = None if place.sample is None else sample_name(loader.dataset, place.sample)
        places.append(
            {
                "worker": place.worker,
                "thread": place.thread,
                "sample": name,
                "reading": place.reading,
                "since_s": place.since_s,
                "read_s": place.work.read_s,
                "make_s": place.work.make_s,
                "batches": place.work.batches,
            }
        )
    return {
        "kind": loader.workers_kind if loader.workers else "none",
        "queue": loader.account.queue()._asdict(),
        "workers": places,
    }
