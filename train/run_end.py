"""How a run ends or is left: done, by a signal, without its data; what is saved then, and said."""

import signal

from train.checkpoint import State
from train.console import say
from train.data.shared_ledger import SharedLedger
from train.diverged import Divergence
from train.errors import DataError, DataGone, Interrupted
from train.run_folder import RunFolder
from train.run_output import RunOutput
from train.saving import Saver
from train.signals import WHAT_COMES


class RunEnd:
    """Ends one run.

    Args:
        folder: of the run.
        saver: of the run.
        divergence: no weights are saved that it refuses.
        num_ranks: how many train together.
        output: what the run tells after each epoch.
    """

    def __init__(
        self,
        folder: RunFolder,
        saver: Saver,
        divergence: Divergence,
        num_ranks: int,
        output: RunOutput,
    ):
        self.folder, self.saver, self.divergence = folder, saver, divergence
        self.num_ranks, self.output = num_ranks, output

    def by_signal(self, state: State, signum: int) -> None:
        """Save and end, on all ranks at the same step.

        Raises:
            Interrupted: always.
        """
        if self.num_ranks > 1:
            say(f"{signal.Signals(signum).name}: {WHAT_COMES}")
        what = self._save(state)
        raise Interrupted(signum, f"{what}; go on with:\n  {self.folder.resume_command()}")

    def while_waiting(self, state: State, signum: int) -> None:
        """No batch comes: a signal is heard all the same.

        Raises:
            Interrupted: there was one, and the run could be saved.
        """
        if signum and self._can_save(state):
            self.by_signal(state, signum)

    def without_data(self, state: State, error: DataGone) -> DataGone:
        """The data did not come back: save, where that can be.

        Returns:
            The error, with what was saved and how to go on.
        """
        what = "what was saved before is intact; go on with"
        if self._can_save(state):
            what = f"{self._save(state)}; go on with"
        return DataGone(f"{error}; {what}:\n  {self.folder.resume_command()}")

    def with_way_on(self, error: DataError) -> DataError:
        """The error, with how to go on once it is mended, where anything was saved."""
        if not self.folder.last.exists():
            return error
        way = f"what was saved before is intact; go on with:\n  {self.folder.resume_command()}"
        return DataError(f"{error}\n{way}")

    def tell(self, state: State, stopped_at: int, ledger: SharedLedger) -> None:
        """Say that the run is done.

        Args:
            state: of the run.
            stopped_at: run.max_steps where that ended it, else 0.
            ledger: of bad samples.
        """
        what = f"stopped at run.max_steps={stopped_at}" if stopped_at else "done"
        if state.best_top1 >= 0:
            what += f": best top-1 {state.best_top1:.1%}"
        if len(ledger):
            what += f"; {len(ledger)} bad sample(s), listed in {self.folder.bad_samples}"
        say(what)
        say(f"run       {self.folder.path}")
        say(f"report    {self.folder.path / 'report.html'}")

    def _can_save(self, state: State) -> bool:
        """Whether a save is possible while no batch comes: other ranks are not asked."""
        return self.num_ranks == 1 and not state.in_step

    def _save(self, state: State) -> str:
        self.divergence.refuse()
        self.output.catch_up()
        self.saver.save(state)
        self.output.report()
        if self.saver.problem is not None:
            return f"NOT saved ({self.saver.problem}); the checkpoint before is intact"
        return f"saved at epoch {state.epoch + 1}, step {state.step}"
