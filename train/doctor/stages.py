"""Which part of making a sample takes the CPU: read, decode, augment, or waiting for a lock.

A profile function (`sys.setprofile`) is told of every call. Functions that belong to a stage, by
where they are defined or by what they are called, switch to it until they return; what lies between
belongs to the stage that surrounds it. So a transform that makes Pillow decode at last is counted
as augmentation, but for its decoding. It looks at the clock only where a stage changes.
"""

import re
import sys
import time
from collections import defaultdict
from types import CodeType, FrameType
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

_FOLDERS: Tuple[Tuple[str, str], ...] = (
    ("torchvision/io/", "decode"),
    ("torchvision/transforms/", "augment"),
    ("torchaudio/transforms/", "augment"),
    ("monai/transforms/", "augment"),
    ("albumentations/", "augment"),
    ("albucore/", "augment"),
    ("kornia/", "augment"),
    ("imgaug/", "augment"),
    ("torchio/transforms/", "augment"),
    ("volumentations/", "augment"),
    ("imageio/", "decode"),
    ("tifffile/", "decode"),
    ("pydicom/", "decode"),
    ("nibabel/", "decode"),
)

_PILLOW_DECODES = {"open", "load", "load_prepare", "draft", "verify"}

_NAMES: Tuple[Tuple["re.Pattern[str]", str], ...] = (
    (re.compile(r"(?:^|_)(?:decode|decompress|imread|imdecode|unpack|parse)(?:_|$|r$)"), "decode"),
    (
        re.compile(
            r"(?:^|_)(?:augment\w*|transforms?|jitter|normali[sz]e|resize|crop|flip|rotate|blur|"
            r"noise|mixup|cutout|affine)(?:_|$)"
        ),
        "augment",
    ),
    (re.compile(r"(?:^|_)(?:read|fetch|download)(?:_|$)"), "read"),
)

_LOCKS = {"lock", "RLock", "SemLock", "_thread.lock", "_thread.RLock"}
_LOCK_CALLS = {"flock", "lockf"}
_DECODE_CALLS = {"imread", "imdecode", "decompress", "decode_jpeg", "decode"}


class StageClock:
    """Seconds by stage while it is switched on.

    Args:
        transforms: code of what is known to be a transform (see `transform_code`).
        base: the stage of what has no name.

    Attributes:
        cpu_s, wall_s: by stage.
    """

    def __init__(self, transforms: FrozenSet[CodeType] = frozenset(), base: str = "decode"):
        self.cpu_s: Dict[str, float] = defaultdict(float)
        self.wall_s: Dict[str, float] = defaultdict(float)
        self._known: Dict[CodeType, Optional[str]] = dict.fromkeys(transforms, "augment")
        self._stack: List[Tuple[Any, str]] = [(None, base)]
        self._cpu = self._wall = 0.0

    def __enter__(self) -> "StageClock":
        self._cpu, self._wall = time.thread_time(), time.perf_counter()
        sys.setprofile(self._told)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(None)
        self._look()

    def _told(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            stage = self._of(frame.f_code)
            if stage is not None:
                self._enter(frame, stage)
        elif event == "return":
            self._leave(frame)
        elif event == "c_call":
            stage = _of_builtin(argument)
            if stage is not None:
                self._enter(argument, stage)
        else:  # c_return, c_exception
            self._leave(argument)

    def _enter(self, what: Any, stage: str) -> None:
        self._look()
        self._stack.append((what, stage))

    def _leave(self, what: Any) -> None:
        if self._stack[-1][0] is what:
            self._look()
            self._stack.pop()

    def _look(self) -> None:
        """What was since the last look belongs to the stage that goes on now."""
        stage, cpu, wall = self._stack[-1][1], time.thread_time(), time.perf_counter()
        self.cpu_s[stage] += cpu - self._cpu
        self.wall_s[stage] += wall - self._wall
        self._cpu, self._wall = cpu, wall

    def _of(self, code: CodeType) -> Optional[str]:
        if code not in self._known:
            self._known[code] = stage_of(code.co_filename, code.co_name)
        return self._known[code]


def stage_of(file: str, name: str) -> Optional[str]:
    """The stage of a function, by its file and its name; None: that of its caller."""
    file = file.replace("\\", "/")
    if "/PIL/" in file:
        return "decode" if name in _PILLOW_DECODES else None
    for folder, stage in _FOLDERS:
        if f"/{folder}" in file or file.startswith(folder):
            return stage
    if "multiprocessing/synchronize.py" in file:
        return "lock" if name in ("__enter__", "acquire") else None
    if "/site-packages/" in file or "/train/" in file or "/lib/python" in file:
        return None
    return next((stage for pattern, stage in _NAMES if pattern.search(name.lower())), None)


def _of_builtin(function: Any) -> Optional[str]:
    name = getattr(function, "__name__", "")
    if name in ("acquire", "__enter__"):
        owner = type(getattr(function, "__self__", None))
        return "lock" if owner.__name__ in _LOCKS else None
    if name in _LOCK_CALLS:
        return "lock"
    return "decode" if name in _DECODE_CALLS else None


def transform_code(dataset: Any) -> FrozenSet[CodeType]:
    """Code of the transforms that a data set has, by the usual names of its attributes."""
    found = set()
    for holder in _wrapped(dataset):
        for name, value in list(getattr(holder, "__dict__", {}).items()):
            if callable(value) and re.search("transform|augment", name, re.IGNORECASE):
                found |= _code_of(value)
    return frozenset(found)


def _code_of(value: Any) -> "set[CodeType]":
    """Code of a function, or of an object's methods that are called in its place."""
    candidates = [value, getattr(value, "func", None)]
    candidates += [getattr(type(value), name, None) for name in ("__call__", "forward")]
    codes = [getattr(one, "__code__", None) for one in candidates]
    # The call of torch's modules is everybody's.
    return {code for code in codes if code is not None and "torch/nn/" not in code.co_filename}


def _wrapped(dataset: Any) -> List[Any]:
    """A data set, and those that it wraps (`Subset`, `ConcatDataset`)."""
    seen: List[Any] = []
    waiting = [dataset]
    while waiting and len(seen) < 20:
        one = waiting.pop()
        if any(one is other for other in seen):
            continue
        seen.append(one)
        inside = getattr(one, "dataset", None)
        waiting += [] if inside is None else [inside]
        several = getattr(one, "datasets", None)
        waiting += list(several) if isinstance(several, (list, tuple)) else []
    return seen
