"""What tuning found, kept for this machine, these data and these versions.

One small JSON file a finding, in the user's cache folder (XDG_CACHE_HOME, else ~/.cache). Its name
is a hash of its key, and the key lies in it too. A file that is damaged, or of another key, counts
as none: then it is measured again. A folder that can't be written costs the memory of it, no run.
"""

import hashlib
import json
import os
import platform
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Optional

from train import __version__, machine
from train.config import Config
from train.errors import TrainError
from train.files import write_whole
from train.tune.tuned import Tuned

FORMAT = 1
"""Of the files; another one counts as none."""

PACKAGES = ("torch", "numpy", "simplejpeg", "pillow", "numba")
"""Their versions decide how fast a batch is made."""

MOST_BYTES = 1 << 20
"""A file of ours is some kilobytes."""


def folder() -> Path:
    """Where findings are kept."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~"), ".cache")
    return home / "wellfed" / "tune"


def key_of(
    config: Config, accelerator: str, cpus: int, data: Dict[str, Any], device: str
) -> Dict[str, Any]:
    """What a finding holds for.

    Args:
        config: the run's settings.
        accelerator: cpu, cuda, or sim:IMAGES_PER_S.
        cpus: usable ones.
        data: `data_identity`.
        device: name of the GPU; '' without one.
    """
    settings = config.data
    return {
        "format": FORMAT,
        "machine": {
            "processor": processor(),
            "cpus": cpus,
            "memory": machine.memory_limit_bytes().value,
            "device": device,
        },
        "accelerator": accelerator,
        "data": data,
        "model": "" if accelerator.startswith("sim") else config.model.name,
        "precision": config.run.precision,
        "settings": {
            name: getattr(settings, name)
            for name in (
                "image_size",
                "batch_size",
                "crop_min",
                "resize",
                "workers",
                "prefetch",
                "workers_kind",
            )
        },
        "versions": {"train": __version__, "python": platform.python_version(), **_versions()},
    }


def data_identity(root: str, count: int, kind: str, content: str) -> Dict[str, Any]:
    """What tells these data from others.

    Args:
        root: their folder or file.
        count: images of the training set.
        kind: of container.
        content: how a record is decoded, in words.
    """
    path = os.path.realpath(root)
    try:
        found = os.stat(path)
        size = found.st_size if not os.path.isdir(path) else 0
        device = found.st_dev
    except OSError:
        size = device = 0
    return {
        "path": path,
        "device": device,
        "size": size,
        "images": count,
        "kind": kind,
        "content": content,
    }


def look_up(key: Dict[str, Any]) -> Optional[Tuned]:
    """What is known; None where nothing is, or where the file is no good."""
    path = _path(key)
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None  # a pipe or a device would be read for ever
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["key"] != json.loads(json.dumps(key)):
            return None
        tuned = Tuned.from_json(found["tuned"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if tuned.disturbed and tuned.made != date.today().isoformat():
        return None  # made on a busy machine: that holds for a day
    return tuned


MAY_DIFFER = ("image_size", "batch_size", "crop_min")
"""Settings of the data by which a finding is still told of, though not used."""

MOST_FILES = 200
"""So many findings are looked through, the newest ones."""


def nearest(key: Dict[str, Any]) -> Dict[str, Any]:
    """In what the nearest finding for this machine and these data differs from what is asked for.

    Args:
        key: of which nothing is known.

    Returns:
        Setting -> its value there; empty where there is no such finding.
    """
    asked = _settings(json.loads(json.dumps(key)))
    found: Dict[str, Any] = {}
    for path in _newest():
        try:
            there = json.loads(path.read_text(encoding="utf-8"))["key"]
            settings = _settings(there)
            alike = _rest(there) == _rest(json.loads(json.dumps(key))) and look_up(there)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        differs = {name: settings[name] for name in asked if settings[name] != asked[name]}
        if alike and differs and (not found or len(differs) < len(found)):
            found = differs
    return found


def _settings(key: Dict[str, Any]) -> Dict[str, Any]:
    """What may differ, by the names that a recipe has for it."""
    data = {f"data.{name}": key["settings"][name] for name in MAY_DIFFER}
    return {**data, "model.name": key["model"], "run.precision": key["precision"]}


def _rest(key: Dict[str, Any]) -> Dict[str, Any]:
    """What must be the same."""
    settings = {name: one for name, one in key["settings"].items() if name not in MAY_DIFFER}
    return {**key, "settings": settings, "model": None, "precision": None}


def _newest() -> List[Path]:
    dated = []
    try:
        for path in folder().glob("*.json"):
            info = path.stat()
            if info.st_size <= MOST_BYTES:
                dated.append((info.st_mtime, path))
    except OSError:
        pass  # one that has just been replaced
    return [path for _, path in sorted(dated, reverse=True)[:MOST_FILES]]


def keep(key: Dict[str, Any], tuned: Tuned) -> str:
    """Write it down.

    Returns:
        Why it could not be written; '' when it was.
    """
    path = _path(key)
    content = json.dumps({"key": key, "tuned": tuned.to_json()}, indent=1) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.encode("utf-8"))
    except OSError as error:
        return f"{path.parent}: {error.strerror or error}"
    except TrainError as error:
        return str(error).split(";")[0]
    return ""


def _path(key: Dict[str, Any]) -> Path:
    text = json.dumps(key, sort_keys=True)
    return folder() / f"{hashlib.sha256(text.encode('utf-8')).hexdigest()[:20]}.json"


def processor() -> str:
    """The CPU's model, as Linux names it, else what Python knows."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "Model\t", "CPU part")):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _versions() -> Dict[str, str]:
    found: List[Any] = []
    for name in PACKAGES:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            found.append((name, "none"))
    return dict(found)
