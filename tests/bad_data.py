"""Makes an image folder of files that people really have, good and bad, and a manifest of them.

`write(folder)` makes `files/<class>/...`, `trees/...` and `manifest.json`. An entry of the manifest
says where a file is, what should happen (`action`: load, convert or skip; `also_ok`), at which
stage, why, and what a loaded picture must look like (`expect`: size, mean or corner, tolerance).
Its containers are those of bad_containers.py.
"""

import json
import os
import struct
import zlib
from pathlib import Path

import bad_containers
import numpy as np
import pictures
from pictures import COLOURS, encode, tinted
from PIL import Image

SIZE = [64, 48]


def write(folder):
    """Make everything below `folder`."""
    entries = []
    for name in COLOURS:
        os.makedirs(os.path.join(folder, "files", name))
    for make in (_good, _damaged, _misnamed, _modes, _metadata, _shapes, _names, _left_out):
        for entry in make():
            _put(folder, entries, *entry)
    _links(folder, entries)
    manifest = {
        "classes": sorted(COLOURS),
        "containers": bad_containers.write(Path(folder)),
        "files": entries,
        "trees": _trees(os.path.join(folder, "trees")),
        "version": 1,
    }
    with open(os.path.join(folder, "manifest.json"), "w", encoding="ascii") as file:
        json.dump(manifest, file, indent=1)


def _put(folder, entries, label, name, data, action, reason=None, stage="decode", expect=None):
    raw = name if isinstance(name, bytes) else os.fsencode(name)
    path = os.path.join(b"files", os.fsencode(label), raw)
    if data is not None:
        with open(os.path.join(os.fsencode(folder), path), "wb") as file:
            file.write(data)
    entry = {"action": action, "also_ok": [], "label": label, "path": os.fsdecode(path)}
    entry.update(path_hex=path.hex(), reason=reason, stage=stage)
    if expect is not None:
        entry["expect"] = expect
    entries.append(entry)


def _mean(label, tol=4):
    return {"mean": list(COLOURS[label]), "size": SIZE, "tol": tol}


def _good():
    for label, colour in COLOURS.items():
        for number in range(4):
            data = encode(tinted(colour, seed=number), quality=90)
            yield label, f"ok_{number}.jpg", data, "load", None, "decode", _mean(label)


