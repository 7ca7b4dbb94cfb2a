"""What the tests of packing share: a small source, packs made here or killed elsewhere."""

import json
import os
import signal
from pathlib import Path

import pictures

import train.pack.run
import train.pack.write
from train.data.sources.open import open_sets
from train.errors import Interrupted, TrainError
from train.machine import Measure
from train.pack.options import PackOptions

CONTAINERS = ("folder", "tar", "lmdb", "hdf5", "tfrecord")
CPUS = Measure("CPUs", 2, "a test")


def write_source(root, count=7, val=3):
    """root/{train,val}/{bird,cat,dog}: JPEGs of all kinds, a PNG, names that are hard to carry."""
    pictures.write_tree(root / "train", count=count)
    if val:
        pictures.write_tree(root / "val", count=val, seed=5)
    odd = root / "train/cat"
    (odd / "dots.in.name.v1.0.jpg").write_bytes((odd / "000.jpg").read_bytes())
    (odd / "new\nline %41 日本.jpg").write_bytes((odd / "001.jpg").read_bytes())
    (odd / os.fsdecode(b"caf\xe9.jpg")).write_bytes((odd / "002.jpg").read_bytes())
    (odd / "below" / "it").mkdir(parents=True)
    (odd / "below" / "it" / "x.png").write_bytes(pictures.encode(pictures.scene(40, 30), "PNG"))
    return root


def pack(src, dst, **options):
    """`train pack` in this process, without the measurement at its end."""
    made = PackOptions(str(src), None if dst is None else str(dst), **options)
    measure, train.pack.run.measure = train.pack.run.measure, lambda *_: None
    try:
        train.pack.run.pack(made, CPUS)
    finally:
        train.pack.run.measure = measure


def pack_and_die(src, dst, hook, **options):
    """The same in a child that `hook` has prepared to kill itself; says whether it was killed."""
    child = os.fork()
    if not child:
        code = 1
        try:
            hook()
            pack(src, dst, **options)
            code = 0
        except (Interrupted, TrainError):
            code = 2
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def die():
    """End as by the kernel: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def records(path):
    """Everything in a data set: {split: [(key, label, bytes)]}."""
    sets = open_sets(str(path), allow_empty=True)
    found = {"train": sets.train}
    if sets.val is not None:
        found["val"] = sets.val
    return {
        name: [(r.key, r.label, bytes(r.data)) for r in (source[n] for n in range(len(source)))]
        for name, source in found.items()
    }


def classes(path):
    return open_sets(str(path), allow_empty=True).classes


def files(folder):
    """Every file of a pack and its bytes, but for indexes, which hold the time of their file."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.suffix != ".index"
    }


def marker(folder):
    return json.loads((Path(folder) / "pack.json").read_bytes())


def ledger(folder):
    lines = (Path(folder) / "bad_samples.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
