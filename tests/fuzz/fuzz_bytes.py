"""Mutations of bytes, each a function of a random generator alone."""

MOST = 1 << 20
"""Bytes of a mutant, and of what is put into one."""

NUMBERS = (0, 1, 2, 3, 7, 15, 127, 128, 255, 256, 4095, 32767, 32768, 65535, 65536, 2**31 - 1)
NUMBERS += (2**31, 2**32 - 1, 2**32, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
DIGITS = (b"0", b"-1", b"7", b"65536", b"2147483648", b"9" * 18, b"9" * 19, b"9" * 400, b"1e999")
BYTES = (0x00, 0x01, 0x20, 0x2F, 0x7F, 0x80, 0xD0, 0xD9, 0xDA, 0xFE, 0xFF)


def of_bytes(draw, seeds):
    """A seed with one or several changes."""
    return changed(draw, draw.choice(seeds), seeds)


def changed(draw, data, seeds=()):
    """The data with one or several changes."""
    data = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        draw.choice(_CHANGES)(draw, data, seeds)
    return bytes(data[:MOST])


def place(draw, data):
    """A position; every other time near the beginning, where headers are."""
    most = len(data) if draw.random() < 0.5 else min(len(data), 96)
    return int(draw.random() * most)


def _flip(draw, data, seeds):
    for _ in range(draw.choice((1, 1, 2, 8))):
        if data:
            data[place(draw, data)] ^= 1 << draw.randrange(8)


def _byte(draw, data, seeds):
    if data:
        value = draw.choice(BYTES) if draw.random() < 0.6 else draw.randrange(256)
        data[place(draw, data)] = value


def _number(draw, data, seeds):
    """A length or an offset becomes extreme, or one more or less."""
    size = draw.choice((1, 2, 2, 4, 4, 8))
    order = draw.choice(("big", "little"))
    at = place(draw, data)
    if draw.random() < 0.5:
        at -= at % size
    value = draw.choice(NUMBERS)
    if draw.random() < 0.3:
        value = int.from_bytes(data[at : at + size], order) + draw.choice((-1, 1, 8, -8))
    data[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, order)


def _digits(draw, data, seeds):
    """A number in ASCII becomes another one."""
    at = place(draw, data)
    for begin in range(at, min(at + 600, len(data))):
        if 48 <= data[begin] <= 57:
            end = begin
            while end < len(data) and 48 <= data[end] <= 57:
                end += 1
            data[begin:end] = draw.choice(DIGITS)
            return


def _remove(draw, data, seeds):
    at = place(draw, data)
    del data[at : at + draw.choice((1, 1, 2, 4, 16, 100, 512))]


def _insert(draw, data, seeds):
    size = draw.choice((1, 1, 2, 4, 16, 100))
    data[place(draw, data) : 0] = bytes(draw.randrange(256) for _ in range(size))


def _cut(draw, data, seeds):
    del data[place(draw, data) :]


def _extend(draw, data, seeds):
    piece = bytes([draw.choice(BYTES)]) if draw.random() < 0.5 or not data else bytes(data[-40:])
    size = 1 << 19 if draw.random() < 0.02 else draw.choice((1, 8, 512, 4096))
    data += (piece * (size // len(piece) + 1))[:size]


def _copy(draw, data, seeds):
    """A chunk once more, elsewhere: put in or written over."""
    size = draw.choice((2, 4, 16, 64, 512))
    source, target = place(draw, data), place(draw, data)
    chunk = data[source : source + size]
    data[target : target + (size if draw.random() < 0.5 else 0)] = chunk


def _swap(draw, data, seeds):
    size = draw.choice((1, 2, 4, 16, 64, 512))
    one, two = sorted((place(draw, data), place(draw, data)))
    if one + size <= two and two + size <= len(data):
        data[one : one + size], data[two : two + size] = (
            data[two : two + size],
            data[one : one + size],
        )


def _splice(draw, data, seeds):
    """The beginning of one input, the end of another."""
    if seeds:
        other = draw.choice(seeds)
        data[place(draw, data) :] = other[place(draw, other) :]


def _fill(draw, data, seeds):
    at = place(draw, data)
    size = min(draw.choice((4, 16, 64, 512)), len(data) - at)
    data[at : at + size] = bytes([draw.choice((0, 0xFF))]) * size


_CHANGES = (
    [_flip] * 4
    + [_byte] * 3
    + [_number] * 4
    + [_digits, _remove, _insert, _cut, _extend, _copy, _swap, _splice, _fill]
)
