"""One start of a run, as a person would start it, with all processes that come from it."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import processes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT_S = 300.0
"""Whatever a run does, it does it within this time, or it hangs."""

LEFT_S = 30.0
"""How long processes may stay behind the one that was killed: ranks without torchrun save."""


class Hung(Exception):
    """What must come did not come."""


class Life:
    """A run from a start to its death or its end. Use it as a context: nothing is left running.

    Args:
        number: of this start.
        words: arguments of `train fit`.
        folder: for traces and what it prints.
        size: ranks; more than one are started by train.launch.
        threads: of PyTorch, each rank.
        restarts: how often train.launch may start the ranks again.
    """

    def __init__(self, number, words, folder, size=1, threads=1, restarts=0):
        self.number, self.size, self.folder = number, size, folder
        self.traces, self.log = folder / "traces", folder / f"{number}.log"
        self.traces.mkdir(parents=True, exist_ok=True)
        self._mark = f"CHAOS_MARK={os.getpid()}-{time.monotonic_ns()}"
        name, value = self._mark.split("=")
        launch = ["-m", "train.launch", "--standalone", f"--nproc-per-node={size}"]
        launch += [f"--max-restarts={restarts}", "--monitor-interval=0.2"]
        program = [*(launch if size > 1 else []), str(HERE / "chaos_rank.py")]
        env = {
            **os.environ,
            name: value,
            "CHAOS_TRACE": str(self.traces),
            "CHAOS_LIFE": str(number),
            **{f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL")},
            "OMP_WAIT_POLICY": "PASSIVE",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }
        with open(self.log, "w") as file:
            self.process = subprocess.Popen(
                [sys.executable, *program, *words],
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self._lines, self._places = {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill_all()
        self.process.wait()

    def lines(self, attempt=None, rank=0):
        """What a rank has written so far, in its last attempt."""
        attempt = self.attempt() if attempt is None else attempt
        path = self.traces / f"{self.number}-{attempt}-{rank}.jsonl"
        found = self._lines.setdefault(path, [])
        try:
            with open(path) as file:
                file.seek(self._places.get(path, 0))
                while True:
                    line = file.readline()
                    if not line.endswith("\n"):
                        return found
                    found.append(json.loads(line))
                    self._places[path] = file.tell()
        except FileNotFoundError:
            return found

    def attempt(self):
        """How often torchrun has started the ranks again."""
        number = 0
        while (self.traces / f"{self.number}-{number + 1}-0.jsonl").exists():
            number += 1
        return number

    def ranks(self):
        """Process ids of the ranks that have begun, by rank."""
        found = {}
        for rank in range(self.size):
            for line in self.lines(rank=rank)[:1]:
                if processes.alive(line["pid"]):
                    found[rank] = line["pid"]
        return found

    def workers(self):
        """Process ids of all ranks' workers."""
        return [pid for rank in self.ranks().values() for pid in processes.children(rank)]

    def pids(self):
        """All processes that come from this start."""
        found, mark = [], self._mark.encode()
        for entry in os.listdir("/proc"):
            if entry.isdigit() and processes.alive(entry):
                try:
                    content = Path("/proc", entry, "environ").read_bytes()
                except OSError:
                    continue  # it ended meanwhile, or is another user's
                if mark in content.split(b"\0"):
                    found.append(int(entry))
        return found

    def kill(self, pid):
        """Kill one process of this start; False: it was gone."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def kill_all(self, draw=None):
        """Kill all of them at once, in any order, and what they start meanwhile; how many."""
        killed = 0
        while True:
            found = self.pids()
            if not found:
                return killed
            (draw or random).shuffle(found)
            killed += sum(self.kill(pid) for pid in found)
            self.process.poll()  # or it would be a zombie for ever

    def ended(self):
        """Whether the process that was started has ended."""
        return self.process.poll() is not None

    def wait(self, condition, what, seconds=LIMIT_S):
        """Wait until something holds, or the run has ended; whether it holds.

        Raises:
            Hung: neither came.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            if self.ended():
                return bool(condition())
            time.sleep(0.003)
        raise Hung(f"start {self.number}: waited {seconds:.0f} s for {what}; {self.tail()}")

    def end(self):
        """Wait for its end and for the last process of it; the exit code.

        Raises:
            Hung: it doesn't end, or something stays behind.
        """
        self.wait(lambda: False, "its end")
        if not processes.wait_until(lambda: not self.pids(), LEFT_S):
            raise Hung(f"start {self.number}: left behind: {self.pids()}; {self.tail()}")
        return self.process.returncode

    def tail(self):
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-1500:]
