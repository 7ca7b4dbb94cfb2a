"""What can go wrong, as one small tree.

Each message says what, where, what was expected and what to do.

```
TrainError                exit code 2, message without a traceback
|- ConfigError            a setting is unknown, of the wrong type, or contradicts another
|- DataError              the data is missing, unreadable, or too much of it is bad
|  `- DataGone            it was there and is gone, for so long that the run no longer waits
|- CheckpointError        a checkpoint is torn, foreign, or does not fit this run
`- SetupError             the machine or the environment lacks something (disk, package, device)
Interrupted               a signal ended the run after it was saved: exit code 128 + signal
BadSample                 one sample is unusable: it goes into the ledger, the run goes on
```

Every exception takes ONE string: the loader re-raises what a worker raised by calling the type with
the message.
"""

import signal


class TrainError(Exception):
    """A mistake that the user can mend; `python -m train` prints it and exits with code 2."""


class ConfigError(TrainError, ValueError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another one."""


class DataError(TrainError):
    """The data is missing, unreadable, or more of it is bad than the budget allows."""


class DataGone(DataError):
    """What a run reads from was there and is gone, longer than workers wait for it."""


class CheckpointError(TrainError):
    """A checkpoint is missing, torn, of another format, or does not fit this run."""


class SetupError(TrainError):
    """The machine or the environment lacks something: disk space, a package, a device."""


class BadSample(Exception):
    """One sample's stored bytes are damaged, or no usable image; the message is the reason.

    No TrainError: it never ends a run. Whoever makes batches catches it, writes the sample's key
    and this reason into the ledger of bad samples, and puts another sample in its place.
    """


class Interrupted(Exception):
    """SIGINT or SIGTERM ended the run; its state was saved before.

    Args:
        signum: the signal's number; the process exits with 128 + signum (130 for Ctrl-C, 143 for
            SIGTERM).
        message: what was saved, and the command that goes on from there.
    """

    def __init__(self, signum: int, message: str):
        super().__init__(message)
        self.signum = signum

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells report it."""
        return 128 + int(self.signum)

    @property
    def signal_name(self) -> str:
        """For example 'SIGTERM'."""
        return signal.Signals(self.signum).name
