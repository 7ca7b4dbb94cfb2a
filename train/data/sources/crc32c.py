"""CRC-32C (Castagnoli) of bytes, as TFRecord files store it.

Source: RFC 3720, appendix B.4 (polynomial and test values); the mask is TensorFlow's.
"""

from typing import Any

import numpy as np

_POLYNOMIAL = 0x82F63B78  # 0x1EDC6F41, bits reversed


def _tables() -> np.ndarray:
    """uint32 (8, 256): the effect of one byte that has 0 to 7 more bytes after it."""
    tables = np.zeros((8, 256), dtype=np.uint32)
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = (values >> 1) ^ np.where(values & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    tables[0] = values
    for row in range(1, 8):
        tables[row] = (tables[row - 1] >> 8) ^ values[tables[row - 1] & 255]
    return tables


TABLES = _tables()
_FIRST = TABLES[0].tolist()


def crc32c(data: Any) -> int:
    """The checksum of bytes, or of what has their buffer.

    The first call imports numba and may compile for some seconds; a cache keeps the result.
    """
    if len(data) <= 16:  # a record's length: not worth an array
        crc = 0xFFFFFFFF
        for byte in bytes(data):
            crc = _FIRST[(crc ^ byte) & 255] ^ (crc >> 8)
        return crc ^ 0xFFFFFFFF
    from train.data.sources.crc32c_kernels import checksum

    return int(checksum(np.frombuffer(data, dtype=np.uint8), TABLES))


def masked(data: Any) -> int:
    """The checksum as it is written: turned by 15 bits, plus a constant.

    A CRC over bytes that hold their own CRC says little; so the stored one is changed.
    """
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
