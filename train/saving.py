"""When a run is saved: all ranks at the same step, rank 0 writes; a full disk ends nothing."""

import time
from typing import Optional

from train.checkpoint import Identity, State, content_of, rank_content
from train.checkpoint_file import Rotation, pack
from train.console import say
from train.dist import Group
from train.errors import SetupError


class Saver:
    """Saves one run.

    Args:
        rotation: its checkpoints.
        identity: what they belong to.
        group: all ranks.

    Attributes:
        saved_at: when it was last tried, `time.monotonic()`.
        problem: why the last try failed, on rank 0; None: it did not.
    """

    def __init__(self, rotation: Rotation, identity: Identity, group: Group):
        self.rotation, self.identity, self._group = rotation, identity, group
        self.saved_at = time.monotonic()
        self.problem: Optional[str] = None
        self._best: Optional[bytes] = None  # a best one that could not be written yet

    def save(self, state: State, is_best: bool = False) -> None:
        """Save; all ranks call this at the same step.

        Where it can't be written the run goes on, says so once, and the next save tries again. The
        best one waits in memory until then: the weights go on, and no later save would have it.
        """
        ranks = self._group.gather(rank_content(state))
        if self._group.is_first:
            content = pack(content_of(state, self.identity, ranks))
            if is_best:
                self._best = None  # this one is better
            try:
                if self._best is not None:
                    self.rotation.write_best(self._best)
                    self._best = None
                self.rotation.write(content, is_best)
            except SetupError as error:
                if is_best:
                    self._best = content
                if self.problem is None:
                    say(f"warning: {error}. The run goes on; the next save tries again")
                self.problem = str(error)
            else:
                if self.problem is not None:
                    say(f"saved again: epoch {state.epoch + 1}, step {state.step}")
                self.problem = None
        self.saved_at = time.monotonic()

    def finish(self, state: State) -> None:
        """At the end of a run: what could not be saved must be now.

        Raises:
            SetupError: it can't.
        """
        if self._group.agree([int(self.problem is not None)])[0]:
            self.save(state)
        if self.problem is not None:
            raise SetupError(f"the end of the run is not saved: {self.problem}")
