"""Asks, within four seconds, whether the conda way's two servers answer.

Exit code 0: both do. Exit code 1: the first line printed says which does not, and why.
"""

import os
import sys
import threading
import urllib.request
from urllib.parse import urlsplit

SECONDS = 4.0
# small pages that the conda way's servers must have; ENV_PROBE names others (a mirror, a test)
ADDRESSES = (
    "https://conda.anaconda.org/conda-forge/noarch/repodata.json.zst",
    "https://download.pytorch.org/whl/cu118/torch/",
)


def ask(address: str, answers: dict) -> None:
    """Notes under the address what went wrong, or an empty text; reads no more than the headers."""
    try:
        with urllib.request.urlopen(address, timeout=SECONDS):
            answers[address] = ""
    except Exception as error:  # whatever it is, it means "not reachable", and the text says why
        answers[address] = str(getattr(error, "reason", error)) or type(error).__name__


def main() -> int:
    """Asks all addresses at once; a look-up that hangs is left behind when the time is over."""
    addresses = os.environ.get("ENV_PROBE", "").split() or ADDRESSES
    answers: dict = {}
    threads = [threading.Thread(target=ask, args=(a, answers), daemon=True) for a in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    for address in addresses:
        why = answers.get(address, f"no answer within {SECONDS:.0f} s")
        if why:
            print(f"{urlsplit(address).hostname} does not answer ({why})"[:200])
            return 1
    return 0


code = main()
sys.stdout.flush()
os._exit(code)  # a thread stuck in a name look-up must not hold us