def _damaged():
    whole = encode(tinted(COLOURS["cat"]), quality=90)
    picture = encode(tinted(COLOURS["cat"]), "PNG")
    middle = picture.index(b"IDAT") + 200
    broken = picture[:middle] + bytes([picture[middle] ^ 0x55]) + picture[middle + 1 :]
    yield "cat", "no_eoi.jpg", whole[:-2], "skip", "missing_eoi"
    yield "cat", "half.jpg", whole[: len(whole) // 2], "skip", "truncated"
    yield "cat", "header_only.jpg", whole[:20], "skip", "truncated"
    yield "cat", "zero_byte.jpg", b"", "skip", "empty"
    yield "cat", "noise.jpg", np.random.default_rng(1).bytes(2000), "skip", "not_an_image"
    yield "cat", "page.jpg", b"<html><body>404 Not Found</body></html>", "skip", "not_an_image"
    yield "cat", "truncated.png", picture[: len(picture) // 2], "skip", "truncated"
    yield "cat", "png_bad_crc.png", broken, "skip", "corrupt"
    tail = whole + b"\0" * 100 + b"not a picture" * 20
    yield "cat", "trailing_garbage.jpg", tail, "load", None, "decode", _mean("cat")


def _misnamed():
    pixels, mean = tinted(COLOURS["dog"]), _mean("dog")
    yield "dog", "png_named.jpg", encode(pixels, "PNG"), "load", "ext_mismatch", "decode", mean
    yield "dog", "bmp_named.jpg", encode(pixels, "BMP"), "load", "ext_mismatch", "decode", mean
    yield "dog", "jpeg_named.png", encode(pixels), "load", "ext_mismatch", "decode", mean
    webp = encode(pixels, "WEBP", quality=95)
    yield "dog", "webp_named.jpg", webp, "load", "ext_mismatch", "decode", _mean("dog", 8)
    palette = Image.fromarray(pixels).quantize(64)
    gif = encode(palette, "GIF")
    yield "dog", "gif_named.jpg", gif, "convert", "palette", "decode", _mean("dog", 12)
    frames = [Image.fromarray(np.full_like(pixels, level)).quantize(4) for level in (0, 255)]
    moving = encode(palette, "GIF", save_all=True, append_images=frames, duration=50)
    yield "dog", "animated.gif", moving, "convert", "multi_frame_first", "decode", _mean("dog", 12)


def _modes():
    pixels = tinted(COLOURS["bird"])
    ink = np.concatenate([255 - pixels, np.zeros((48, 64, 1), np.uint8)], axis=2)
    adobe = encode(Image.frombytes("CMYK", (64, 48), ink.tobytes()), quality=95)
    plain = encode(Image.frombytes("CMYK", (64, 48), (255 - ink).tobytes()), quality=95)
    at = plain.index(b"\xff\xee")
    plain = plain[:at] + plain[at + 16 :]  # without Adobe's marker its inks are as they stand
    for name, data in (("cmyk_adobe.jpg", adobe), ("cmyk_no_adobe.jpg", plain)):
        yield "bird", name, data, "convert", "cmyk", "decode", _mean("bird", 12)
    yield (
        "bird",
        "bilevel.png",
        encode(Image.fromarray(pixels).convert("1"), "PNG"),
        "convert",
        "bilevel",
    )
    ramp = [(np.arange(256) * 257).astype(">u2").tobytes()] * 4
    grey = {"mean": [127.5] * 3, "size": [256, 4], "tol": 1}
    yield (
        "bird",
        "ramp16.png",
        pictures.png(256, 4, ramp, 0, 16),
        "convert",
        "depth16",
        "decode",
        grey,
    )
    noise = np.random.default_rng(2).integers(0, 255, (48, 64, 4)).astype(np.uint8)
    noise[:, :, 3] = 0
    white = {"mean": [255] * 3, "size": SIZE, "tol": 0}
    yield "bird", "hidden.png", encode(noise, "PNG"), "convert", "alpha", "decode", white


def _metadata():
    for orientation in range(1, 9):
        stored = pictures.turned(pictures.marked(64, 48), orientation)
        data = encode(stored, quality=95, subsampling=0, exif=pictures.exif(orientation))
        expect = {"corner": [254, 0, 0], "size": SIZE, "tol": 20}
        name = f"exif_orient_{orientation}.jpg"
        yield "bird", name, data, "convert", "exif_orientation", "decode", expect
    pixels, size = tinted(COLOURS["bird"]), {"size": SIZE}
    noise = b"Exif\0\0" + np.random.default_rng(3).bytes(80)
    for name, block in (("exif_blank.jpg", b"Exif\0\0"), ("exif_garbage.jpg", noise)):
        data = encode(pixels, exif=block)
        yield "bird", name, data, "load", "bad_exif_ignored", "decode", size
    bomb = (b"zTXt", b"comment\0\0" + zlib.compress(b"a" * (2 << 20), 9))
    rows = [row.tobytes() for row in pixels]
    text = pictures.png(64, 48, rows, 2, 8, [bomb])
    yield "cat", "ztxt_bomb.png", text, "skip", "text_chunk_too_large"


def _shapes():
    yield "cat", "one_pixel.png", encode(np.full((1, 1, 3), 9, np.uint8), "PNG"), "load"
    thin = {"size": [2000, 1]}
    yield "cat", "thin.png", encode(tinted((9, 9, 9), 2000, 1), "PNG"), "load", None, "decode", thin
    header = pictures.png(50_000, 50_000, [b"\0" * 50_000] * 2)
    yield "cat", "bomb.png", header, "skip", "too_many_pixels"


def _names():
    names = ["with space.jpg", "new\nline.jpg", "tab\tname.jpg", "quote'and\".jpg", " leading.jpg"]
    names += ["emoji_\U0001f600.jpg", "cafe\u0301.jpg", "caf\xe9.jpg", "\u65e5\u672c\u8a9e.jpg"]
    names += ["star*[1]?.jpg", "back\\slash.jpg", "dots.in.name.v1.0.jpg", b"latin_\xe9.jpg"]
    for number, name in enumerate(names):
        data = encode(tinted(COLOURS["dog"], seed=number))
        yield "dog", name, data, "load", "awkward_name", "scan", _mean("dog")
    yield "dog", "Mixed.JpEg", encode(tinted(COLOURS["dog"])), "load", "ext_case", "scan"
    yield "dog", "upper.PNG", encode(tinted(COLOURS["dog"]), "PNG"), "load", "ext_case", "scan"


def _left_out():
    whole = encode(tinted(COLOURS["cat"]))
    yield "dog", "no_extension", whole, "skip", "unknown_extension", "scan"
    for name in (".DS_Store", "._ok_0.jpg", ".hidden.jpg"):
        yield "cat", name, whole, "skip", "hidden_file", "scan"
    for name in ("Thumbs.db", "desktop.ini", "notes.txt"):
        yield "cat", name, struct.pack("<20I", *range(20)), "skip", "unknown_extension", "scan"


def _links(folder, entries):
    base = os.path.join(folder, "files", "bird")
    for name, target in (
        ("link_broken.jpg", "../../gone/x.jpg"),
        ("link_self.jpg", "link_self.jpg"),
    ):
        os.symlink(target, os.path.join(base, name))
        _put(folder, entries, "bird", name, None, "skip", "broken_symlink", "scan")
    os.mkdir(os.path.join(base, "directory.jpg"))
    _put(folder, entries, "bird", "directory.jpg", None, "skip", "not_a_file", "scan")
    os.mkfifo(os.path.join(base, "pipe.jpg"))
    _put(folder, entries, "bird", "pipe.jpg", None, "skip", "not_a_file", "scan")


def _trees(root):
    """Folders whose shape is the case; an empty file list makes an empty class."""
    shapes = {
        "empty_class": ["train/cat/a", "train/dog/", "val/cat/b"],
        "val_missing_class": [
            "train/bird/a",
            "train/cat/a",
            "train/dog/a",
            "val/cat/b",
            "val/dog/b",
        ],
        "val_extra_class": ["train/cat/a", "train/dog/a", "val/bird/b", "val/cat/b"],
        "numeric_classes": [f"train/{number}/a" for number in (0, 1, 10, 2)],
        "nested_class": ["train/cat/a", "train/cat/more/b", "train/cat/more/deep/c", "train/dog/a"],
        "extra_level": ["train/train/cat/a", "train/train/dog/a"],
        "symlink_loop": ["train/cat/a", "train/dog/a"],
        "symlink_class": ["store/c1/a", "train/dog/a"],
    }
    for name, files in shapes.items():
        for number, file in enumerate(files):
            path = os.path.join(root, name, file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if not file.endswith("/"):
                with open(path + ".jpg", "wb") as image:
                    image.write(encode(pictures.scene(seed=number)))
    os.symlink("..", os.path.join(root, "symlink_loop", "train", "cat", "loop"))
    os.symlink("../store/c1", os.path.join(root, "symlink_class", "train", "cat"))
    return [{"path": f"trees/{name}"} for name in shapes]
