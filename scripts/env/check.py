"""The last check of a new environment: torch imports, and is the build that the locks name.

Usage: check.py OUTPUT PIP_LOCK [CONDA_LOCK]; writes `python=`, `torch=`, `cuda=` lines to OUTPUT.
"""

import platform
import re
import sys


def wanted_cuda(version: str, locks: str) -> str:
    """The CUDA version the build must have: from torch's own tag, else from the conda lock."""
    tag = re.search(r"\+cu(\d+)(\d)$", version)
    if tag:
        return f"{tag.group(1)}.{tag.group(2)}"
    pinned = re.search(r"/pytorch-cuda-(\d+\.\d+)-", locks)
    return pinned.group(1) if pinned else ""


def main() -> int:
    """Compares what runs with what was locked.

    Returns:
        0, or 1 after an `error: ...` line on standard error.
    """
    output, *files = sys.argv[1:]
    locks = ""
    for name in filter(None, files):
        with open(name, encoding="utf-8") as file:
            locks += file.read()
    try:
        import torch
    except Exception as error:  # a broken library raises OSError, a missing one ImportError, ...
        print(f"error: import torch fails: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    version, cuda = str(torch.__version__), torch.version.cuda
    pinned = re.search(r"^torch==([^\s;+]+)", locks, re.MULTILINE)
    if pinned and version.split("+")[0] != pinned.group(1):
        print(f"error: torch is {version}, the lock says {pinned.group(1)}", file=sys.stderr)
        return 1
    wanted = wanted_cuda(version, locks)
    if wanted and cuda != wanted:
        print(f"error: torch {version} is built for CUDA {cuda}, not {wanted}", file=sys.stderr)
        return 1
    with open(output, "w", encoding="utf-8") as file:
        file.write(f"python={platform.python_version()}\ntorch={version}\ncuda={cuda or ''}\n")
    return 0


sys.exit(main())
