"""Every arm of the race: what it is, what it reads, and how it differs from the others.

Common to all: RandomResizedCrop to 224 with scale 0.08 to 1 and ratio 3/4 to 4/3, flip with
probability 1/2, batches of 64 in host memory, one worker for each usable CPU, the same pictures.
"""

from typing import NamedTuple, Optional, Tuple

OURS, PEER, WRITTEN, LIMIT = "ours", "peer", "written", "limit"
AA, LINEAR, AREA = "antialiased", "linear", "area"

CONTAINERS = ("tar", "folder", "lmdb", "hdf5", "tfrecord")
"""The first one is what `train pack` writes unless told otherwise, and what our arms load."""


class Arm(NamedTuple):
    """One row of the table.

    Attributes:
        name: what --only takes.
        kind: OURS, PEER (as it comes), WRITTEN (decode code by us around a peer), LIMIT.
        data: "full" or "short256".
        environment: of benchmarks/peers/, "" for the project's own.
        entry: the arm's name in run.py.
        title: for people.
        resize: how it scales.
        form: what the arm's `pack` stores first; None: it reads the files.
        notes: what differs from the common task.
    """

    name: str
    kind: str
    data: str
    environment: str
    entry: str
    title: str
    resize: str = AA
    form: Optional[str] = None
    notes: Tuple[str, ...] = ()

    @property
    def groups(self):
        """Other words of --only that choose this arm."""
        words = {self.kind, self.data, self.environment}
        if self.name.startswith("container-"):
            words.add("containers")
        return words - {""}

    @property
    def raw(self):
        """Whether it keeps pixels, all or half of them, where the others decode JPEG."""
        return bool(self.form) and self.form.split("-")[-1] in ("raw", "mixed")

    @property
    def by_default(self):
        """Whether it runs when nothing is named: five rounds of all others take 20 minutes."""
        threads = self.name.endswith("-threads") and self.kind == OURS
        extra = threads and (self.data == "short256" or "raw" in self.name)
        return not extra and self.name != "tv-v1" and "containers" not in self.groups


_FULL_PEERS = (
    ("tv-tutorial", "torchvision", "v1_float", "torchvision v1 + PIL, as in tutorials", AA, None),
    ("tv-v1", "torchvision", "v1_uint8", "torchvision v1 + PIL", AA, None),
    ("tv-v2", "torchvision", "v2_uint8", "torchvision decode_jpeg + v2, our PyTorch", AA, None),
    ("tv-v2-new", "torchvision_new", "v2_uint8", "torchvision decode_jpeg + v2", AA, None),
    ("timm", "timm", "loader", "timm create_loader", AA, None),
    ("webdataset", "webdataset", "v2_uint8", "WebDataset, decode_jpeg + v2", AA, "tar"),
    ("litdata", "litdata", "v2_uint8", "LitData + v2", AA, "chunks"),
    ("streaming", "streaming", "v2_uint8", "MosaicML Streaming, decode_jpeg + v2", AA, "mds"),
    ("ffcv-jpg", "ffcv", "loader", "FFCV jpg", AREA, "jpg"),
    ("ffcv-mixed", "ffcv", "loader", "FFCV half raw, long side 500", AREA, "mixed"),
    ("dali", "dali", "antialiased", "DALI on the CPU", AA, None),
    ("dali-linear", "dali", "linear", "DALI on the CPU, linear", LINEAR, None),
    ("spdl", "spdl", "ffmpeg", "SPDL (FFmpeg)", "swscale bilinear", None),
    ("grain", "grain", "pillow", "Grain + Pillow", AA, None),
)
_SHORT_PEERS = (
    ("s256-tv-v2-new", "torchvision_new", "v2_uint8", "torchvision decode_jpeg + v2", AA, None),
    ("s256-litdata", "litdata", "v2_uint8", "LitData + v2", AA, "chunks"),
    ("s256-ffcv-jpg", "ffcv", "loader", "FFCV jpg", AREA, "jpg"),
    ("s256-ffcv-raw", "ffcv", "loader", "FFCV raw", AREA, "raw"),
    ("s256-dali", "dali", "antialiased", "DALI on the CPU", AA, None),
)
_WRITTEN = (
    ("simplejpeg-cv2", "full", "threads_linear", "simplejpeg + OpenCV, linear", LINEAR),
    ("simplejpeg-cv2-area", "full", "threads_area", "simplejpeg + OpenCV, area", AREA),
    ("grain-simplejpeg", "full", "grain_linear", "Grain + simplejpeg + OpenCV", LINEAR),
    ("s256-simplejpeg-cv2", "short256", "threads_linear", "simplejpeg + OpenCV, linear", LINEAR),
    ("s256-grain-simplejpeg", "short256", "grain_linear", "Grain + simplejpeg + OpenCV", LINEAR),
)
_NOTES = {
    "tv-tutorial": "float32, normalised on the CPU",
    "webdataset": "shuffles within a buffer of 500; shards drawn with replacement",
    "ffcv-jpg": "encoded again by FFCV, quality 90, 4:2:0: less to decode, and lossy",
    "ffcv-mixed": "half of it encoded again by FFCV, half raw, reduced to 500 pixels: lossy",
    "s256-ffcv-jpg": "encoded again by FFCV, quality 90, 4:2:0: lossy",
    "dali": "shuffles within a buffer of 1,000",
    "spdl": "crops drawn by our code; FFmpeg's own JPEG decoder",
    "grain": "load and crop function in Python around Pillow, as Grain has none",
    "coefficients": "pixels within half a level of the others' on average; see coefficients.py",
    "written": "not a product: decode code written for this comparison",
}


