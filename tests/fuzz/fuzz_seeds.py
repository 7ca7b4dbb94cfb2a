"""The sound inputs that mutants are made from; the same on every machine."""

import io
import json
import os
import random
import struct
import tarfile
import tempfile
from pathlib import Path

import container_files
import jpeg_files
import numpy as np
import pictures
import yaml
from PIL import Image

from train.config import Config
from train.data.jpeg import windows
from train.data.sources.lmdb_source import open_lmdb
from train.data.sources.tar import open_tar
from train.data.sources.tfrecord import open_tfrecord

INDEXED_NS = 1_700_000_000_000_000_000
"""When the containers of the index files were last changed."""


def jpegs():
    """Small ones of all kinds, with orientation and with colours of print."""
    pixels = pictures.scene(40, 24, 3)
    ink = np.concatenate([255 - pixels, np.zeros((24, 40, 1), np.uint8)], axis=2)
    found = [
        pictures.encode(pictures.marked(40, 24), exif=pictures.exif(turn)) for turn in (3, 5, 8)
    ]
    found += [jpeg_files.encode(pixels, 80, name) for name in jpeg_files.SAMPLINGS]
    for options in ({"progressive": True}, {"restart_marker_blocks": 2}, {"optimize": True}):
        found += [pictures.encode(pixels, quality=85, **options)]
    found += [pictures.encode(pixels, progressive=True, restart_marker_blocks=3)]
    found += [pictures.encode(Image.frombytes("CMYK", (40, 24), ink.tobytes()))]
    return found + list(jpeg_files.odd_kinds().values())[:8]


def packed():
    """Files with an index of windows."""
    found = [jpeg_files.encode(pictures.scene(90, 50, 2), 80, s) for s in ("420", "444", "Gray")]
    turned = pictures.encode(pictures.scene(70, 40), exif=pictures.exif(6))
    return [windows.pack(data, 16) for data in [*found, turned]]


def pngs():
    """All kinds of pixels, and chunks of text and colour."""
    pixels = pictures.scene(20, 12, 5)
    grey = np.ascontiguousarray(pixels[:, :, 0])
    alpha = np.dstack([pixels, grey])
    wide = [(np.arange(20) * 3000).astype(">u2").tobytes()] * 4
    images = [pixels, grey, alpha, Image.fromarray(pixels).quantize(16)]
    found = [pictures.encode(image, "PNG") for image in images]
    found += [pictures.encode(Image.fromarray(grey).convert("1"), "PNG")]
    found += [pictures.png(20, 4, wide, 0, 16)]
    chunks = [(b"tEXt", b"exif\0II*\0"), (b"zTXt", b"a\0\0" + b"x" * 20), (b"tRNS", b"\0\1" * 3)]
    chunks += [(b"iCCP", b"p\0\0" + b"y" * 30), (b"eXIf", exifs()[0]), (b"acTL", b"\0\0\0\2" * 2)]
    found += [pictures.png(8, 4, [bytes(24)] * 4, 2, 8, [chunk]) for chunk in chunks]
    return found + [pictures.encode(pixels, "PNG", exif=pictures.exif(6))]


def webps():
    """Lossy, lossless, with transparency, moving."""
    pixels = pictures.scene(20, 12, 5)
    alpha = np.dstack([pixels, pixels[:, :, 0]])
    frames = [Image.fromarray(pictures.scene(20, 12, n)) for n in range(2)]
    return [
        pictures.encode(pixels, "WEBP"),
        pictures.encode(pixels, "WEBP", lossless=True),
        pictures.encode(alpha, "WEBP", exif=pictures.exif(6)),
        pictures.encode(frames[0], "WEBP", save_all=True, append_images=frames[1:]),
    ]


def others():
    """BMP, GIF, TIFF and JPEG 2000."""
    pixels = pictures.scene(20, 12, 5)
    grey = np.ascontiguousarray(pixels[:, :, 0])
    palette = Image.fromarray(pixels).quantize(16)
    found = [pictures.encode(image, "BMP") for image in (pixels, grey, palette)]
    found += [pictures.encode(palette, "GIF")]
    found += [pictures.encode(palette, "GIF", save_all=True, append_images=[palette.rotate(90)])]
    for packing in ("raw", "tiff_lzw", "packbits", "tiff_adobe_deflate", "jpeg"):
        found.append(pictures.encode(pixels, "TIFF", compression=packing))
    found += [pictures.encode(Image.fromarray(grey).convert("1"), "TIFF", compression="group4")]
    found += [pictures.encode(grey.astype(np.uint16) * 257, "TIFF")]
    found += [pictures.encode(pixels, "TIFF", exif=pictures.exif(6))]
    if "JPEG2000" in Image.SAVE or "JPEG2000" in Image.OPEN:
        found += [pictures.encode(image, "JPEG2000") for image in (pixels, grey)]
    return found


