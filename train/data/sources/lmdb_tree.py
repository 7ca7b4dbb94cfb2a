"""Where the values of an LMDB file lie, read by position.

The library maps the file, and a page that is missing (a copy that was cut short) kills the process
that touches it; it also refuses a second open in one process, and in a child while its parent has
the file open. Here the tree is walked once, each step checked against the file's size; after that
a record is a place in a file, as in a tar.

The format is that of LMDB 0.9 (data version 1), unchanged since 2011. A page has a header of 16
bytes (number u64, padding u16, flags u16, lower u16, upper u16; for an overflow page the number of
pages u32 in place of the last two), then u16 positions of its nodes. A node has 8 bytes (low u16,
high u16, flags u16, key size u16), its key, then a value, the page of a value, or nothing.
"""

import os
import struct
from typing import Iterator, NamedTuple, Tuple

_MAGIC, _DATA_VERSION = 0xBEEFC0DE, 1
_META = struct.Struct("<IIQQ")  # behind the header: magic, version, address, size of the map
_DATABASE = struct.Struct("<IHHQQQQQ")  # pad, flags, depth, three page counts, entries, root
_META_BYTES = 16 + _META.size + 2 * _DATABASE.size + 16
_NODE = struct.Struct("<HHHH")
_BRANCH, _LEAF, _OVERFLOW, _LEAF2 = 0x01, 0x02, 0x04, 0x20
_BIG, _SUB, _DUPLICATES = 0x01, 0x02, 0x04
_NO_PAGE = 2**64 - 1


class Damaged(Exception):
    """The file is no LMDB file, or its tree leads nowhere; the message says where."""


class Value(NamedTuple):
    """One entry.

    Attributes:
        key: its bytes.
        offset: where its value begins in the file.
        size: of the value.
    """

    key: bytes
    offset: int
    size: int


def walk(descriptor: int) -> Iterator[Value]:
    """All entries of the main database, in the order of their keys.

    Args:
        descriptor: an open file.

    Raises:
        Damaged: no LMDB file, of another version, or its tree is broken.
    """
    size = os.fstat(descriptor).st_size
    page_size, last_page, root = _newest_meta(descriptor, size)
    counted = (last_page + 1) * page_size
    # Pages that a writer took and gave back in one go are counted but never written, so a sound
    # file may be shorter than it says. What counts is whether the tree needs them.
    short = f"; the file has {size:,} bytes, it says {counted:,}" if size < counted else ""
    stack = [root] if root != _NO_PAGE else []
    pages_left = size // page_size  # each page has one place in the tree
    while stack:
        number = stack.pop()
        pages_left -= 1
        inside = (number + 1) * page_size <= size
        page = os.pread(descriptor, page_size, number * page_size) if inside else b""
        if len(page) < page_size:
            raise Damaged(f"page {number} lies beyond its end{short}")
        found, _, flags, lower = struct.unpack_from("<QHHH", page)
        kind = flags & (_BRANCH | _LEAF | _LEAF2)
        if found != number or kind not in (_BRANCH, _LEAF) or not 16 <= lower <= page_size:
            raise Damaged(f"page {number} is not what its place in the tree says{short}")
        if pages_left < 0:
            raise Damaged("its tree runs in a circle")
        positions = struct.unpack_from(f"<{(lower - 16) // 2}H", page, 16)
        if kind == _BRANCH:
            below = [_child(page, position, number) for position in positions]
            stack.extend(reversed(below))
        else:
            left = page_size - lower  # nodes don't overlap, or a page could hold any number of keys
            for position in positions:
                value = _leaf_value(page, position, number, page_size)
                inside = number * page_size <= value.offset <= (number + 1) * page_size
                left -= _NODE.size + len(value.key) + (value.size if inside else 8)
                if left < 0:
                    raise Damaged(f"page {number} is damaged")
                if value.offset + value.size > size:
                    raise Damaged(f"the value of key {value.key!r} lies beyond its end{short}")
                yield value


def _newest_meta(descriptor: int, size: int) -> Tuple[int, int, int]:
    """Page size, last page and root of the newer of the two meta pages."""
    metas, page_size = [], 0
    for number in (0, 1):
        raw = os.pread(descriptor, _META_BYTES, number * page_size)
        if len(raw) < _META_BYTES:
            raise Damaged(f"it has {size:,} bytes, too few for an LMDB file")
        magic, version, _, _ = _META.unpack_from(raw, 16)
        if magic != _MAGIC:
            raise Damaged("it is no LMDB file: its first pages lack the magic number")
        if version != _DATA_VERSION:
            raise Damaged(f"LMDB's data version {version} is not known, expected {_DATA_VERSION}")
        free = _DATABASE.unpack_from(raw, 40)
        main = _DATABASE.unpack_from(raw, 40 + _DATABASE.size)
        last_page, transaction = struct.unpack_from("<QQ", raw, 40 + 2 * _DATABASE.size)
        page_size = page_size or free[0]
        if not 256 <= page_size <= 65536 or page_size & (page_size - 1):
            raise Damaged(f"pages of {page_size} bytes make no sense")
        metas.append((transaction, last_page, main[-1]))
    _, last_page, root = max(metas)
    return page_size, last_page, root


def _child(page: bytes, position: int, number: int) -> int:
    if position + _NODE.size > len(page):
        raise Damaged(f"page {number} is damaged")
    low, high, flags, _ = _NODE.unpack_from(page, position)
    return low | high << 16 | flags << 32


def _leaf_value(page: bytes, position: int, number: int, page_size: int) -> Value:
    start = position + _NODE.size
    if start > page_size:
        raise Damaged(f"page {number} is damaged")
    low, high, flags, key_size = _NODE.unpack_from(page, position)
    size = low | high << 16
    key = page[start : start + key_size]
    start += key_size
    if start + (8 if flags & _BIG else size) > page_size:
        raise Damaged(f"page {number} is damaged")
    if flags & (_SUB | _DUPLICATES):
        raise Damaged(f"key {key!r} has several values or is a database of its own: not supported")
    if flags & _BIG:
        (first,) = struct.unpack_from("<Q", page, start)
        return Value(key, first * page_size + 16, size)
    return Value(key, number * page_size + start, size)
