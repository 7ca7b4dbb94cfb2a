"""Many names in two arrays: one block of bytes, and where each name ends.

A Python list of a million strings costs a hundred megabytes, and every forked worker that looks at
them copies them (reference counts are written). Arrays are shared, and small when they are pickled.
"""

from typing import Dict, Iterable, List, Union

import numpy as np


class Names:
    """A sequence of strings; bytes that are no UTF-8 come out as surrogates.

    Args:
        blob: uint8 (bytes,), all names one after the other.
        ends: int64 (N,), where each one ends in `blob`.
    """

    def __init__(self, blob: np.ndarray, ends: np.ndarray):
        self.blob = blob
        self.ends = ends

    @classmethod
    def of(cls, names: Iterable[Union[str, bytes]]) -> "Names":
        """Pack names; text is stored as UTF-8."""
        packed = [encode(name) if isinstance(name, str) else name for name in names]
        return cls(
            np.frombuffer(b"".join(packed), dtype=np.uint8),
            np.cumsum([len(name) for name in packed], dtype=np.int64),
        )

    @classmethod
    def from_arrays(cls, arrays: Dict[str, np.ndarray], name: str) -> "Names":
        """The inverse of `arrays`."""
        return cls(arrays[name], arrays[f"{name}_ends"])

    def arrays(self, name: str) -> Dict[str, np.ndarray]:
        """The two arrays, under `name` and `name_ends`, as an index file takes them."""
        return {name: self.blob, f"{name}_ends": self.ends}

    def __len__(self) -> int:
        return len(self.ends)

    def raw(self, index: int) -> bytes:
        """One name as it is stored."""
        if not 0 <= index < len(self.ends):  # NumPy would take -1 for the last one
            raise IndexError(index)
        start = int(self.ends[index - 1]) if index else 0
        return self.blob[start : int(self.ends[index])].tobytes()

    def __getitem__(self, index: int) -> str:
        return decode(self.raw(index))

    def tolist(self) -> List[str]:
        """All of them; for short lists."""
        return [self[index] for index in range(len(self))]


def encode(name: str) -> bytes:
    """Text to the bytes that it was made from, whatever they were."""
    return name.encode("utf-8", "surrogateescape")


def decode(name: bytes) -> str:
    """Bytes to text, without loss: what is no UTF-8 becomes surrogates."""
    return name.decode("utf-8", "surrogateescape")
