"""How long and how fast: optimizer steps, the learning rate at each, batches of a step."""

from typing import List, NamedTuple, Optional, Sequence

from train.checkpoint import State
from train.model import learning_rate


class Schedule(NamedTuple):
    """How long and how fast.

    Attributes:
        total_steps, warmup_steps: optimizer steps of the whole run.
        peak_lr: highest learning rate.
        accumulate: batches per step.
        label_smoothing: share of the target spread over all classes.
        max_steps: stop after so many steps; None: at the end.
        epochs: of the whole run.
        ema: decay of the mean of the weights; None: there is none.
    """

    total_steps: int
    warmup_steps: int
    peak_lr: float
    accumulate: int
    label_smoothing: float
    max_steps: Optional[int]
    epochs: int = 1
    ema: Optional[float] = None

    def lr(self, state: State) -> float:
        """Learning rate of the next step."""
        return learning_rate(
            state.step - state.skipped_steps + state.schedule_shift,
            self.total_steps,
            self.warmup_steps,
            self.peak_lr,
        )

    def shift_to(self, state: State, share: float) -> None:
        """Go on at the same share of the run, where another number of steps makes an epoch now.

        Args:
            state: at the beginning or in the middle of an epoch.
            share: of its epoch that is done.
        """
        per_epoch = self.total_steps / self.epochs
        place = round((state.epoch + share) * per_epoch)
        state.schedule_shift = place - (state.step - state.skipped_steps)


def windows(batch_sizes: Sequence[int], accumulate: int) -> List[List[int]]:
    """Group the batches of an epoch into optimizer steps; the last window may be shorter."""
    return [list(batch_sizes[i : i + accumulate]) for i in range(0, len(batch_sizes), accumulate)]
