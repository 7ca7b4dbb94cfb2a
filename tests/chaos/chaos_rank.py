"""`train fit` of one rank as it is, but that it writes down what it does: the trace.

A line is one `write`, so a killed process loses none that it had written. Nothing is changed in
what is computed; each line is written when the thing is done, or is about to begin ("saving").
"""

import json
import os
import signal
import sys
from pathlib import Path

from chaos_trace import digest_of

RANK = int(os.environ.get("RANK", "0"))
ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


class Trace:
    """The file of this rank in this attempt of this life."""

    def __init__(self, folder, life):
        path = Path(folder, f"{life}-{ATTEMPT}-{RANK}.jsonl")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)

    def __call__(self, at, **what):
        os.write(self._file, json.dumps({"at": at, **what}).encode() + b"\n")


class Stops:
    """Stops this process inside a save, between two calls of the system, where it is asked to.

    Somebody who looks from outside is too late to kill it just there. A file asks for it, with the
    number of the call.
    """

    CALLS = ("fsync", "link", "replace")

    def __init__(self, folder, trace):
        self._asked, self._trace, self._left = Path(folder, "stop"), trace, 0
        for name in self.CALLS:
            setattr(os, name, self._counted(getattr(os, name)))

    def __enter__(self):
        try:
            self._left = int(self._asked.read_text()) if RANK == 0 else 0
            self._asked.unlink()
        except (OSError, ValueError):
            self._left = 0
        self._first = True

    def __exit__(self, *_):
        if self._left > 0:  # there were not so many
            self._stop()

    def _counted(self, call):
        def counted(*words, **options):
            if self._left > 0:
                self._left -= 1
                if self._left == 0:
                    if self._first and call.__name__ == "fsync":
                        self._stop_half_written(words[0])
                    else:
                        self._stop()
                self._first = False
            return call(*words, **options)

        return counted

    def _stop_half_written(self, file):
        half = os.fstat(file).st_size // 2
        rest = Path(f"/proc/self/fd/{file}").read_bytes()[half:]
        os.ftruncate(file, half)
        self._stop()
        os.pwrite(file, rest, half)  # somebody else was killed, and this process goes on writing

    def _stop(self):
        self._left = 0
        self._trace("stopped")
        os.kill(os.getpid(), signal.SIGSTOP)


def watch(trace, stops):
    """Let the parts of a run tell what they do."""
    import torch

    from train import loop
    from train.checkpoint_file import Rotation
    from train.data.batch import NO_LABEL
    from train.data.shared_ledger import SharedLedger

    samples, step, note = [], loop._step, SharedLedger.note
    write, read = Rotation.write, Rotation.read

    def noted(self, split, batch):
        if split == "train":
            counts = (batch.labels != NO_LABEL).numpy()
            samples.extend(batch.indices[counts].tolist())
        note(self, split, batch)

    def stepped(state):
        done = step(state)
        where = {"step": state.step + 1, "epoch": state.epoch, "seen": state.samples_seen}
        trace("step", **where, samples=list(samples))
        samples.clear()
        return done

    def written(self, content, is_best=False):
        what = digest_of(content)
        trace("saving", digest=what)
        try:
            with stops:
                write(self, content, is_best)
        except BaseException as error:
            trace("unsaved", why=type(error).__name__)
            raise
        trace("saved", digest=what)

    def found(self, say):
        path, content = read(self, say)
        trace("loaded", digest=digest_of(content), name=path.name)
        return path, content

    loop._step, Rotation.write, Rotation.read = stepped, written, found
    SharedLedger.note = noted
    trace("begin", pid=os.getpid(), size=int(os.environ.get("WORLD_SIZE", "1")))
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])


def main():
    folder = os.environ["CHAOS_TRACE"]
    trace = Trace(folder, os.environ["CHAOS_LIFE"])
    watch(trace, Stops(folder, trace))
    from train.__main__ import main as train

    return train(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
