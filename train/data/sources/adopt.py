"""From somebody else's data set to records, where its encoded files or its pixels can be had.

Nothing is imported that the program has not imported already: who passes a data set of torchvision
or of Hugging Face has their package loaded.
"""

import sys
from typing import Any, NamedTuple, Tuple

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Subset as TorchSubset

from train.data.sources import Subset
from train.errors import ConfigError


class Adopted(NamedTuple):
    """What became of a data set.

    Attributes:
        data: a source of records; or the data set itself, whose samples torch puts together.
        classes: their names; empty where nobody knows them.
        how: how its images are made, for people.
    """

    data: Any
    classes: Tuple[str, ...]
    how: str


def adopt(data: Any) -> Adopted:
    """Find the quickest way to the images of a data set.

    Args:
        data: a source, a data set of torchvision or of Hugging Face, a `Subset` of one, or any
            map-style data set whose items are (image, label).

    Raises:
        ConfigError: it is no data set with an index, or its columns are not clear.
    """
    if is_source(data):
        return Adopted(data, (), "records")
    if isinstance(data, TorchSubset):
        whole = adopt(data.dataset)
        if is_source(whole.data):
            return whole._replace(data=Subset(whole.data, data.indices))  # type: ignore[arg-type]
        return whole._replace(data=data)
    if _is_of(data, "datasets", "Dataset", "IterableDataset", "DatasetDict", "IterableDatasetDict"):
        from train.data.sources.hf_source import adopt_hugging_face

        return Adopted(*adopt_hugging_face(data))
    if _is_of(data, "torchvision.datasets", "VisionDataset"):
        from train.data.sources.torchvision_source import adopt_torchvision

        return Adopted(*adopt_torchvision(data))
    _refuse(data)
    return Adopted(data, (), "its own samples, put together by torch")


def is_source(data: Any) -> bool:
    """A source has keys."""
    return hasattr(data, "key")


def _is_of(data: Any, module: str, *names: str) -> bool:
    loaded = sys.modules.get(module)
    kinds = tuple(getattr(loaded, name) for name in names if hasattr(loaded, name))
    return isinstance(data, kinds)


def _refuse(data: Any) -> None:
    kind = type(data).__name__
    if isinstance(data, DataLoader):
        raise ConfigError(
            f"build_loader got a {kind}, which makes batches itself; pass its data set: "
            "loader.dataset"
        )
    if isinstance(data, IterableDataset):
        raise ConfigError(
            f"build_loader got a {kind}, an IterableDataset: it has no index, so it can't be "
            "shuffled exactly or resumed; expected a path or a data set with __len__ and "
            "__getitem__"
        )
    missing = [name for name in ("__len__", "__getitem__") if not hasattr(type(data), name)]
    if missing or isinstance(data, (dict, bytes)):
        why = f", which has no {' and no '.join(missing)}" if missing else ""
        raise ConfigError(
            f"build_loader got a {kind}{why}; expected a path, or a data set whose items are "
            "(image, label)"
        )
