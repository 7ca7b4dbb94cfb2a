"""Small pictures for the tests: smooth scenes, files of many kinds, and folders of them."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

# Colours that survive JPEG, so that a class can be told from a mean.
COLOURS = {"bird": (54, 100, 189), "cat": (204, 72, 39), "dog": (63, 175, 67)}


def scene(width=64, height=48, seed=0):
    """A smooth picture with some fine detail: uint8 (height, width, 3)."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = generator.uniform(0.02, 0.25, (3, 2))
    phases = generator.uniform(0, 6.28, 3)
    planes = [127 + 90 * np.sin(a * x + b * y + c) for (a, b), c in zip(waves, phases)]
    noise = generator.normal(0, 4, (height, width, 3))
    return np.clip(np.stack(planes, 2) + noise, 0, 255).astype(np.uint8)


def tinted(colour, width=64, height=48, seed=0):
    """A picture whose mean is about `colour`: brighter to the left, darker to the right."""
    slope = np.linspace(12, -12, width)[None, :, None]
    noise = np.random.default_rng(seed).normal(0, 2, (height, width, 1))
    return np.clip(np.array(colour) + slope + noise, 0, 255).astype(np.uint8)


def marked(width=64, height=40):
    """Red top left, green top right, blue bottom left: tells all eight orientations apart."""
    pixels = np.full((height, width, 3), 90, dtype=np.uint8)
    side = 16
    pixels[:side, :side] = (255, 0, 0)
    pixels[:side, -side:] = (0, 255, 0)
    pixels[-side:, :side] = (0, 0, 255)
    return pixels


def turned(pixels, orientation):
    """What a camera stores for an upright picture under this EXIF orientation."""
    store = {
        1: lambda p: p,
        2: np.fliplr,
        3: lambda p: np.rot90(p, 2),
        4: np.flipud,
        5: lambda p: p.transpose(1, 0, 2),
        6: lambda p: np.rot90(p, 1),
        7: lambda p: np.rot90(p, 2).transpose(1, 0, 2),
        8: lambda p: np.rot90(p, -1),
    }[orientation]
    return np.ascontiguousarray(store(pixels))


def encode(image, kind="JPEG", **options):
    """Bytes of a picture: an array or a Pillow image."""
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def exif(orientation):
    """An EXIF block with one orientation, as Pillow wants it for `encode(exif=...)`."""
    block = Image.Exif()
    block[0x0112] = orientation
    return block


def png(width, height, rows, colour=0, bits=8, chunks=()):
    """A PNG by hand: `rows` are raw scan lines without their filter byte; chunks go before them."""
    packer, pieces = zlib.compressobj(9), []
    for row in rows:
        pieces.append(packer.compress(b"\0" + row))
    pieces.append(packer.flush())
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", b"".join(pieces)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*part) for part in parts)


def png_chunk(kind, content):
    """One chunk with its right checksum."""
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def kinds_of_jpeg(seed=0):
    """JPEG files of the kinds that photographs come in, by name."""
    kinds = {}
    sizes = [(64, 48), (97, 61), (33, 120), (200, 150), (16, 16)]
    for number, (width, height) in enumerate(sizes):
        pixels = scene(width, height, seed + number)
        kinds[f"420_{width}x{height}"] = encode(pixels, quality=88, subsampling=2)
        kinds[f"422_{width}x{height}"] = encode(pixels, quality=75, subsampling=1)
        kinds[f"444_{width}x{height}"] = encode(pixels, quality=95, subsampling=0)
        kinds[f"progressive_{width}x{height}"] = encode(pixels, quality=85, progressive=True)
        kinds[f"grey_{width}x{height}"] = encode(pixels[:, :, 1], quality=85)
    return kinds


def write_tree(root, count=8, classes=("bird", "cat", "dog"), seed=0):
    """ROOT/<class>/<number>.jpg, `count` files a class, of every kind in turn; returns root."""
    kinds = list(kinds_of_jpeg(seed).values())
    for label, name in enumerate(classes):
        folder = root / name
        folder.mkdir(parents=True)
        for number in range(count):
            data = kinds[(label * count + number) % len(kinds)]
            (folder / f"{number:03}.jpg").write_bytes(data)
    return root
