"""Runs one job in a process of its own, listens to it, and leaves nothing of it behind."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Optional

TICK_S = 0.1

SILENT_S = 330.0
"""A job that says nothing for so long is ended: longer than a loader waits for its workers."""

GRACE_S = 5.0
"""What a job gets to end by itself: a pack keeps what it has written."""

_BOOT = (
    "import json, os, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from train.bench.child import main; code = main(); sys.stdout.flush(); os._exit(code)"
)
"""Ends at once: libraries that tidy up for seconds would share the CPUs with the next arm."""


class JobFailed(Exception):
    """A job gave no result; the message is the reason."""


class Stopped(Exception):
    """A signal came while a job ran; the job was ended."""


def run_job(
    job: Dict[str, Any],
    stopped: Callable[[], bool],
    listen: Callable[[Dict[str, Any]], None] = lambda _: None,
    tick: Callable[[], None] = lambda: None,
    silent_s: float = SILENT_S,
) -> Dict[str, Any]:
    """Run a job of child.py.

    Args:
        job: what to do.
        stopped: whether a signal came; asked ten times a second.
        listen: called with each line of progress.
        tick: called ten times a second.
        silent_s: it is ended when nothing comes for so long.

    Returns:
        The job's result.

    Raises:
        JobFailed: it ended without a result, or said why it has none.
        Stopped: a signal came.
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as said:
        process: Optional[subprocess.Popen[bytes]] = None
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(sys.path), str(writing)],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                start_new_session=True,  # Ctrl-C is for us: we end it
            )
            os.close(writing)
            writing = -1
            with contextlib.suppress(BrokenPipeError):
                assert process.stdin is not None
                process.stdin.write(json.dumps(job).encode())
                process.stdin.close()
            last = _listen(process, reading, stopped, listen, tick, silent_s)
        finally:
            if process is not None:
                _end(process)
            os.close(reading)
            if writing >= 0:
                os.close(writing)
        if "result" in last:
            return dict(last["result"])
        said.seek(0)
        raise JobFailed(last.get("error") or _why(process, said.read()[-4000:]))


def _listen(
    process: "subprocess.Popen[bytes]",
    descriptor: int,
    stopped: Callable[[], bool],
    listen: Callable[[Dict[str, Any]], None],
    tick: Callable[[], None],
    silent_s: float,
) -> Dict[str, Any]:
    """Follow a job's lines to its result, its error, or its end."""
    pending, heard = b"", time.monotonic()
    while True:
        if stopped():
            raise Stopped
        tick()
        ready, _, _ = select.select([descriptor], [], [], TICK_S)
        if not ready:
            # Its workers may hold the pipe open when it is dead.
            if process.poll() is not None:
                return {}
            if time.monotonic() - heard > silent_s:
                return {"error": f"nothing came from it for {silent_s:.0f} s"}
            continue
        heard = time.monotonic()
        block = os.read(descriptor, 1 << 16)
        if not block:
            return {}
        *lines, pending = (pending + block).split(b"\n")
        for line in lines:
            content = json.loads(line)
            if "result" in content or "error" in content:
                return dict(content)
            listen(content)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """See a job and all its workers end."""
    if process.poll() is None:
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + GRACE_S
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < until:  # the next arm is not to share its CPUs with them
            os.killpg(process.pid, 0)
            time.sleep(0.02)


def _why(process: "Optional[subprocess.Popen[bytes]]", said: bytes) -> str:
    """Why a job ended without a word."""
    code = process.returncode if process is not None else 0
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    if code < 0:
        hint = "; most often memory ran out" if code == -signal.SIGKILL else ""
        return f"its process was killed by signal {signal.strsignal(-code)}{hint}"
    return lines[-1].strip()[:300] if lines else f"its process ended with code {code}"
