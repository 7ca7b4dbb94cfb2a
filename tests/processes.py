"""Which processes a test has started, read from /proc."""

import os
import threading
import time
from pathlib import Path


def children(pid=None):
    """Processes whose parent is `pid` (default: this process), zombies left out."""
    wanted, found = str(os.getpid() if pid is None else pid), []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue  # it ended meanwhile
            state, parent = text.rsplit(")", 1)[1].split()[:2]
            if parent == wanted and state != "Z":
                found.append(int(entry))
    return sorted(found)


def workers():
    """Processes below this one, without the two helpers that multiprocessing keeps for itself."""
    found = []
    for child in children():
        if _is_helper(child):
            found += children(child)
        else:
            found.append(child)
    return sorted(found)


def threads():
    """Threads of this process that make batches."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("loader worker")]


def alive(pid):
    """Whether a process still runs; a zombie does not."""
    try:
        text = Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] not in "ZX"


def wait_until(condition, seconds=30.0):
    """Wait for something that must come; False when it did not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def _is_helper(pid):
    try:
        line = Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return True
    return b"resource_tracker" in line or b"multiprocessing.forkserver" in line
