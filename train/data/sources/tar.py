"""WebDataset tar shards: indexed once, then read at random, by position.

A sample is what has one stem: `<stem>.jpg` and `<stem>.cls` (its class number in ASCII). The stem
is the whole key with dots written as %2E, so that no program splits it in the wrong place.
"""

import os
from typing import Any, Optional, Sequence

from train.data.sources.handles import Stamp, read_at
from train.data.sources.index import Index, Progress, open_index
from train.data.sources.index_check import Needs
from train.data.sources.pickles import unpickle
from train.data.sources.shards import Opened, ShardSource, collect, refuse_labels
from train.data.sources.tar_keys import quote_key, unquote_key
from train.data.sources.tar_samples import index_samples
from train.errors import BadSample

__all__ = ["TarSource", "open_tar", "quote_key", "unquote_key"]


_NEEDS = Needs(
    columns=("labels", "offsets", "lengths"),
    names=("keys", "skipped"),
    meta={"notes": (list, str)},
)


class TarSource(ShardSource):
    """Samples of WebDataset tar files.

    Args:
        indexes: one a file.
        trust: unpickle; an index that lies beside the data may say anything.
    """

    def __init__(self, indexes: Sequence[Index], trust: bool = False):
        super().__init__(indexes)
        self._trust = trust

    def _read(self, index: Index, row: int) -> Any:
        data = read_at(
            index.container,
            int(index["offsets"][row]),
            int(index["lengths"][row]),
            Stamp(*index.fingerprint),
        )
        if not self._trust or "pickled" not in index or not index["pickled"][row]:
            return data
        image, _ = unpickle(data)
        if image is None:
            raise BadSample("its pickle has no image")
        return image


def open_tar(
    paths: Sequence[str],
    num_classes: Optional[int] = None,
    progress: Optional[Progress] = None,
    trust: bool = False,
) -> Opened:
    """Open tar shards as one source, in the order of their names.

    Args:
        paths: of the shards.
        num_classes: how many classes there are; None: not known.
        progress: called with the number of images found so far, when a shard has no index yet.
        trust: unpickle `.pyd`, `.pickle` and `.pkl` members.

    Raises:
        DataError: a file that is no tar file, or can't be read.
    """

    def opener(path: str, told: Optional[Progress]) -> Index:
        options = {"trust": True} if trust else {}
        return open_index(
            path,
            "tar",
            lambda call: index_samples(path, trust, call),
            progress=told,
            options=options,
            needs=_NEEDS,
        )

    indexes, skipped, notes = collect(sorted(paths, key=os.fsencode), opener, progress)
    source = TarSource(indexes, trust)
    return Opened(refuse_labels(source, num_classes, skipped), skipped, notes)
