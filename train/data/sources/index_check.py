"""Whether an index can be used. Its checksum only says that it is as it was written.

Whoever can write beside the data can write an index, and versions of ours may differ.
"""

from typing import Any, Dict, NamedTuple, Tuple

import numpy as np


class Needs(NamedTuple):
    """What an index of some kind must hold.

    Attributes:
        columns: arrays of one number a record; none is below 0 but "labels".
        optional: columns that are there all or not at all.
        names: blocks of `Names`: "keys" has one a record, "skipped" three for what is left out.
        meta: of the small dict, by name: a type, or list and the type of its items.
    """

    columns: Tuple[str, ...] = ()
    optional: Tuple[str, ...] = ()
    names: Tuple[str, ...] = ()
    meta: Dict[str, Tuple[type, ...]] = {}


def is_sound(arrays: Dict[str, np.ndarray], meta: Dict[str, Any], needs: Needs) -> bool:
    """Whether all that is needed is there, and no reader can be led out of it."""
    optional = needs.optional if any(name in arrays for name in needs.optional) else ()
    labels = arrays.get("labels", np.empty(0))
    for name in (*needs.columns, *optional):
        column = arrays.get(name)
        if column is None or column.dtype != np.int64 or column.shape != (labels.size,):
            return False
        if name != "labels" and column.size and column.min() < 0:
            return False
    for name in ("keys", "skipped"):
        blob, ends = arrays.get(name), arrays.get(f"{name}_ends")
        if blob is None and ends is None and name not in needs.names:
            continue
        if blob is None or ends is None or not _are_names(blob, ends):
            return False
        if len(ends) != labels.size if name == "keys" else len(ends) % 3:
            return False
    return all(_is_of(meta.get(name), *kinds) for name, kinds in needs.meta.items())


def _are_names(blob: np.ndarray, ends: np.ndarray) -> bool:
    if blob.dtype != np.uint8 or ends.dtype != np.int64 or blob.ndim != 1 or ends.ndim != 1:
        return False
    rise = bool((np.diff(ends, prepend=0) >= 0).all())
    return rise and (len(ends) == 0 or int(ends[-1]) <= len(blob))


def _is_of(value: Any, kind: type, of: type = object) -> bool:
    if type(value) is not kind:
        return False
    return not isinstance(value, list) or all(isinstance(item, of) for item in value)
