"""numba, set up for this program: how kernels are compiled, and where the machine code is kept.

Importing this imports numba (0.3 s), so modules of the line import it when they first need a
kernel.
"""

import hashlib
import os
import stat
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable, List, Sequence, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def cache_folder() -> Path:
    """A folder of this user's for compiled kernels: of the cache, else a temporary one.

    numba unpickles what it finds there, so a folder that somebody else could have filled is never
    taken.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    wanted = Path(base) / "wellfed" / "numba"
    if _usable(wanted):
        return wanted
    shared = Path(tempfile.gettempdir()) / f"wellfed-numba-{os.getuid()}"
    folder = shared if _usable(shared) else Path(tempfile.mkdtemp(prefix="wellfed-numba-"))
    warnings.warn(
        f"{wanted} cannot be written, so compiled kernels are kept in {folder}; to keep them "
        "elsewhere, set NUMBA_CACHE_DIR",
        stacklevel=2,
    )
    return folder


def _usable(folder: Path) -> bool:
    """Whether the folder is there, or could be made, and only this user writes to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.stat(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return False
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def kernel(signature: str) -> Callable[[_Function], _Function]:
    """Compile a function for one signature, at import; the second program takes it from the cache.

    Kernels release the GIL. They use no `fastmath`: the same bytes on every machine.

    Args:
        signature: in numba's words, for example "void(uint8[::1], int64)".
    """
    return numba.njit(signature, nogil=True, cache=True, error_model="numpy")


def sources() -> List[Path]:
    """The files that kernels are in."""
    here = Path(__file__).parent
    folders = (here / "jpeg").glob("*.py"), (here / "coefficients").glob("*.py")
    return sorted({*here.rglob("*kernels.py"), *folders[0], *folders[1]})


def version(files: Sequence[Path]) -> str:
    """A short name for what stands in the files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


_base = os.environ.get("NUMBA_CACHE_DIR") or str(cache_folder())
os.environ["NUMBA_CACHE_DIR"] = _base  # worker processes inherit it

import numba  # noqa: E402  it reads the variable

# numba compiles a kernel again when its own file changes, but not when one does whose kernels it
# calls: each version of the files gets a folder.
numba.config.CACHE_DIR = os.path.join(_base, f"wellfed-{version(sources())}")
