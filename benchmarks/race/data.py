"""The pictures that all arms of a run load: a fixed number of files, and a small version of them.

```
build/bench-data/<name>/full/train/<class>/000000-<file>.jpg      count files
build/bench-data/<name>/full/val/<class>/...                      one a class: our loader wants some
build/bench-data/<name>/short256/train/... and val/...            short side 256, quality 90, 4:2:0
build/bench-data/<name>/packed/<peer>-<form>                      what the arms store
```

Fewer files than asked for are repeated as copies of their own. Links would do for warm reads, but
then the files would fit into a CPU's cache while a container holds each copy apart.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "build" / "bench-data"
SETS = ("full", "short256")
SHORT_SIDE = 256
VERSION = 1
_ENDINGS = (".jpg", ".jpeg")


class NoPictures(Exception):
    """The data can't be used; the message says why and what to do."""


def find_jpegs(folder):
    """Every JPEG below a folder and its class: the name of the folder it lies in."""
    root = Path(folder)
    if not root.is_dir():
        raise NoPictures(f"no such folder: {folder}")
    found = sorted(path for path in root.rglob("*") if path.suffix.lower() in _ENDINGS)
    if not found:
        raise NoPictures(f"{folder} holds no .jpg or .jpeg file")
    return [(path, path.parent.name if path.parent != root else "pictures") for path in found]


def _digest(files, count):
    state = hashlib.sha256(f"{VERSION} {count}".encode())
    for path, _ in files:
        status = path.stat()
        state.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.hexdigest()[:10]


def _shorten(source, target):
    with Image.open(source) as image:
        picture = image.convert("RGB")
    share = SHORT_SIDE / min(picture.size)
    if share < 1:
        size = [max(SHORT_SIDE, round(side * share)) for side in picture.size]
        picture = picture.resize(size, Image.BICUBIC)
    picture.save(target, "JPEG", quality=90, subsampling="4:2:0")


def _write_set(files, count, folder, place):
    """Store file number i as `place(source, target)` does; repeated ones are copied."""
    first = {}
    per_class = {}
    for number in range(count):
        source, name = files[number % len(files)]
        target = folder / "train" / name / f"{number:06d}-{source.stem}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        if source in first:
            shutil.copyfile(first[source], target)
        else:
            place(source, target)
            first[source] = target
        per_class.setdefault(name, target)
    for name, source in per_class.items():
        target = folder / "val" / name / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def describe(folder):
    """What a set is: files, mean bytes, mean pixels, share of each colour resolution."""
    names = {(1, 1): "4:4:4", (2, 1): "4:2:2", (2, 2): "4:2:0", (1, 2): "4:4:0"}
    sizes, pixels, kinds = [], [], {}
    for path in sorted((folder / "train").glob("*/*.jpg")):
        sizes.append(path.stat().st_size)
        with Image.open(path) as image:
            pixels.append(image.width * image.height)
            layers = getattr(image, "layer", [])
            kind = "grey" if image.mode == "L" else names.get(tuple(layers[0][1:3]), "other")
            kind = "progressive " + kind if image.info.get("progressive") else kind
        kinds[kind] = kinds.get(kind, 0) + 1
    return {
        "files": len(sizes),
        "bytes": round(sum(sizes) / len(sizes)),
        "pixels": round(sum(pixels) / len(pixels)),
        "kinds": dict(sorted(kinds.items(), key=lambda item: -item[1])),
    }


def prepare(files, name, count, root=None):
    """Lay the data of a run out, once.

    Args:
        files: (path, class) of every picture, see `find_jpegs`.
        name: of the set, for people.
        count: how many files each set gets.
        root: where; None: build/bench-data.

    Returns:
        (folder, {set: description}).
    """
    folder = Path(root or DATA) / f"{name}-{count}-{_digest(files, count)}"
    marker = folder / "data.json"
    if marker.exists():
        return folder, json.loads(marker.read_text())
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    _write_set(files, count, partial / "full", shutil.copyfile)
    _write_set(files, count, partial / "short256", _shorten)
    described = {which: describe(partial / which) for which in SETS}
    (partial / "packed").mkdir()
    (partial / "data.json").write_text(json.dumps(described))
    os.rename(partial, folder)
    return folder, described


def choose_pictures(folder, count, root=None):
    """Lay out the JPEG files of a folder, or generated pictures where none is named.

    Returns:
        As `prepare`.

    Raises:
        NoPictures: there is nothing to use in `folder`.
    """
    if folder:
        given = Path(folder).expanduser()
        return prepare(find_jpegs(given), given.resolve().name, count, root)
    from make_pictures import make_pictures

    made = make_pictures(Path(root or DATA) / f"pictures-{count}", count)
    return prepare(find_jpegs(made), "generated", count, root)


def bytes_of(path):
    """Bytes of a file, or of all files of a folder; where it has a `train` part, of that alone."""
    path = Path(path)
    if path.is_file():
        return path.stat().st_size
    parts = [entry for entry in path.iterdir() if entry.name.startswith("train")] or [path]
    files = [part for part in parts if part.is_file()]
    files += [entry for part in parts for entry in part.rglob("*") if entry.is_file()]
    return sum(file.stat().st_size for file in files)
