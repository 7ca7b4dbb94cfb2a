"""What a run tells after each epoch: a line, a row of metrics.jsonl, curves, loggers, the report.

None of it ends a run: where the disk is full the rows wait, and are written with the next one.
"""

import time
from typing import Any, Dict, List, Optional

from train.console import say
from train.errors import SetupError
from train.files import disk_error
from train.loggers import Loggers
from train.metrics import epoch_line, scalars
from train.report import write_report
from train.run_folder import RunFolder

REPORT_S = 60.0
"""Seconds between two report pages: drawing one takes as long as many steps."""


class RunOutput:
    """Writes for one run.

    ```
    with RunOutput(folder, is_first=True) as output: ...
    ```

    Args:
        folder: of the run.
        is_first: this is rank 0; the others write nothing.
    """

    def __init__(self, folder: RunFolder, is_first: bool):
        self.folder, self._is_first = folder, is_first
        self._rows: List[Dict[str, Any]] = []
        self._board: Any = None
        self._loggers = Loggers(folder.path, folder.config)
        self._reported_at = time.monotonic()
        self._problem: Optional[str] = None

    def __enter__(self) -> "RunOutput":
        if self._is_first:
            # Late: its import is slow.
            from train.curves import Curves

            try:
                self._board = Curves(self.folder.tensorboard)
            except OSError as error:
                raise disk_error(self.folder.tensorboard, error) from None
            try:
                self._loggers.__enter__()
            except SetupError:
                self._board.close()
                raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._loggers.__exit__(*error)
        board, self._board = self._board, None
        if board is not None:
            try:
                board.close()
            except OSError as problem:
                self._warn(disk_error(self.folder.tensorboard, problem))

    def epoch(self, row: Dict[str, Any], epochs: int) -> None:
        """Tell and write one epoch."""
        if not self._is_first:
            return
        say(epoch_line(row, epochs), indent=10, unit="  ")
        self._rows.append(row)
        self.catch_up()
        try:
            self._board.add(scalars(row), row["epoch"])
        except OSError as error:
            self._warn(disk_error(self.folder.tensorboard, error))
        self._loggers.epoch(row)
        if time.monotonic() - self._reported_at > REPORT_S:
            self.report()

    def report(self) -> None:
        """Draw the report of what was written so far."""
        if not self._is_first:
            return
        self.catch_up()
        try:
            write_report(self.folder.path)
        except SetupError as error:
            self._warn(error)
        except OSError as error:
            self._warn(disk_error(self.folder.path / "report.html", error))
        self._reported_at = time.monotonic()

    def catch_up(self) -> None:
        """Write the rows that wait; called before each save, which a resumed run begins behind."""
        try:
            while self._rows:
                self.folder.append_metrics(self._rows[0])
                del self._rows[0]
        except SetupError as error:
            self._warn(error)

    def _warn(self, error: SetupError) -> None:
        if self._problem is None:
            say(f"warning: {error}. The run goes on")
        self._problem = str(error)
