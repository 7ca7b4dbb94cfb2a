"""`--dataset module:function`: found, called, and what it returns looked at."""

import contextlib
import os
from importlib.machinery import PathFinder
from typing import Any, Iterator, List, NamedTuple, NoReturn

from torch.utils.data import DataLoader, IterableDataset

from train.doctor.own_data import kind_of
from train.errors import ConfigError, DataError
from train.own_code import find, place, told


class Opened(NamedTuple):
    """What making the data set did to this process.

    Attributes:
        dataset: what the function returned.
        left_open: data files that it left open.
    """

    dataset: Any
    left_open: List[str]


def make_dataset(name: str) -> Opened:
    """Call `module:function`; modules of the current folder are found, too.

    Raises:
        ConfigError: there is no such module or function, or what it returns is no map-style data
            set.
        DataError: it raised something.
    """
    with ending_is_told():
        function = find("--dataset", name, "a data set")
    before = set(_open_files())
    try:
        with ending_is_told():
            dataset = function()
    except (Exception, SystemExit) as error:
        raise DataError(
            f"--dataset {name}: calling it raised {told(error)}{place(error)}"
        ) from error
    _check(name, dataset)
    return Opened(dataset, sorted(set(_open_files()) - before))


@contextlib.contextmanager
def ending_is_told() -> Iterator[None]:
    """`os._exit` of a user's code raises in this process, which would end without a word."""
    end, owner = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != owner:  # a process of theirs or of multiprocessing's ends as it likes
            end(status)
        raise SystemExit(f"os._exit({status}), which would end this process, too")

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = end


def needs_pythonpath(name: str) -> bool:
    """The module of `module:function` lies in a folder of PYTHONPATH; nothing is imported."""
    top = name.partition(":")[0].partition(".")[0]
    folders = [os.path.abspath(f) for f in os.environ.get("PYTHONPATH", "").split(os.pathsep) if f]
    found = PathFinder.find_spec(top, [os.getcwd(), *folders]) if folders else None
    if found is None:
        return False
    places = found.submodule_search_locations or [found.origin or ""]
    return any(os.path.dirname(os.path.abspath(place)) in folders for place in places)


def _check(name: str, dataset: Any) -> None:
    said = f"--dataset {name}: what it returns is {kind_of(dataset)}"
    if isinstance(dataset, DataLoader):
        raise ConfigError(f"{said}; return the data set that it is made of (loader.dataset)")
    if isinstance(dataset, IterableDataset):
        raise ConfigError(
            f"{said}, an IterableDataset: it has no index, and only map-style data sets "
            "(__len__ and __getitem__) can be examined"
        )
    if isinstance(dataset, (tuple, dict, str, bytes)):
        raise ConfigError(f"{said}; return one data set, the one to train on")
    missing = [word for word in ("__len__", "__getitem__") if not hasattr(type(dataset), word)]
    if missing:
        raise ConfigError(f"{said}, which has no {' and no '.join(missing)}: no map-style data set")
    try:
        count = len(dataset)
    except Exception as error:
        raise ConfigError(
            f"{said}, of which len() raised {told(error)}; it must say how many samples there are"
        ) from error
    if count < 2:
        raise ConfigError(f"{said} of {count} samples; at least 2 are needed")


_NOT_DATA = (".py", ".pyc", ".so", ".pyd", ".pth")


def _open_files() -> List[str]:
    """Regular files that this process has open, but for programs."""
    found: List[str] = []
    try:
        descriptors = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for descriptor in descriptors:
        try:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
        if os.path.isfile(path) and not path.endswith(_NOT_DATA) and ".so." not in path:
            found.append(path)
    return found
