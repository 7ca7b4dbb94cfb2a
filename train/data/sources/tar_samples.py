"""Which members of a tar shard make a sample, as an index: the scan behind `open_tar`."""

import json
import re
from array import array
from collections import Counter
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from train.data.sources.index import Built, Progress
from train.data.sources.names import Names, decode
from train.data.sources.pickles import UNTRUSTED, unpickle
from train.data.sources.scanner import Scanner
from train.data.sources.shards import pack_skipped
from train.data.sources.skipped import IMAGE_EXTENSIONS, MAX_FILE_BYTES, Skipped
from train.data.sources.tar_keys import META, unquote_key
from train.data.sources.tar_members import Member, members
from train.errors import BadSample

IMAGE_ENDINGS = frozenset(ending[1:] for ending in IMAGE_EXTENSIONS)
PICKLE_ENDINGS = frozenset(("pyd", "pickle", "pkl"))
_LABEL_ENDINGS = frozenset(("cls", "json"))
KNOWN = IMAGE_ENDINGS | _LABEL_ENDINGS | PICKLE_ENDINGS
_MOST_LABEL = 1 << 20
_INTEGER = re.compile(rb"\s*([+-]?\d{1,18})\s*")

Read = Callable[[int, int], bytes]


class Sample:
    """What the members of one stem have told so far; `label` is a text where it is bad."""

    __slots__ = ("dotted", "has_cls", "image", "label", "pickle")

    def __init__(self, dotted: bool):
        self.dotted = dotted
        self.image: Optional[Tuple[int, int, bool]] = None
        self.label: Union[int, str, None] = None
        self.has_cls = False
        self.pickle = False


def index_samples(path: str, trust: bool, progress: Optional[Progress]) -> Built:
    """Scan one shard: what `open_index` builds from.

    Args:
        path: the shard.
        trust: unpickle.
        progress: called with the number of images found so far.
    """
    notes: List[str] = []
    skipped: List[Skipped] = []
    samples: Dict[str, Sample] = {}
    unused: Counter = Counter()
    images = 0
    with Scanner(path) as scan:
        for member in members(scan, notes):
            name = _plain(member.name)
            left_out = refusal(name, member)
            if left_out is not None:
                skipped.append(left_out)
                continue
            if member.kind == "folder" or META.match(name):
                continue
            stem, ending, dotted = split_name(name)
            if ending not in KNOWN:
                unused[f".{ending}" if ending else "(none)"] += 1
                continue
            if member.kind == "cut":
                skipped.append(Skipped(unquote_key(stem), "truncated", f"{name!r} is incomplete"))
                samples.pop(stem, None)
                break
            sample = samples.setdefault(stem, Sample(dotted))
            again = take(sample, member, ending, scan.read, trust)
            if again:
                skipped.append(Skipped(unquote_key(stem), "duplicate_key", again))
            if ending in IMAGE_ENDINGS:
                images += 1
                if progress is not None and images % 1000 == 0:
                    progress(images)
    if unused:
        listed = ", ".join(f"{ending} x {count}" for ending, count in unused.most_common(5))
        notes.append(f"members not used: {listed}")
    if not samples and not any(notes):
        notes.append("the archive has no members")
    return _rows(samples, skipped, trust), {"notes": notes}


def split_name(name: str) -> Tuple[str, str, bool]:
    """Split a member's name into stem, ending (small letters) and whether the stem has dots.

    As WebDataset does it, at the first dot of the last part. Where that gives an ending that nobody
    knows (`22.05.jpg`), at the last dot.
    """
    folder, slash, base = name.rpartition("/")
    first, _, ending = base.partition(".")
    if ending.lower() in KNOWN:
        return folder + slash + first, ending.lower(), False
    stem, dot, last = base.rpartition(".")
    if dot and last.lower() in KNOWN:
        return folder + slash + stem, last.lower(), True
    return folder + slash + first, ending.lower(), False


def _plain(name: bytes) -> str:
    text, start = decode(name), 0
    while text.startswith("./", start):  # by position: a megabyte of them took half a minute
        start += 2
        while text.startswith("/", start):
            start += 1
    return text[start:]


