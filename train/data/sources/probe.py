"""Opens a container in a process of its own, where the library that reads it may crash.

A damaged file can kill whoever reads it (SIGSEGV, SIGBUS). So the first reading, which makes the
index, is done by a child: its death is a message that names the file.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Optional

import numpy as np

from train.data.sources.index import Built, Progress
from train.errors import DataError, SetupError

SILENCE_S = 120.0
"""A child that says nothing for so long is ended: its disk no longer answers, or it hangs."""

_BOOT = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "runpy.run_path(sys.argv[2], run_name='__main__')"
)


def probe(scan: str, container: str, progress: Optional[Progress] = None) -> Built:
    """Run the `scan(path, report)` of a module that lies here, in a child.

    Args:
        scan: name of the module; it imports nothing of this package, so that it starts fast.
        container: the file.
        progress: called with the number of records found so far.

    Returns:
        What `scan` returned: arrays and a small dict.

    Raises:
        DataError: the child died, found damage, or no longer answered.
        SetupError: a package is missing.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory(prefix="wellfed-probe-") as folder:
        arrays = os.path.join(folder, "arrays.npz")
        command = [sys.executable, "-I", "-c", _BOOT, json.dumps(sys.path)]
        command += [os.path.join(here, "probe_child.py"), os.path.join(here, scan + ".py")]
        command += [container, arrays]
        with open(os.path.join(folder, "errors"), "w+b") as errors:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
            try:
                answer = _listen(child, container, progress)
                status = child.wait(SILENCE_S)
            finally:
                child.kill()
                child.wait()
                child.stdout.close()  # type: ignore[union-attr]
            errors.seek(0)
            said = errors.read()[-2000:].decode("utf-8", "replace").strip()
        _check(answer, status, container, said)
        with np.load(arrays, allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}, answer["meta"]


def _listen(
    child: "subprocess.Popen[bytes]", container: str, progress: Optional[Progress]
) -> Dict[str, Any]:
    """Follow the child's lines, JSON objects, to the last one."""
    descriptor = child.stdout.fileno()  # type: ignore[union-attr]
    pending = b""
    answer: Dict[str, Any] = {}
    heard = time.monotonic()
    while True:
        ready, _, _ = select.select([descriptor], [], [], 1.0)
        if not ready:
            if time.monotonic() - heard > SILENCE_S:
                raise DataError(
                    f"reading {container!r} gave no answer for {SILENCE_S:.0f} s; "
                    "is its disk still mounted?"
                )
            continue
        heard = time.monotonic()
        block = os.read(descriptor, 1 << 16)
        if not block:
            return answer
        *lines, pending = (pending + block).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if "found" in answer and progress is not None:
                progress(answer["found"])


def _check(answer: Dict[str, Any], status: int, container: str, said: str) -> None:
    advice = "copy it again from where it came, or pack it again"
    if "damaged" in answer:
        raise DataError(f"{container!r} can't be used: {answer['damaged']}; {advice}")
    if "refused" in answer:
        raise DataError(f"{container!r} can't be used: {answer['refused']}")
    if "missing" in answer:
        raise SetupError(f"the package {answer['missing']!r} is needed to read {container!r}")
    if status < 0:
        raise DataError(
            f"{container!r} is damaged: reading it killed the reading process "
            f"({signal.strsignal(-status)}); {advice}"
        )
    if status != 0 or "meta" not in answer:
        last = said.splitlines()[-1] if said else f"exit code {status}"
        raise DataError(f"{container!r} can't be read: {last}")
