"""SIGINT (Ctrl-C), SIGTERM and SIGHUP (a closed terminal).

The first asks the run to save at the next step, the second ends it at once.
"""

import os
import signal
from types import FrameType
from typing import Any, Callable, Dict, Optional

# SIGHUP: the terminal was closed. One that the program was started to ignore (nohup, a job in the
# background) stays ignored.
CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Catches the signals while the run can be saved.

    ```
    with StopRequest(say) as stop:
        ...
        if stop.signum: save and leave
    ```

    Args:
        say: prints one line to the user.
    """

    def __init__(self, say: Callable[[str], None]):
        self.say = say
        self.signum: Optional[int] = None
        self._before: Dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        for signum in CAUGHT:
            if signal.getsignal(signum) == signal.SIG_IGN:
                continue
            self._before[signum] = signal.signal(signum, self._caught)
        return self

    def __exit__(self, *_: Any) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _caught(self, signum: int, _: Optional[FrameType]) -> None:
        if self.signum is not None:
            # No clean-up that could hang; workers end with their parent (data/loader.py).
            os._exit(128 + signum)
        self.signum = signum
        self.say(
            f"{signal.Signals(signum).name}: saving at the next step; "
            "a second one ends at once, unsaved"
        )
