"""What is fuzzed: each of our readers with its seeds, its mutations and what must hold.

A mutant is a function of (target, number) alone. `check` may raise what the product raises for bad
input, and nothing else; what it returns is not looked at.
"""

import os
import random
from typing import Any, Callable, List, NamedTuple, Optional, Tuple, Type

import fuzz_bytes
import fuzz_containers
import fuzz_documents
import fuzz_formats
import fuzz_images
import fuzz_records
import fuzz_seeds

from train.data.sources.probe_child import MEMORY_BYTES
from train.errors import BadSample, TrainError

FAMILY: Tuple[Type[BaseException], ...] = (BadSample, TrainError)
"""What bad input may raise."""


class Target(NamedTuple):
    """One reader.

    Attributes:
        seeds: makes the sound inputs.
        check: reads one input; gets its bytes, a folder of its own, and a random generator.
        mutate: makes a mutant from a random generator and the seeds.
        share: how often it has its turn, beside the others.
        refusals: errors beyond FAMILY that its caller expects.
        files: whether it needs the folder.
        growth_mib: by so much one input (of 1 MiB at most) may raise the process's peak of memory.
        contained: reads the input as the product does, in a child; where the library that reads it
            may crash, this is what must hold then.
    """

    seeds: Callable[[], List[bytes]]
    check: Callable[[bytes, Any, random.Random], Any]
    mutate: Callable[[random.Random, List[bytes]], bytes] = fuzz_bytes.of_bytes
    share: float = 1.0
    refusals: Tuple[Type[BaseException], ...] = ()
    files: bool = True
    growth_mib: int = 160
    contained: Optional[Callable[[bytes, Any], Any]] = None


def _image(seeds, share, mutate=fuzz_bytes.of_bytes):
    return Target(seeds, fuzz_images.image, mutate, share, files=False)


_tar = fuzz_formats.repaired(fuzz_formats.mend_tar)
_index = fuzz_formats.repaired(fuzz_formats.mend_index, 0.85)

TARGETS = {
    "jpeg": _image(fuzz_seeds.jpegs, 14, fuzz_formats.of_pictures),
    "windows": _image(fuzz_seeds.packed, 8, fuzz_formats.of_pictures),
    "png": _image(fuzz_seeds.pngs, 8, fuzz_formats.of_pictures),
    "webp": _image(fuzz_seeds.webps, 4),
    "others": _image(fuzz_seeds.others, 8),
    "ppm": _image(fuzz_seeds.ppms, 2),
    "transcoder": Target(
        fuzz_seeds.jpegs,
        fuzz_images.transcode,
        fuzz_formats.of_pictures,
        6,
        refusals=fuzz_images.UNSUPPORTED,
        files=False,
    ),
    "splice": Target(fuzz_seeds.packed, fuzz_images.splice, share=8, files=False),
    "convert": Target(
        fuzz_seeds.of_all_kinds, fuzz_images.convert, fuzz_formats.of_pictures, 2, files=False
    ),
    "exif": Target(fuzz_seeds.exifs, fuzz_images.orientation, share=3, files=False),
    "tar": Target(fuzz_seeds.tars, fuzz_containers.tar, _tar, 8),
    "stream": Target(fuzz_seeds.tars, fuzz_containers.stream, _tar, 2),
    "tfrecord": Target(fuzz_seeds.tfrecords, fuzz_containers.tfrecord, fuzz_formats.of_examples, 6),
    "example": Target(
        fuzz_seeds.examples,
        fuzz_containers.example,
        share=4,
        refusals=fuzz_containers.MALFORMED,
        files=False,
    ),
    "crc": Target(fuzz_seeds.tfrecords, fuzz_containers.checksum, files=False),
    "index": Target(fuzz_seeds.indexes, fuzz_containers.index, _index, 5),
    "lmdb": Target(fuzz_seeds.lmdbs, fuzz_containers.lmdb, fuzz_formats.of_pages, 4),
    "hdf5": Target(
        fuzz_seeds.hdf5s,
        fuzz_containers.hdf5,
        fuzz_formats.of_pages,
        2,
        refusals=fuzz_containers.HDF5,
        growth_mib=MEMORY_BYTES >> 20,
        contained=fuzz_containers.hdf5_contained,
    ),
    "classes": Target(fuzz_seeds.classes, fuzz_records.classes, fuzz_documents.of_json, 3),
    "pack.json": Target(fuzz_seeds.markers, fuzz_records.marker, fuzz_documents.of_json, 3),
    "journal": Target(fuzz_seeds.journals, fuzz_records.journal, fuzz_documents.of_lines, 2),
    "ledger": Target(fuzz_seeds.ledgers, fuzz_records.ledger, fuzz_documents.of_lines, 2),
    "metrics": Target(fuzz_seeds.metrics, fuzz_records.metrics, fuzz_documents.of_lines, 2),
    "settings": Target(fuzz_seeds.settings, fuzz_records.settings, fuzz_documents.of_json),
    "config": Target(fuzz_seeds.configs, fuzz_records.config, fuzz_documents.of_yaml),
    "checkpoint": Target(fuzz_seeds.checkpoints, fuzz_records.checkpoint, fuzz_formats.of_zips, 2),
}

if os.path.isfile(os.environ.get("BAD_DATA", "")):
    _archive = fuzz_seeds.archive
    TARGETS.update(
        {
            "bad-images": _image(lambda: _archive("files", ""), 4, fuzz_formats.of_pictures),
            "bad-tar": Target(lambda: _archive("tar", ".tar"), fuzz_containers.tar, _tar, 2),
            "bad-tfrecord": Target(
                lambda: _archive("tfrecord", "d"),
                fuzz_containers.tfrecord,
                fuzz_formats.of_examples,
                2,
            ),
            "bad-lmdb": Target(
                lambda: _archive("lmdb", ".mdb"), fuzz_containers.lmdb, fuzz_formats.of_pages, 2
            ),
        }
    )

_seeds: dict = {}


def seeds_of(name):
    """The sound inputs of a target; made once a process."""
    if name not in _seeds:
        _seeds[name] = TARGETS[name].seeds()
    return _seeds[name]


def mutant(name, number):
    """The input, and the generator that its check goes on with."""
    draw = random.Random(f"{name}:{number}")
    return TARGETS[name].mutate(draw, seeds_of(name)), draw
