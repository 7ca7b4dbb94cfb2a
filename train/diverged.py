"""Finds the batch whose loss was the first that is no number, and writes down what was in it."""

import json
from collections import deque
from pathlib import Path
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional

import torch

from train.dist import ALONE, Group
from train.errors import SetupError, TrainError
from train.files import write_whole

_KEPT = 2  # batches written down: the one before may have broken the weights


class _Seen(NamedTuple):
    epoch: int
    step: int
    indices: Any


class Divergence:
    """Watches the loss of each training batch without waiting for the device.

    Args:
        device: where the losses are.
        group: all ranks: a broken gradient reaches all of them at once, so the first batch counts.
        path: file for the list; None: none is written.
        key: names a sample by its index.

    Attributes:
        found: this rank had such a loss, as `look` last saw it.
    """

    def __init__(
        self,
        device: torch.device,
        group: Group = ALONE,
        path: Optional[Path] = None,
        key: Callable[[int], str] = str,
    ):
        self.found = False
        self._group, self._path, self._key = group, path, key
        self._count = 0
        self._first = torch.full((), -1, dtype=torch.int64, device=device)
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._recent: Deque[_Seen] = deque()

    def note(self, loss: torch.Tensor, epoch: int, step: int, indices: Any) -> None:
        """Take one batch's loss.

        Args:
            loss: its sum, a scalar on the device.
            epoch: from 0.
            step: from 1.
            indices: int64 (B,), samples of the batch.
        """
        new = ~loss.isfinite() & (self._first < 0)
        self._first = torch.where(new, self._count, self._first)
        self._loss = torch.where(new, loss.double(), self._loss)
        self._recent.append(_Seen(epoch, step, indices))
        self._count += 1

    def look(self) -> None:
        """Wait for the device and see.

        Raises:
            TrainError: see `refuse`; where there are other ranks, `found` is for the caller.
        """
        self._read()
        if self.found and self._group.size == 1:
            self.refuse()

    def _read(self) -> None:
        self.found = int(self._first) >= 0
        while not self.found and len(self._recent) > _KEPT - 1:
            self._recent.popleft()

    def refuse(self) -> None:
        """End the run where a rank found one; all ranks call this, or none.

        Raises:
            TrainError: says at which step and what to lower, and where the list is.
        """
        self._read()
        reports = [report for report in self._group.gather(self._report()) if report is not None]
        if not reports:
            return
        first = min(reports, key=lambda report: (report["step"], report["rank"]))
        where = ""
        if self._path is not None:
            where = f"; the batch and the one before it are listed in {self._path}"
            if self._group.is_first:
                try:
                    write_whole(self._path, json.dumps(first, indent=1).encode())
                except SetupError as error:
                    where = f"; its samples: {_short(first['batches'][-1]['keys'])} ({error})"
        raise TrainError(
            f"the training loss is {first['loss']} at epoch {first['epoch'] + 1}, step "
            f"{first['step']}: the model diverged; lower optim.lr or raise optim.warmup_epochs. "
            f"What was saved before is intact{where}"
        )

    def _report(self) -> Optional[Dict[str, Any]]:
        if not self.found:
            return None
        oldest = self._count - len(self._recent)
        place = int(self._first) - oldest
        seen = list(self._recent)[max(0, place - _KEPT + 1) : place + 1]
        batches = [
            {
                "epoch": batch.epoch,
                "step": batch.step,
                "indices": batch.indices.tolist(),
                "keys": [self._key(index) for index in batch.indices.tolist()],
            }
            for batch in seen
        ]
        return {
            "rank": self._group.rank,
            "epoch": seen[-1].epoch,
            "step": seen[-1].step,
            "loss": str(float(self._loss)),
            "batches": batches,
        }


def _short(keys: List[str]) -> str:
    return ", ".join(keys[:8]) + (" ..." if len(keys) > 8 else "")
