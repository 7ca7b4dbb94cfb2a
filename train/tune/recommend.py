"""What packing the data would gain, measured on a few of the records: content and container."""

import shlex
import time
from typing import Any, Callable, List, NamedTuple, Optional

import numpy as np

from train.config import Config
from train.data.fill import recipe_of
from train.data.sources import Record, Source
from train.errors import BadSample
from train.pack.contents import convert
from train.pack.options import PackOptions
from train.tune.costs import EPOCH, Costs
from train.tune.predict import LEAST_WAITING
from train.tune.stages import HELD_BYTES, Records, one_core, stage_times

LOOKED_AT = 24
"""Records that are converted."""

COMPILE_S = 20.0
"""What making windows may take the first time on a machine: its kernels are compiled then."""

WORTH = 1.15
"""A gain is recommended from here on; less is within the noise of so short a look."""

SHORT_SIDES = (256, 384, 512, 768, 1024)
"""A pack's short side: the first that leaves a seventh more than the model sees, as 256 for 224."""


class Option(NamedTuple):
    """One way to store the data.

    Attributes:
        content, short_side: as `train pack` has them.
        seconds: an image, decoding and resizing, CPU seconds.
        image_bytes: mean.
    """

    content: str
    short_side: Optional[int]
    seconds: float
    image_bytes: float


class Advice(NamedTuple):
    """What to do beside the loader's settings, in words, and the command for it."""

    words: str
    command: str


def options(
    source: Source,
    config: Config,
    seconds: float,
    deadline: float,
    progress: Callable[[str], None] = lambda text: None,
) -> List[Option]:
    """What a few records would cost in other contents; the first one is what they cost now.

    Args:
        source: of the run.
        config: its settings.
        seconds: for each content, about.
        deadline: `time.perf_counter`; what would end after it is left out.
        progress: told what goes on.
    """
    data = config.data
    recipe = recipe_of(data, train=True, seed=0)
    numbers = np.linspace(0, len(source) - 1, num=min(LOOKED_AT, len(source))).astype(int)
    records = [one for one in (_read(source, int(number)) for number in numbers) if one]
    side = next((one for one in SHORT_SIDES if one >= 8 / 7 * data.image_size), None)
    found: List[Option] = []
    asked: List[Any] = [("original", None)]
    if side is not None:
        asked += [("raw", side)]
    asked += [("windows", None)]
    if side is not None:
        asked += [("windows", side)]
    for content, short_side in asked:
        need = COMPILE_S if (content, short_side) == ("windows", None) else 4 * seconds
        if time.perf_counter() + need > deadline:
            break
        progress(f"packed as {content}" + (f", short side {short_side}" if short_side else ""))
        made, held = Records(), 0
        for record in records:
            image = convert(
                record.data, PackOptions("", "", content=content, short_side=short_side)
            )
            made.kept.append((EPOCH, len(made.kept), record._replace(data=image.data)))
            held += len(image.data)
            if held > HELD_BYTES:
                break
        with one_core():
            times = stage_times(made, recipe, seconds / 2) if made.kept else None
        if times is not None:
            cost = times[0][1] + times[1][1]  # of the CPU: it is what more workers can't hide
            found.append(Option(content, short_side, cost, held / len(made.kept)))
    return found


def advise(found: List[Option], costs: Costs, path: str, kind: str = "folder") -> Optional[Advice]:
    """One recommendation for data that are the limit; None where no packing helps.

    Args:
        found: of `options`; the first is what the data are now.
        costs: of the run.
        path: of the data.
        kind: of container: folder, tar, lmdb, hdf5, tfrecord.
    """
    if not found or costs.read is None:
        return None
    now, read = found[0], costs.read
    whole = read.seconds + now.seconds
    waiting = max(0.0, read.seconds - read.cpu_s)
    if waiting > max(LEAST_WAITING * whole, now.seconds):
        return _for_the_disk(found, waiting, path, kind)
    rest = max(0.0, costs.batch.cpu_s - now.seconds)  # reading, and what a batch costs beside
    gains = [((rest + now.seconds) / (rest + one.seconds), one) for one in found[1:]]
    same = max([pair for pair in gains if pair[1].short_side is None], default=None)
    other = max([pair for pair in gains if pair[1].short_side is not None], default=None)
    said = []
    if same is not None and same[0] >= WORTH:
        said.append((f"{same[0]:.1f} x as fast on each core, the same pixels", same[1]))
    if other is not None and other[0] >= WORTH * max(1.0, same[0] if same else 1.0):
        more = other[1].image_bytes / now.image_bytes
        size = f", {more:.1f} x the bytes" if more >= WORTH else ""
        said.append((f"{other[0]:.1f} x as fast on each core, smaller images{size}", other[1]))
    if not said:
        return None
    words = "; ".join(f"packed as {_words(one)} it would be {gain}" for gain, one in said)
    return Advice(f"decoding is most of the work: {words}", _command(path, said[0][1]))


def _for_the_disk(found: List[Option], waiting: float, path: str, kind: str) -> Optional[Advice]:
    now = found[0]
    smallest = min(found[1:], key=lambda one: one.image_bytes, default=None)
    words = f"a worker waits {waiting * 1000:.1f} ms for the bytes of an image"
    if smallest is not None and now.image_bytes >= WORTH * smallest.image_bytes:
        less = now.image_bytes / smallest.image_bytes
        return Advice(
            f"{words}: packed as {_words(smallest)} an image has {less:.1f} x fewer bytes, and "
            "lies in a few large files",
            _command(path, smallest),
        )
    if kind == "folder":
        return Advice(
            f"{words}: in a few large files it is one read an image, and no file to open",
            _command(path, Option("original", None, now.seconds, now.image_bytes)),
        )
    return None


def _words(one: Option) -> str:
    return one.content + (f", short side {one.short_side}" if one.short_side else "")


def _command(path: str, one: Option) -> str:
    out = shlex.quote(f"{path.rstrip('/')}-{one.content}")
    side = f" --short-side {one.short_side}" if one.short_side else ""
    return f"train pack {shlex.quote(path)} {out} --content {one.content}{side}"


def _read(source: Source, index: int) -> Optional[Record]:
    try:
        return source[index]
    except (BadSample, OSError):
        return None
