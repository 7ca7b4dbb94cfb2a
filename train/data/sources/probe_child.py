"""The child of probe.py: runs one scan and says on stdout how it went, a JSON object a line.

Started as a file, so that nothing of the package is imported: it is to start in a moment.
"""

import ctypes
import importlib.util
import json
import os
import resource
import signal
import sys
from typing import Any, Dict

MEMORY_BYTES = 2 << 30
"""What a scan may take beside 8 bytes for each of the file: a record's place takes 40."""

_PR_SET_PDEATHSIG = 1  # Linux, sys/prctl.h


def main() -> None:
    """Scan the container `argv[4]` with the module `argv[3]`; arrays go to the file `argv[5]`."""
    import numpy as np

    scan_path, container, arrays_path = sys.argv[3:6]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash here is an answer, not a report
    # A damaged size may ask for all the memory there is, and the system might end another process.
    if sys.platform == "linux":
        _limit_memory(MEMORY_BYTES, container)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides, and kills
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    spec = importlib.util.spec_from_file_location("scan", scan_path)
    module: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    try:
        arrays, meta = module.scan(container, lambda count: _say({"found": count}))
        np.savez(arrays_path, **arrays)
        _say({"meta": meta})
    except ImportError as error:
        _say({"missing": error.name})
    except module.Damaged as error:
        _say({"damaged": str(error)})
    except module.Refused as error:
        _say({"refused": str(error)})


def _limit_memory(more: int, container: str) -> None:
    """Allow so many bytes of addresses beyond what the libraries and their threads have taken."""
    if os.path.exists(container):
        more += 8 * os.path.getsize(container)
    with open("/proc/self/statm", encoding="ascii") as file:
        most = int(file.read().split()[0]) * resource.getpagesize() + more
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _say(answer: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