def _notes(name, environment):
    return tuple(_NOTES[key] for key in dict.fromkeys((name, environment)) if key in _NOTES)


def _peers():
    for data, rows in (("full", _FULL_PEERS), ("short256", _SHORT_PEERS)):
        for name, environment, entry, title, resize, form in rows:
            notes = _notes(name, environment)
            yield Arm(name, PEER, data, environment, entry, title, resize, form, notes)
    for name, data, entry, title, resize in _WRITTEN:
        yield Arm(
            name, WRITTEN, data, "written", entry, title, resize, None, _notes(name, "written")
        )


def _ours():
    contents = {
        "windows": "packed: windows, the same pixels",
        "coefficients": "packed: coefficients in LMDB",
        "raw": "packed: raw",
        "jpeg": "the JPEG files",
    }
    for worker in ("process", "thread"):
        many = {"process": "processes", "thread": "threads"}[worker]
        yield Arm(f"ours-{many}", OURS, "full", "", worker, f"{contents['jpeg']}, {many}")
        for content in ("windows", "coefficients", "raw"):
            name, title = f"ours-{content}-{many}", f"{contents[content]}, {many}"
            yield _packed(name, "full", worker, title, content)
        for content in ("jpeg", "windows", "coefficients", "raw"):
            name, title = f"s256-ours-{content}-{many}", f"{contents[content]}, {many}"
            if content == "jpeg":
                yield Arm(name, OURS, "short256", "", worker, title)
            else:
                yield _packed(name, "short256", worker, title, content)
    for container in CONTAINERS[1:]:
        title = f"windows in {container}, processes"
        name, form = f"container-{container}", f"{container}-windows"
        yield Arm(name, OURS, "full", "", "process", title, form=form)


def _packed(name, data, worker, title, content):
    """An arm of ours over what `train pack` wrote."""
    container = "lmdb" if content == "coefficients" else CONTAINERS[0]
    form, notes = f"{container}-{content}", _notes(content, "")
    return Arm(name, OURS, data, "", worker, title, form=form, notes=notes)


def _limits():
    for data, prefix in (("full", ""), ("short256", "s256-")):
        title = "libjpeg-turbo alone, files in memory"
        yield Arm(f"{prefix}limit", LIMIT, data, "", "limit", title, "none")


ARMS = (*_limits(), *_ours(), *_peers())


class UnknownArm(ValueError):
    """A word of --only that names nothing."""


def choose(only):
    """The arms that a list of names or groups chooses, in the table's order.

    None chooses those that run by default, "all" every arm.

    The limits come with whatever they are the limit of.
    """
    if not only:
        return tuple(arm for arm in ARMS if arm.by_default)
    if "all" in only:
        return ARMS
    known = {arm.name for arm in ARMS}.union(*(arm.groups for arm in ARMS))
    for word in only:
        if word not in known:
            raise UnknownArm(f"--only: no arm or group is called {word!r}; see --list")
    chosen = [arm for arm in ARMS if arm.name in only or arm.groups & set(only)]
    sets = {arm.data for arm in chosen}
    return tuple(arm for arm in ARMS if arm in chosen or (arm.kind == LIMIT and arm.data in sets))