def refusal(name: str, member: Member) -> Optional[Skipped]:
    """Why a member is left out whatever its ending says; None where it is not."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        return Skipped(name, "unsafe_name", "leads out of the archive")
    if member.kind not in ("file", "folder", "cut"):
        return Skipped(name, "not_a_file", f"is {member.kind}")
    if member.kind != "folder" and (parts[-1].startswith(".") or "__MACOSX" in parts):
        return Skipped(name, "hidden_file", "")
    return None


def take(sample: Sample, member: Member, ending: str, read: Read, trust: bool) -> str:
    """Add one member to its sample; says why not where the sample has one of its kind already."""
    if ending in IMAGE_ENDINGS:
        if sample.image is not None:
            return f"a second image (.{ending}); the first one is used"
        sample.image = (member.offset, member.size, False)
    elif ending == "cls":
        if sample.has_cls:
            return "a second label (.cls); the first one is used"
        sample.has_cls = True
        sample.label = _label_of_text(read(member.offset, min(member.size, 64)))
    elif ending == "json":
        if sample.label is None:
            sample.label = _label_of_json(read(member.offset, min(member.size, _MOST_LABEL)))
    elif not trust:
        sample.pickle = True
    elif member.size <= MAX_FILE_BYTES:
        try:
            image, label = unpickle(read(member.offset, member.size))
        except BadSample as error:
            sample.label = str(error)
            return ""
        if label is not None:
            sample.label = label
        if image is not None and sample.image is None:
            sample.image = (member.offset, member.size, True)
    return ""


def _label_of_text(text: bytes) -> Union[int, str]:
    match = _INTEGER.fullmatch(text)
    return int(match[1]) if match else f"the label is {text[:20]!r}, expected a class number"


def _label_of_json(text: bytes) -> Union[int, str, None]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return "its .json is damaged, or larger than 1 MiB"
    label = values.get("label") if isinstance(values, dict) else None
    if label is None or (type(label) is int and abs(label) < 1 << 62):
        return label
    return f"its .json has {type(label).__name__} as its label, expected a class number"


def _rows(samples: Dict[str, Sample], skipped: List[Skipped], trust: bool) -> Dict[str, Any]:
    """The arrays of the index; samples that lack something go to `skipped`."""
    keys: List[str] = []
    offsets, lengths, labels, pickled = array("q"), array("q"), array("q"), bytearray()
    for key, sample, problem in complete(samples):
        if problem is not None:
            skipped.append(Skipped(key, *problem))
            continue
        offset, length, is_pickle = sample.image  # type: ignore[misc]
        keys.append(key)
        offsets.append(offset)
        lengths.append(length)
        labels.append(sample.label)  # type: ignore[arg-type]
        pickled.append(is_pickle)
    arrays = {
        "offsets": np.asarray(offsets, dtype=np.int64),
        "lengths": np.asarray(lengths, dtype=np.int64),
        "labels": np.asarray(labels, dtype=np.int64),
        **Names.of(keys).arrays("keys"),
        **pack_skipped(skipped),
    }
    if trust:
        arrays["pickled"] = np.frombuffer(bytes(pickled), dtype=np.uint8)
    return arrays


def complete(
    samples: Dict[str, Sample],
) -> Iterator[Tuple[str, Sample, Optional[Tuple[str, str]]]]:
    """Each sample's key, and (reason, detail) of what it lacks, or None."""
    for stem, sample in samples.items():
        problem = _problem(sample)
        if problem is not None and sample.dotted:
            folder, slash, base = stem.rpartition("/")
            if folder + slash + base.partition(".")[0] in samples:
                continue  # `a.mask.png` beside `a.jpg` belongs to a; it is no sample of its own
        yield unquote_key(stem), sample, problem


def _problem(sample: Sample) -> Optional[Tuple[str, str]]:
    """(reason, detail) of a sample that can't be used."""
    if isinstance(sample.label, str):
        return "bad_label", sample.label
    if sample.pickle and (sample.image is None or sample.label is None):
        return "pickle", f"its {'image' if sample.image is None else 'label'} is {UNTRUSTED}"
    if sample.image is None:
        return "no_image", "has a label and no image"
    if sample.label is None:
        return "no_label", "has an image and no label (.cls, or .json with a label)"
    if sample.image[1] > MAX_FILE_BYTES:
        return "too_large", f"{sample.image[1] >> 20} MiB"
    return None
