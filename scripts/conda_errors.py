"""Say in one line what a failed conda install means: what, where, expected, what to do."""

import re
import shutil
from pathlib import Path
from typing import Tuple
from urllib.parse import urlsplit

NETWORK = (
    r"error sending request|connect|timed out|dns error|server error|body|unexpected eof|reset"
)


def _free(folder: Path) -> str:
    while not folder.exists():
        folder = folder.parent
    return f"{shutil.disk_usage(folder).free / 2**20:.0f} MiB free in {folder}"


def _first(pattern: str, text: str, default: str = "") -> str:
    found = re.search(pattern, text)
    return found.group(1) if found else default


def explain(
    text: str, cache: Path, prefix: Path, missing: int, need_mib: float
) -> Tuple[str, bool]:
    """Turn rattler's error into one line.

    Args:
        text: the error with its causes.
        cache: where packages are fetched to.
        prefix: where they are installed.
        missing: number of packages that aren't installed yet.
        need_mib: the least they still take on the disk, as far as known.

    Returns:
        The message, and whether trying again can help.
    """
    flat = " ".join(text.split())
    url = _first(r"(https?://[^\s)]+)", flat)
    host = urlsplit(url).netloc if url else "the channel"
    package = _first(
        r"failed to (?:fetch|link|install|unlink) (\S+?)(?:\.conda|\.tar\.bz2)?(?=\s|$)", flat
    )
    package = package or url.rsplit("/", 1)[-1] or "a package"
    low = flat.lower()
    if "hash mismatch" in low:
        wanted, got = _first(r"expected ([0-9a-f]+)", flat), _first(r"got ([0-9a-f]+)", flat)
        return (
            f"wrong hash: {package} has {got}, the lock expects {wanted} ({url}); the channel or a "
            "proxy serves another file: do not install it by other means",
            False,
        )
    if re.search(r"no space left|os error 28|quota exceeded|os error 122", low):
        return (
            f"the disk is full at {package}: {_free(cache)}, {_free(prefix)}; "
            f"the {missing} packages that are missing take at least {need_mib:.0f} MiB more; "
            "free some space and run the same again",
            False,
        )
    status = _first(r"(?:HTTP status [a-z ]*error )\(?(\d{3})", flat)
    if status in ("404", "410"):
        return (
            f"package gone: {url} answers {status}; "
            "lock again (make lock) or use a mirror that has it",
            False,
        )
    if status and not status.startswith("5"):
        return (
            f"{host} refuses {url} with status {status}; check the proxy and your rights there",
            False,
        )
    if re.search(r"invalid peer certificate|certificate|unknownissuer", low):
        return (
            f"the certificate of {host} is not trusted; set SSL_CERT_FILE to your network's file",
            False,
        )
    if "permission denied" in low or "os error 13" in low or "read-only file system" in low:
        return (f"cannot write at {package}: {_first(r'Caused by: (.*)', flat, flat)[:200]}", False)
    if re.search(NETWORK, low):
        cause = flat.rsplit("Caused by:", 1)[-1].strip()
        return (
            f"no network: cannot fetch {package} from {host} ({cause}); "
            "check the connection and HTTPS_PROXY",
            True,
        )
    return (f"installing {package} failed: {flat[:400]}", False)