def ppms():
    """Ours, and those that Pillow reads."""
    pixels = pictures.scene(9, 7, 5)
    return [
        b"P6\n9 7\n255\n" + pixels.tobytes(),
        b"P6\n# a remark\n9 7 255\n" + pixels.tobytes(),
        b"P5 9 7 65535\n" + pixels[:, :, 0].astype(">u2").tobytes(),
        b"P3\n2 2\n255\n0 0 0 9 9 9 255 255 255 1 2 3\n",
        b"P4 9 7\n" + bytes(14),
        b"Pf\n2 2\n-1.0\n" + np.ones(4, "<f4").tobytes(),
    ]


def of_all_kinds():
    """Some of each."""
    return jpegs()[:12] + packed()[:2] + pngs()[:4] + webps()[:1] + others()[:2] + ppms()[:1]


def exifs():
    """Directories of both byte orders."""
    found = []
    for order, mark in (("<", b"II*\0"), (">", b"MM\0*")):
        entries = [(0x010F, 2, 4, b"abc\0"), (0x0112, 3, 1, struct.pack(order + "HH", 6, 0))]
        body = b"".join(struct.pack(order + "HHI", *e[:3]) + e[3] for e in entries)
        found.append(mark + struct.pack(order + "IH", 8, len(entries)) + body + bytes(4))
    return found


def samples(count=5):
    """Records of a few hundred bytes: (key, label, data)."""
    small = pictures.encode(np.full((8, 8, 3), 90, np.uint8), quality=30)
    return [(f"cat.{n}/{n:03}", n % 3, small[: 60 + 100 * n]) for n in range(count)]


def tars():
    """WebDataset; names long and odd, numbers of pax, JSON labels, pickles."""

    def made(form, add):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=form) as file:
            add(file)
        return stream.getvalue()[: 512 * 60]

    def usual(file):
        for key, label, data in samples():
            stem = key.replace(".", "%2E")
            container_files.add_member(file, f"{stem}.jpg", data)
            container_files.add_member(file, f"{stem}.cls", b"%d" % label)

    def odd(file):
        long = "./d/" + "x" * 150
        container_files.add_member(file, f"{long}.png", b"abc", pax_headers={"comment": "é"})
        container_files.add_member(file, f"{long}.json", b'{"label": 2}')
        container_files.add_member(file, "b.pyd", b"\x80\x04.")
        container_files.add_member(file, "link.jpg", b"", type=tarfile.SYMTYPE, linkname="b")
        container_files.add_member(file, "folder", b"", type=tarfile.DIRTYPE)

    forms = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
    return [made(forms[0], usual)] + [made(form, odd) for form in forms[1:]]


def tfrecords():
    """Whole files."""
    parts = [container_files.record(container_files.example(*sample)) for sample in samples()]
    return [b"".join(parts), parts[0]]


def examples():
    """Messages alone; a packed number, a negative one, fields of other types."""
    plain = [container_files.example(*sample) for sample in samples(3)]
    from train.data.sources.example import example

    return [*plain, example({"image/encoded": b"x" * 300, "image/class/label": -5})]


def lmdbs():
    """With names, with records on pages of their own, with a tree of two levels."""
    found = []
    for records in (samples(), samples(2) * 60, [("a", 1, b"x" * 9000), ("b", 2, b"y" * 5000)]):
        with tempfile.TemporaryDirectory() as folder:
            container_files.write_lmdb(Path(folder), records)
            found.append((Path(folder) / "data.mdb").read_bytes())
    return found


def hdf5s():
    """Encoded files, pixels, chunks, compressed and not, old format and new."""
    import h5py

    pixels = np.stack([pictures.scene(8, 6, seed) for seed in range(4)])
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.h5"
        for options in ({}, {"chunks": (2,)}, {"chunks": (2,), "compression": "gzip"}):
            container_files.write_hdf5(path, samples(), **options)
            found.append(path.read_bytes())
        for options in ({}, {"chunks": (1, 6, 8, 3)}, {"chunks": (2, 6, 8, 3), "compression": 4}):
            container_files.write_pixels(path, pixels, [0, 1, 2, 0], **options)
            found.append(path.read_bytes())
        with h5py.File(path, "w", libver="latest") as file:
            file["images"], file["labels"] = pixels, np.arange(4)
        found.append(path.read_bytes())
    return found


_containers: dict = {}


def indexes():
    """Index files; each begins with which container it is for (see `container_of`)."""
    found = []
    kinds = {"tar": tars()[0], "tfrecord": tfrecords()[0], "lmdb": lmdbs()[0]}
    with tempfile.TemporaryDirectory() as folder:
        for kind, data in kinds.items():
            path = os.path.join(folder, "data.mdb" if kind == "lmdb" else f"a.{kind}")
            Path(path).write_bytes(data)
            os.utime(path, ns=(0, INDEXED_NS))
            if kind == "tar":
                open_tar([path])
            elif kind == "lmdb":
                open_lmdb(path)
            else:
                open_tfrecord([path])
            _containers[kind] = data
            found.append(_without_identity(Path(path + ".index").read_bytes()))
    return found


