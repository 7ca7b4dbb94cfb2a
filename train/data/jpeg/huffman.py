"""Huffman tables: to decode with, and the best ones to encode with.

Source: ITU-T T.81, annex C (codes from lengths), F.2.2.3 (decoding), K.2 (the best lengths).
"""

from typing import Tuple

import numpy as np

from train.data.jpeg.bits import bits_of, kernel

LOOK_BITS = 10
"""Codes up to this length are found in one step; 4 KiB a table, so that four fit into the cache."""

_LOOK = 1 << LOOK_BITS
_ROW = _LOOK + 17 + 17 + 256


def empty_tables() -> np.ndarray:
    """Tables to decode with that know no code: int32 (8, ...), DC 0 to 3, then AC 0 to 3."""
    return np.zeros((8, _ROW), np.int32)


@kernel
def _fill(row, counts, symbols):
    """Write one row: look-up, bounds, places, symbols.

    Look-up: the first LOOK_BITS bits -> length << 8 | symbol, 0 for longer codes. For each length
    one past its last code (0 for none), and what turns a code into the place of its symbol.
    """
    row[:] = 0
    code = 0
    place = 0
    for length in range(1, 17):
        count = counts[length - 1]
        row[_LOOK + 17 + length] = place - code
        for _ in range(count):
            row[_LOOK + 34 + place] = symbols[place]
            if length <= LOOK_BITS:
                first = code << (LOOK_BITS - length)
                last = min(first + (1 << (LOOK_BITS - length)), _LOOK)
                row[first:last] = (length << 8) | symbols[place]
            code += 1
            place += 1
        row[_LOOK + length] = code if count > 0 else 0
        code <<= 1


def fill_table(tables: np.ndarray, kind: int, number: int, counts: bytes, symbols: bytes) -> None:
    """Put a table of DHT, as `markers.read_huffman` gives it, into its place."""
    _fill(
        tables[kind * 4 + number],
        np.frombuffer(counts, np.uint8).astype(np.int64),
        np.frombuffer(symbols, np.uint8).astype(np.int64),
    )


@kernel
def lookup(row, word):
    """The code at the top of a uint64: its length << 8 | its symbol; 0 where there is none."""
    found = row[bits_of(word, 0, LOOK_BITS)]
    if found != 0:
        return np.int64(found)
    for length in range(LOOK_BITS + 1, 17):
        code = bits_of(word, 0, length)
        if code < row[_LOOK + length]:
            place = code + row[_LOOK + 17 + length]
            if 0 <= place < 256:
                return np.int64((length << 8) | row[_LOOK + 34 + place])
            return np.int64(0)
    return np.int64(0)


@kernel
def _best_lengths(counts):
    """The best code's lengths by figure K.1: counts int64 (257,) -> int64 (257,), of any length.

    Symbol 256 stands for the code of ones alone, which JPEG does not allow; it is counted once.
    """
    weights = counts.copy()
    size = np.zeros(257, np.int64)
    chain = np.full(257, -1, np.int64)
    while True:
        least, second = -1, -1
        for symbol in range(257):
            if weights[symbol] > 0:
                if least < 0 or weights[symbol] <= weights[least]:
                    second = least
                    least = symbol
                elif second < 0 or weights[symbol] <= weights[second]:
                    second = symbol
        if second < 0:
            break
        weights[least] += weights[second]
        weights[second] = 0
        node = least
        while True:
            size[node] += 1
            if chain[node] < 0:
                break
            node = chain[node]
        chain[node] = second
        node = second
        while node >= 0:
            size[node] += 1
            node = chain[node]
    return size


@kernel
def _limited(size):
    """How many codes of 1 to 16 bits by figure K.3, int64 (17,), without the reserved one."""
    numbers = np.zeros(258, np.int64)
    for symbol in range(257):
        if size[symbol] > 0:
            numbers[size[symbol]] += 1
    for length in range(257, 16, -1):
        while numbers[length] > 0:
            shorter = length - 2
            while numbers[shorter] == 0:
                shorter -= 1
            numbers[length] -= 2
            numbers[length - 1] += 1
            numbers[shorter + 1] += 2
            numbers[shorter] -= 1
    length = 16
    while numbers[length] == 0:
        length -= 1
    numbers[length] -= 1
    return numbers[:17].copy()


def best_table(counts: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """The best code for symbols that occur so often.

    Args:
        counts: int64 (257,); symbols with 0 get no code, entry 256 is set here.

    Returns:
        How many codes of 1 to 16 bits, uint8 (16,); the symbols in the order of their codes, uint8.
    """
    counts = counts.copy()
    counts[256] = 1
    size = _best_lengths(counts)
    numbers = _limited(size)
    symbols = np.flatnonzero(size[:256])
    order = symbols[np.argsort(size[symbols], kind="stable")]
    return numbers[1:].astype(np.uint8), order.astype(np.uint8)


def codes_of(numbers: np.ndarray, symbols: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """The code of each symbol and its length (0 where it has none): int64 (256,), int64 (256,)."""
    codes, lengths = np.zeros(256, np.int64), np.zeros(256, np.int64)
    code = place = 0
    for length, number in enumerate(numbers.tolist(), 1):
        for symbol in symbols[place : place + number].tolist():
            codes[symbol], lengths[symbol] = code, length
            code += 1
        place += number
        code <<= 1
    return codes, lengths
