"""The ledger of bad samples of all ranks: each finds its own, all count all, rank 0 writes."""

from pathlib import Path
from typing import Any, Iterable, List, Tuple

from train.console import say
from train.data.batch import Bad, Batch
from train.data.ledger import Ledger
from train.dist import Group
from train.files import disk_error


class SharedLedger:
    """Bad samples of a run.

    What a rank finds waits until the ranks agree that some of them found something; then all add
    the same entries in the same order, so the budget ends all of them at the same step.

    Args:
        path: the file; rank 0 alone reads and writes it.
        num_samples: of the data set, training and validation together.
        budget: share of num_samples that may be bad.
        group: all ranks.
    """

    def __init__(self, path: Path, num_samples: int, budget: float, group: Group):
        self.path, self._group = path, group
        self.ledger = Ledger(path if group.is_first else None, num_samples, budget)
        # A resumed run goes on with what it knew.
        self.ledger.entries = dict(group.share(self.ledger.entries))
        self._waiting: List[Tuple[str, Bad]] = []
        self._problem = False

    def __len__(self) -> int:
        return len(self.ledger)

    @property
    def waiting(self) -> bool:
        """Something was found that the other ranks do not know of."""
        return bool(self._waiting)

    def note(self, split: str, batch: Batch) -> None:
        """Take what a batch found: "train" or "val"."""
        if not batch.bad:
            return
        if self._group.size == 1:
            self.add(split, batch.bad)
        else:
            self._waiting += [(split, item) for item in batch.bad]

    def exchange(self) -> None:
        """Add what all ranks found; all of them call this, or none.

        Raises:
            DataError: the budget is exceeded, on all ranks.
        """
        waiting, self._waiting = self._waiting, []
        for rank, found in enumerate(self._group.gather(waiting)):
            for split, item in found:
                self.add(split, [item], rank)

    def add(self, split: str, items: Iterable[Bad], rank: int = 0) -> None:
        """Write down what is new and say it.

        Raises:
            DataError: the budget is exceeded.
        """
        before = len(self.ledger)
        try:
            new = self.ledger.add(split, items, rank)
        except OSError as error:
            new = len(self.ledger) - before
            if not self._problem:
                say(f"warning: {disk_error(self.path, error)}. The run goes on")
            self._problem = True
        if new:
            name, reason = list(self.ledger.entries.items())[before]
            say(
                f"bad sample {name!a}: {reason}"
                + (f" (and {new - 1} more)" if new > 1 else "")
                + f"; {len(self.ledger)} so far, {self.ledger.allowed} allowed, "
                f"all in {self.path}"
            )


def broken_links(skipped: Iterable[Any]) -> List[Bad]:
    """Broken links are samples that can't be read: on the ledger, and counted for the budget."""
    broken = [item for item in skipped if item.reason == "broken_symlink"]
    return [Bad(-1, item.key, f"broken link: {item.detail}") for item in broken]
