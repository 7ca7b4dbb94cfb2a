"""What can be seen of a data set without reading a sample: handles, pickles, large lists.

Each check takes the data set and gives its findings.
"""

import io
import pickle
import sys
from typing import Any, Iterator, List, NamedTuple, Sequence, Set, Tuple

from train.doctor.findings import Finding

LARGE_PICKLE_BYTES = 50_000_000
MANY_OBJECTS = 100_000
"""Items of a Python container from which on copied memory pages are worth a word: about 10 MB."""

_HANDLES: Tuple[Tuple[str, str, str], ...] = (
    ("h5py", "File", "HDF5 file"),
    ("h5py", "Group", "HDF5 group"),
    ("h5py", "Dataset", "HDF5 data set"),
    ("lmdb", "Environment", "LMDB environment"),
    ("lmdb", "Transaction", "LMDB transaction"),
    ("zipfile", "ZipFile", "zip file"),
    ("tarfile", "TarFile", "tar file"),
    ("sqlite3", "Connection", "SQLite connection"),
    ("socket", "socket", "socket"),
    ("tables", "File", "PyTables file"),
    ("netCDF4", "Dataset", "netCDF file"),
)


class Held(NamedTuple):
    """Something that a data set holds, and how to get to it: `dataset.files[0]`."""

    path: str
    value: Any


def attributes(dataset: Any, deepest: int = 4, most: int = 5000) -> Iterator[Held]:
    """All that a data set holds, through attributes and the first items of containers."""
    waiting: List[Tuple[str, Any, int]] = [("dataset", dataset, 0)]
    seen: Set[int] = set()
    while waiting and len(seen) < most:
        path, value, depth = waiting.pop(0)
        if id(value) in seen or isinstance(value, (str, bytes, int, float, type(None), type)):
            continue
        seen.add(id(value))
        yield Held(path, value)
        if depth >= deepest:
            continue
        inside = getattr(value, "__dict__", None)
        if isinstance(inside, dict) and type(value).__module__ not in ("h5py._hl.files", "lmdb"):
            waiting += [(f"{path}.{name}", one, depth + 1) for name, one in list(inside.items())]
        if isinstance(value, dict):
            first = list(value.items())[:50]
            waiting += [(f"{path}[{key!r}]", one, depth + 1) for key, one in first]
        elif isinstance(value, (list, tuple)):
            first_items = list(enumerate(value[:50]))
            waiting += [(f"{path}[{number}]", one, depth + 1) for number, one in first_items]


def open_handles(dataset: Any, left_open: Sequence[str] = ()) -> List[Finding]:
    """Handles that are open in the parent: forked workers would share one position.

    Args:
        dataset: it.
        left_open: files that were open after it was made, and not before.
    """
    named = []
    for path, value in attributes(dataset):
        kind = _open_handle(value)
        if kind:
            named.append(f"{path} ({kind})")
    if not named and not left_open:
        return []
    shown = ", ".join(named[:3]) or ", ".join(left_open[:3])
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return [
        Finding(
            "open in the parent",
            True,
            f"{shown}{more}: forked workers share its position and its locks, and read each "
            "other's bytes or hang; spawned ones can't have it at all",
            "open it at first use, in the process that reads: keep the path in __init__, and in "
            "__getitem__ `if self._file is None: self._file = open(...)`",
        )
    ]


def _open_handle(value: Any) -> str:
    """What kind of open handle it is; '' for anything else."""
    if isinstance(value, io.IOBase):
        if isinstance(value, (io.BytesIO, io.StringIO)) or value.closed:
            return ""
        return "open file"
    for module, name, kind in _HANDLES:
        known = getattr(sys.modules.get(module), name, None)
        if isinstance(known, type) and isinstance(value, known):
            return "" if _closed(value) else kind
    return ""


def _closed(value: Any) -> bool:
    try:
        if type(value).__module__.startswith("h5py"):
            return not bool(value)  # h5py objects are true while they are open
        if type(value).__module__ == "zipfile":
            return value.fp is None
        if type(value).__module__ == "lmdb" or type(value).__module__.startswith("lmdb."):
            if type(value).__name__ == "Environment":
                value.info()
            return False
        return bool(getattr(value, "closed", False))
    except Exception:  # what can't even be asked was closed
        return True


class _Counter(io.RawIOBase):
    """Counts what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.count += size
        return size


def pickled_bytes(value: Any) -> int:
    """Size of its pickle, which is not kept; raises what pickle raises."""
    counter = _Counter()
    pickle.Pickler(counter, pickle.HIGHEST_PROTOCOL).dump(value)
    return counter.count


def pickling(dataset: Any, start_method: str) -> List[Finding]:
    """Whether it can be sent to a new process, and how much that is.

    Args:
        dataset: it.
        start_method: of the workers.
    """
    try:
        size = pickled_bytes(dataset)
    except Exception as error:
        serious = start_method != "fork"
        culprit = next((held for held in _deepest_first(dataset) if not _pickles(held.value)), None)
        where = f"{culprit.path} ({_named(culprit.value)})" if culprit else type(error).__name__
        now = f"data.workers_kind is {start_method}" if serious else "forked workers need no pickle"
        return [
            Finding(
                "does not pickle",
                serious,
                f"{where} can't be sent to a process that is spawned ({str(error)[:100]}); {now}",
                "a function with a name, at the top of a module, in place of a lambda or an inner "
                "function; or leave data.workers_kind=fork",
            )
        ]
    if size <= LARGE_PICKLE_BYTES:
        return []
    return [
        Finding(
            "large pickle",
            start_method != "fork",
            f"the data set is a pickle of {size / 1e6:,.0f} MB: each worker that is spawned "
            "receives and unpacks it before its first sample",
            "keep arrays in files and open them with numpy.memmap at first use; names in one NumPy "
            "array of bytes",
        )
    ]


def _deepest_first(dataset: Any) -> List[Held]:
    return sorted(
        attributes(dataset), key=lambda held: -held.path.count(".") - held.path.count("[")
    )


def _pickles(value: Any) -> bool:
    try:
        pickled_bytes(value)
    except Exception:
        return False
    return True


def _named(value: Any) -> str:
    code = getattr(value, "__code__", None)
    if code is None:
        return type(value).__name__
    name = "lambda" if value.__name__ == "<lambda>" else value.__qualname__
    return f"{name}, {code.co_filename}:{code.co_firstlineno}"


def large_containers(dataset: Any) -> List[Finding]:
    """Python containers of many objects: their reference counts copy pages in forked workers."""
    found = []
    for path, value in attributes(dataset):
        if isinstance(value, (list, tuple, dict, set)) and len(value) >= MANY_OBJECTS:
            found.append(f"{path} ({type(value).__name__} of {len(value):,})")
    if not found:
        return []
    return [
        Finding(
            "many Python objects",
            True,
            f"{', '.join(found[:3])}: reading an item changes its reference count, which copies "
            "the memory page it lies in; the memory of each worker grows with every epoch",
            "keep them in NumPy arrays (names as one array of bytes, numpy.array(names, 'S'))",
        )
    ]
