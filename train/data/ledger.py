"""The ledger of bad samples: they never end a run by themselves and never pass silently.

Each one is written down once (key, reason, rank), counted in the log, and replaced (training) or
left out of the counts (evaluation). Past the budget the run stops with the list.
"""

import json
import math
import os
from pathlib import Path
from typing import Any, Dict, Iterable, Optional

from train.data.batch import Bad
from train.errors import DataError


class Ledger:
    """Bad samples of one run.

    Args:
        path: the file to append to, one JSON object a line; None keeps them in memory only.
        num_samples: of the data set, training and validation together.
        budget: share of num_samples that may be bad; the allowed number is rounded up.
    """

    def __init__(self, path: Optional[Path], num_samples: int, budget: float):
        self.path = path
        self.num_samples = num_samples
        self.budget = budget
        # 0.07 * 100 is 7.000000000000001 in binary: without rounding one more would be allowed.
        self.allowed = math.ceil(round(budget * num_samples, 6))
        self.entries: Dict[str, str] = {}
        if path is not None and path.exists():  # a resumed run goes on with what it knew
            for line in path.read_text("utf-8", errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                    self.entries[str(entry["key"])] = str(entry["reason"])
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue  # a line torn by a crash: its sample is met again and written again

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, split: str, items: Iterable[Bad], rank: int = 0) -> int:
        """Write down what is new.

        Args:
            split: "train" or "val".
            items: bad samples of one batch or of the scan.
            rank: who found them.

        Returns:
            How many were new.

        Raises:
            DataError: the budget is exceeded; the message has the first ten and names the file with
                all.
            OSError: the ledger can't be written (a full disk).
        """
        new, problem = 0, None
        for item in items:
            key = f"{split}:{item.key}"
            if key in self.entries:
                continue
            self.entries[key] = item.reason
            new += 1
            try:
                self._append(
                    {"key": key, "index": item.sample, "reason": item.reason, "rank": rank}
                )
            except OSError as error:
                problem = error  # counted all the same
        if new and len(self.entries) > self.allowed:
            raise DataError(self._over_budget())
        if problem is not None:
            raise problem
        return new

    def _append(self, entry: Dict[str, Any]) -> None:
        if self.path is None:
            return
        with open(self.path, "ab+") as file:
            torn = file.tell() > 0 and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n"
            file.write((b"\n" if torn else b"") + json.dumps(entry).encode() + b"\n")

    def _over_budget(self) -> str:
        first = list(self.entries.items())[:10]
        lines = "".join(f"\n  {key!a}: {reason}" for key, reason in first)
        more = (
            f"\n  ... and {len(self.entries) - len(first)} more"
            if len(self.entries) > len(first)
            else ""
        )
        where = f"\nAll of them: {self.path}" if self.path is not None else ""
        return (
            f"{len(self.entries)} of {self.num_samples} samples are bad, more than the "
            f"{self.allowed} that data.bad_budget={self.budget:g} allows; "
            f"mend or remove them, or raise the budget:{lines}{more}{where}"
        )
