"""The members of a tar file: names and where their bytes lie, without extracting anything.

Knows ustar, GNU long names, POSIX (pax) names and sizes, old Unix tar. Sources: POSIX.1-2017, pax,
"ustar Interchange Format" and "pax Extended Header"; GNU tar manual, "Basic Tar Format".
"""

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from train.data.sources.scanner import Scanner
from train.errors import DataError

BLOCK = 512
_MOST_EXTENSION = 1 << 20
"""Bytes of a long name or pax header; more is damage."""

_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"5": "folder",
    b"6": "a pipe",
    b"S": "a sparse file",
}
_FILES = (b"0", b"\0", b"7")


class Member(NamedTuple):
    """One member.

    Attributes:
        name: as it is stored.
        kind: "file", "folder", "cut" (a file that the end of the archive cuts off), else what it
            is, for people.
        offset, size: its bytes in the archive.
    """

    name: bytes
    kind: str
    offset: int
    size: int


class _Damage(Exception):
    """A header that can't be one; what follows it can't be found."""


def members(scan: Scanner, notes: List[str]) -> Iterator[Member]:
    """Walk through an archive.

    Args:
        scan: the file.
        notes: told what is wrong with the archive as a whole, one line each.

    Raises:
        DataError: the file is no tar file.
    """
    position, ended = 0, False
    if scan.size == 0:
        notes.append("the file is empty (0 bytes)")
        return
    while position < scan.size and not ended:
        try:
            member, position, ended = _next(scan, position)
        except _Damage as error:
            if position == 0:
                raise DataError(scan.not_of_kind("tar file")) from None
            notes.append(
                f"damaged at byte {position:,} of {scan.size:,} ({error}); what follows is left out"
            )
            return
        if member is None:
            continue
        if member.kind == "cut":
            notes.append("the file is cut off: its last member is incomplete")
        yield member
        if member.kind == "cut":
            return
    if not ended:
        notes.append("there is no end-of-archive mark; the file may have been cut off")
    elif any(scan.read(position, 1 << 16)):
        notes.append(
            f"there is more after the end of the archive, at byte {position:,}, and it is not "
            "read; archives are joined with `tar -A`, not with `cat`"
        )


def _next(scan: Scanner, position: int) -> Tuple[Optional[Member], int, bool]:
    """Read one member with all its headers: (member, where the next begins, end of archive)."""
    long_name: Optional[bytes] = None
    pax: Dict[bytes, bytes] = {}
    while True:
        header = scan.read(position, BLOCK)
        if not header:
            return None, position, False
        if not any(header) and len(header) == BLOCK:
            return None, position + BLOCK, True
        size = _check(header)
        kind, data = header[156:157], position + BLOCK
        after = data + -(-size // BLOCK) * BLOCK
        if kind not in (b"L", b"K", b"x", b"g", b"X"):
            break
        if size > _MOST_EXTENSION or data + size > scan.size:
            raise _Damage(f"a name of {size:,} bytes")
        if kind == b"L":
            long_name = scan.read(data, size).rstrip(b"\0")
        elif kind in (b"x", b"X"):
            pax.update(_pax(scan.read(data, size)))
        position = after
    name = pax.get(b"path") or long_name or _name(header)
    if b"size" in pax:
        size = _decimal(pax[b"size"])
        after = data + -(-size // BLOCK) * BLOCK
    if kind == b"S" and header[482]:  # the map of a sparse file goes on in more blocks
        more = True
        while more:
            block = scan.read(data, BLOCK)
            if len(block) < BLOCK:
                raise _Damage("the map of a sparse file has no end")
            data, after, more = data + BLOCK, after + BLOCK, bool(block[504])
    if kind == b"\0" and name.endswith(b"/"):
        kind = b"5"
    if kind not in _FILES:
        has_data = kind == b"S" or kind not in _KINDS
        what = _KINDS.get(kind, f"of unknown type {kind!r}")
        return Member(name, what, data, 0), after if has_data else data, False
    if any(key.startswith(b"GNU.sparse.") for key in pax):
        return Member(name, "a sparse file", data, 0), after, False
    what = "file" if data + size <= scan.size else "cut"
    return Member(name, what, data, size), after, False


def _check(header: bytes) -> int:
    """Compare a header with its checksum; gives the member's size."""
    if len(header) < BLOCK:
        raise _Damage("a header is cut off")
    expected = _number(header[148:156])
    rest = header[:148] + b" " * 8 + header[156:]
    total = sum(rest)
    # Some old programs summed signed bytes.
    if total != expected and total - 256 * sum(byte > 127 for byte in rest) != expected:
        raise _Damage("a header's checksum is wrong")
    return _number(header[124:136])


def _number(field: bytes) -> int:
    """Octal text, or binary where the first bit is set (GNU, for sizes over 8 GiB)."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    text = field.split(b"\0", 1)[0].strip()
    try:
        number = int(text, 8) if text else 0
    except ValueError:
        number = -1
    if number < 0:
        raise _Damage(f"no number: {field!r}")
    return number


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 19:
        raise _Damage(f"no size: {text[:30]!r}")
    return int(text)


def _name(header: bytes) -> bytes:
    name = header[:100].split(b"\0", 1)[0]
    # GNU's own format has other things where POSIX has the first part of a long path.
    if header[257:263] == b"ustar\0" and header[345]:
        return header[345:500].split(b"\0", 1)[0] + b"/" + name
    return name


def _pax(data: bytes) -> Dict[bytes, bytes]:
    r"""Records `<length> <key>=<value>\n`, the length being that of the whole record."""
    records, position = {}, 0
    while position < len(data) and data[position] != 0:
        digits, _, _ = data[position : position + 20].partition(b" ")
        length = _decimal(digits)
        record = data[position : position + length]
        key, equals, value = record[len(digits) + 1 :].partition(b"=")
        if len(record) != length or not equals or not value.endswith(b"\n"):
            raise _Damage("a pax header is torn")
        records[key] = value[:-1]
        position += length
    return records
