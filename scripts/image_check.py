"""The last step of an image's build: what stands in the image is what the lock says, and it runs.

Run inside the image by its user, with the environment's Python; see the Dockerfile.
"""

import json
import os
import sys
from pathlib import Path


def faults() -> list:
    """What is wrong, one line each."""
    made = json.loads(Path(sys.prefix, "wellfed.json").read_text(encoding="utf-8"))
    found = []
    if made["state"] != "ready":
        found.append(f"the environment is {made['state']}, expected ready")
    import torch

    if not torch.version.cuda:
        found.append(f"torch {torch.__version__} is a build without CUDA")
    for name, is_now in (("torch", str(torch.__version__)), ("cuda", torch.version.cuda)):
        if made[name] != is_now:
            found.append(f"{name} is {is_now}, the lock gave {made[name]}")
    import train

    if Path(train.__file__).resolve().parents[1] != Path(made["checkout"]):
        found.append(f"train is imported from {train.__file__}, expected {made['checkout']}")
    for path in ("/opt", sys.prefix, made["checkout"], "/opt/docker"):
        if os.access(path, os.W_OK):
            found.append(f"{path} can be written by user {os.getuid()}, expected read-only")
    if not found:
        print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, Python {made['python']}")
    return found


if __name__ == "__main__":
    wrong = faults()
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    sys.exit(2 if wrong else 0)
