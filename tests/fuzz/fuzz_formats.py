"""Mutations that know a format: they change what a plain one would only break a checksum of."""

import io
import struct
import zipfile
import zlib

import container_files
import pictures
from fuzz_bytes import NUMBERS, changed, of_bytes

from train.data.sources import index_file


def repaired(mend, share=0.6):
    """Mutations of bytes, after which `mend(data)` mostly makes the checksums right again."""

    def mutate(draw, seeds):
        data = of_bytes(draw, seeds)
        return mend(data) if draw.random() < share else data

    return mutate


def of_pictures(draw, seeds):
    """Parts of a JPEG or a PNG are changed, moved, doubled; else bytes."""
    data = draw.choice(seeds)
    knows = {b"\xff\xd8": (_jpeg_parts, b"".join), b"\x89P": (_png_parts, _png)}.get(data[:2])
    if knows is None or draw.random() < 0.5:
        return changed(draw, data, seeds)
    split, join = knows
    parts = split(data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        _change_parts(draw, parts, seeds, split)
    return join(parts)


def _change_parts(draw, parts, seeds, split):
    at, kind = draw.randrange(len(parts)), draw.random()
    if kind < 0.5:
        part = parts[at]
        whole = type(part) is bytes
        parts[at] = changed(draw, part) if whole else (part[0], changed(draw, part[1]))
    elif kind < 0.6 and len(parts) > 1:
        del parts[at]
    elif kind < 0.7:
        parts.insert(draw.randrange(len(parts) + 1), parts[at])
    elif kind < 0.8:
        to = draw.randrange(len(parts))
        parts[at], parts[to] = parts[to], parts[at]
    elif kind < 0.9:
        other = draw.choice(seeds)
        if other[:2] == (b"\x89P" if type(parts[at]) is tuple else b"\xff\xd8"):
            parts.insert(at, draw.choice(split(other)))
    else:
        _set_size(draw, parts)


def _set_size(draw, parts):
    """Another width and height, with nothing else changed."""
    size = [draw.choice((0, 1, 9, 64, 1025, 4096, 65000, 65535)) for _ in range(2)]
    for at, part in enumerate(parts):
        if type(part) is tuple and part[0] == b"IHDR":
            parts[at] = (part[0], struct.pack(">II", *size) + part[1][8:])
        elif type(part) is bytes and part[:2] in (b"\xff\xc0", b"\xff\xc1", b"\xff\xc2"):
            parts[at] = part[:5] + struct.pack(">HH", *size) + part[9:]


def _jpeg_parts(data):
    """Its segments; the coded bits are one piece with what follows."""
    parts, at = [data[:2]], 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        parts.append(data[at:end])
        at = end
    return parts + [data[at:]]


def _png_parts(data):
    parts, at = [], 8
    while at + 12 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        parts.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    return parts or [(b"IEND", b"")]


def _png(parts):
    return b"\x89PNG\r\n\x1a\n" + b"".join(pictures.png_chunk(*part) for part in parts)


def mend_tar(data):
    """Right checksums where a header stands."""
    data = bytearray(data)
    for at in range(0, len(data) - 511, 512):
        if data[at + 257 : at + 262] == b"ustar":
            total = sum(data[at : at + 148]) + 256 + sum(data[at + 156 : at + 512])
            data[at + 148 : at + 156] = b"%06o\0 " % total
    return bytes(data)


def mend_tfrecord(data):
    """Records of the same messages with right checksums."""
    parts, at = [], 0
    while at + 16 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        payload = data[at + 12 : at + 12 + min(length, len(data))]
        parts.append(container_files.record(payload, length))
        at += 16 + len(payload)
    return b"".join(parts) + data[at:]


def of_examples(draw, seeds):
    """The messages themselves are changed, and written anew."""
    if draw.random() < 0.4:
        return of_bytes(draw, seeds)
    data, parts, at = draw.choice(seeds), [], 0
    while at + 16 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        payload = data[at + 12 : at + 12 + length]
        if draw.random() < 0.5:
            payload = changed(draw, payload)
        says = draw.choice(NUMBERS) if draw.random() < 0.1 else None
        parts.append(container_files.record(payload, says))
        at += 16 + length
    return b"".join(parts)


def mend_index(data):
    """Right checksums, so that what the index says is believed."""
    size = index_file._START.size
    if len(data) < size:
        return data
    magic, version, length, _, _ = index_file._START.unpack_from(data)
    header, arrays = data[size : size + length], data[size + length :]
    crcs = zlib.crc32(header), zlib.crc32(arrays)
    return index_file._START.pack(magic, version, length, *crcs) + header + arrays


def of_zips(draw, seeds):
    """A member of an archive is changed, and the archive written anew, as torch.save writes it."""
    if draw.random() < 0.4:
        return of_bytes(draw, seeds)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(draw.choice(seeds))) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = draw.choice([name for name in names if name.endswith("data.pkl")] + names[:3])
        for name in names:
            data = old.read(name)
            if name != chosen:
                new.writestr(name, data)
            elif draw.random() < 0.9:
                new.writestr(name, changed(draw, data))
    return out.getvalue()


def of_pages(draw, seeds):
    """Fields of a file of pages: 16, 32 and 64 bits where such fields stand in LMDB and HDF5."""
    if draw.random() < 0.3:
        return of_bytes(draw, seeds)
    data = bytearray(draw.choice(seeds))
    pages = max(1, len(data) // 4096)
    for _ in range(draw.choice((1, 1, 2, 4))):
        size = draw.choice((1, 2, 2, 4, 8, 8))
        page = 4096 * draw.randrange(pages)
        at = page + size * draw.randrange(draw.choice((64, 64, 4096)) // size)
        value = draw.choice(NUMBERS)
        if draw.random() < 0.5:
            value = draw.choice((draw.randrange(pages + 2), draw.randrange(4097), len(data)))
        data[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
    if draw.random() < 0.1:  # a page in another's place
        one, two = 4096 * draw.randrange(pages), 4096 * draw.randrange(pages)
        data[one : one + 4096] = data[two : two + 4096]
    return bytes(data)