def _without_identity(data):
    """Its random name is set to one value, or no mutant would ever come again."""
    from fuzz_formats import mend_index

    at = data.index(b'"id": "') + 7
    return mend_index(data[:at] + b"0" * 16 + data[at + 16 :])


def container_of(data):
    """Kind and bytes of the container that an index (or a mutant of it) was for."""
    if not _containers:
        indexes()
    kind = next((kind for kind in ("lmdb", "tfrecord") if kind.encode() in data[:200]), "tar")
    return kind, _containers[kind]


def classes():
    """classes.json."""
    lists = (["bird", "cat", "dog"], ["é", "日本", "train"])
    return [json.dumps(names).encode() for names in lists]


def markers():
    """pack.json."""
    from train.pack import target
    from train.pack.options import PackOptions

    found = []
    for container, content in (("tar", "windows"), ("lmdb", "raw")):
        options = PackOptions("src", "dst", container=container, content=content, short_side=256)
        counts = {"records:train": 9, "kept": 1, "reasons": {"CMYK": 1}}
        marker = {
            "format": target.FORMAT, "version": target.VERSION, "made_by": "wellfed 0.1.0",
            "options": options.lasting(), "subsampling": "420", "records": {"train": 9, "val": 2},
            "counts": counts, "about": {"source": "x"},
        }  # fmt: skip
        found.append(json.dumps(marker, indent=1).encode())
    return found


def journals():
    """A few positions each; states of every writer."""
    from fuzz_records import ABOUT

    states = ({"shard": 0, "size": 4096}, {"entries": 3, "keys": 40}, {"size": 99}, None)
    found = []
    for state in states:
        lines = [{"version": 1, "about": ABOUT}]
        for number in range(3):
            sizes = {"bad_samples.jsonl": 0, "pack.crc32": 0} if number else {}
            counts = {"records:train": number, "reasons": {"CMYK": number}}
            line = {"split": "train", "next": number, "writer": state, "sizes": sizes}
            lines.append({**line, "counts": counts})
        lines.append({"split": "", "next": 0, "writer": None, "sizes": {}, "counts": {}})
        found.append(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return found


def ledgers():
    """Bad samples of a run and of a pack."""
    rows = [
        {"key": f"train:cat/{n}.jpg", "index": n, "reason": "damaged", "rank": 0, "kept": n > 1}
        for n in range(4)
    ]
    return [b"".join(json.dumps(row).encode() + b"\n" for row in rows)]


def metrics():
    """Rows of three epochs."""
    row = {
        "step": 9, "lr": 0.1, "train_loss": 1.5, "train_top1": 0.4, "train_top5": None,
        "val_loss": 1.2, "val_top1": 0.5, "val_top5": 0.9, "val_samples": 50, "images_per_s": 300.0,
        "data_wait_share": 0.01, "first_batch_s": 0.2, "skipped_steps": 0, "train_s": 3.0,
        "val_s": 1.0, "gpu_util": 97.0, "bad_samples": 1, "time": 1.7e9,
    }  # fmt: skip
    return [b"".join(json.dumps({"epoch": n, **row}).encode() + b"\n" for n in range(3))]


def settings():
    """settings.json and the like."""
    rows = [{"name": "data.workers", "value": 4, "reason": "4 CPUs", "source": "affinity"}] * 3
    return [json.dumps(rows).encode(), *ledgers(), *metrics(), *configs()]


def configs():
    """Recipes."""
    import dataclasses

    whole = dataclasses.asdict(Config())
    short = {"data": {"path": "x", "workers": 3}, "optim": {"lr": 0.1}, "run": {"seed": 1}}
    return [yaml.safe_dump(tree, sort_keys=False).encode() for tree in (whole, short)]


def checkpoints():
    """A run's, of a model of two layers: as it is saved, and as it was before files were sealed."""
    import torch

    from train import checkpoint, checkpoint_file

    before = random.getstate(), np.random.get_state()
    random.seed(0)  # a checkpoint has the generators' states
    np.random.seed(0)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    config = {"run.seed": 1, "data.path": "x", "optim.lr": 0.1}
    identity = checkpoint.Identity(config, ("a", "b"), 10, 2)
    state = checkpoint.State(model, optimizer)
    content = checkpoint.content_of(state, identity, [checkpoint.rank_content(state)])
    random.setstate(before[0])
    np.random.set_state(before[1])
    old = io.BytesIO()
    torch.save({**content, "format": 1}, old)
    return [bytes(checkpoint_file.pack(content)), old.getvalue()]


def archive(folder, endings):
    """Files of the archive of bad data, $BAD_DATA, where somebody has it; small ones."""
    with tarfile.open(os.environ["BAD_DATA"]) as file:
        members = [
            member
            for member in file
            if member.isfile() and member.size < 100_000 and folder in member.name.split("/")
        ]
        chosen = [member for member in members if member.name.endswith(endings)]
        return [file.extractfile(member).read() for member in chosen]
