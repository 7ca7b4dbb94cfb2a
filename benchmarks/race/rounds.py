"""Runs arms: each in a process group of its own, with a bounded time, in interleaved rounds."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from typing import Optional

from race.measure import STARTED

ARM_S = 90
"""Longest time of one arm in one round beside the measurement itself."""
GRACE_S = 1.5
"""What an ended arm's helpers get to tidy up, before they are killed."""
KILLED_S = 1.0
"""What the kernel gets to end killed processes: the next arm is not to share its CPUs with them."""

# What would change what is loaded, or hide a peer's own packages.
_DROPPED = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "LD_PRELOAD", "VIRTUAL_ENV")


def _end_group(group):
    """See a process group end: what does not go by itself in a moment is killed."""
    with contextlib.suppress(ProcessLookupError):
        for number, wait_s in ((0, GRACE_S), (signal.SIGKILL, KILLED_S)):
            os.killpg(group, number)
            until = time.monotonic() + wait_s
            while time.monotonic() < until:
                time.sleep(0.02)
                os.killpg(group, 0)


def run(command, limit_s):
    """Run a command in its own process group.

    Returns:
        (the last line of JSON that it printed, or None; why there is none, or None).
    """
    environment = {key: value for key, value in os.environ.items() if key not in _DROPPED}
    environment.update(PYTHONNOUSERSITE="1", PYTHONWARNINGS="ignore")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        environment[STARTED] = repr(time.monotonic())
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
            cwd=tempfile.gettempdir(),
            env=environment,
        )
        try:
            process.wait(limit_s)
            late = ""
        except subprocess.TimeoutExpired:
            late = f"took longer than {limit_s:.0f} s"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        except BaseException:  # Ctrl-C: nothing of the arm stays behind
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        _end_group(process.pid)
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    for line in reversed(texts[0].splitlines()):
        if line.startswith("{"):
            return json.loads(line), None
    if process.returncode == 0 and not late:
        return None, None
    said = [line.strip() for line in texts[1].splitlines() if line.strip()]
    return None, late or (said[-1][:300] if said else f"exit code {process.returncode}")


def race(prepared, rounds, seconds, say, limit_s: Optional[float] = None):
    """Run all arms once a round, in turn, and give every result as it comes.

    Every other round goes backwards, so that no arm always follows the same one.

    Yields:
        (arm, round, result or None, reason or None).
    """
    limit_s = limit_s or ARM_S + seconds * 4
    for number in range(rounds):
        begin = time.monotonic()
        order = prepared if number % 2 == 0 else prepared[::-1]
        for place, ready in enumerate(order):
            result, why = run([*ready.command, "--seconds", str(seconds)], limit_s)
            if result is None and why is None:
                why = "it ended without a result"
            shown = f"{result['images_per_s']:,.0f} images/s" if result else f"failed: {why}"
            say(f"[{number + 1}/{rounds}, {place + 1}/{len(order)}] {ready.arm.name}: {shown}")
            yield ready.arm, number, result, why
        left = (time.monotonic() - begin) * (rounds - number - 1)
        if left:
            say(f"round {number + 1} of {rounds} done; about {left / 60:.0f} minutes left")
