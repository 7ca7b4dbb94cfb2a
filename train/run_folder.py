"""The folder of a run: what is written where.

```
runs/<name>/  config.yaml  settings.json  machine.json  metrics.jsonl  bad_samples.jsonl
              checkpoints/{last,previous,best}.pt  tensorboard/  report.html
              diverged.json (a loss that was no number)  launch.json (under torchrun)
              status.json while it runs; profile.svg, trace.json.gz, stacks.txt of make profile
```
"""

import contextlib
import dataclasses
import datetime
import errno
import fcntl
import json
import math
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import yaml

from train.config import Config
from train.errors import CheckpointError, SetupError
from train.files import disk_error, write_whole


class RunFolder:
    """One run's files. All errors while writing are SetupError with what to do.

    Args:
        path: the folder; must exist.
    """

    def __init__(self, path: Path):
        self.path = path
        self.config = path / "config.yaml"
        self.metrics = path / "metrics.jsonl"
        self.bad_samples = path / "bad_samples.jsonl"
        self.tensorboard = path / "tensorboard"
        self.last = path / "checkpoints" / "last.pt"
        self.previous = path / "checkpoints" / "previous.pt"
        self.best = path / "checkpoints" / "best.pt"
        self.diverged = path / "diverged.json"

    @classmethod
    def create(cls, config: Config) -> "RunFolder":
        """Make the folder of a new run.

        Raises:
            SetupError: it exists already, or can't be made.
        """
        try:
            path = Path(config.run.folder).expanduser() if config.run.folder else None
            path = path or default_folder(config)
            folder = cls(path)
            if path.exists() and not folder._is_free():
                saved = folder.last.exists() and folder.config.exists()
                raise SetupError(
                    f"run.folder {str(path)!r} "
                    + (f"holds a run; go on with it by --run.resume {path}, or " if saved else "")
                    + ("" if saved else "exists and is not an empty folder; ")
                    + "choose another folder: nothing is ever overwritten"
                )
            folder.last.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            path = Path(config.run.folder or "runs")
            raise disk_error(path, error) from None
        settings = dataclasses.asdict(config)
        settings["run"]["folder"] = str(path)
        write_whole(folder.config, yaml.safe_dump(settings, sort_keys=False).encode())
        return folder

    def resume_command(self) -> str:
        """What to type to go on: by make inside its environment, else by this very Python."""
        if Path(sys.prefix).resolve() == Path(".venv").resolve() and Path("Makefile").is_file():
            return f"make train RESUME={shlex.quote(str(self.path))}"
        python = shlex.quote(sys.executable)
        return f"{python} -m train fit --run.resume {shlex.quote(str(self.path))}"

    def longer_command(self, epochs: int) -> str:
        """What to type to train so many epochs more, in a run of their own."""
        words = [sys.executable, "-m", "train", "fit", "--config", str(self.config)]
        words += ["--model.weights", str(self.last), "--run.folder", f"{self.path}-longer"]
        return shlex.join([*words, "--optim.epochs", str(epochs)])

    def _is_free(self) -> bool:
        """Empty, or what a start left that failed or was killed before anything was saved."""
        if not self.path.is_dir():
            return False
        names = {entry.name for entry in self.path.iterdir()} - {".lock"}
        # A killed process leaves what it had half written.
        names = {name for name in names if not (name.startswith(".") and name.endswith(".part"))}
        if not names:
            return True
        checkpoints = self.last.parent
        # The settings are written last: without them only the folder for checkpoints may be there.
        ours = self.config.is_file() or names == {checkpoints.name}
        if not (ours and checkpoints.is_dir()):
            return False
        return all(entry.name.startswith(".") for entry in checkpoints.iterdir())

    @classmethod
    def open(cls, path: str) -> "RunFolder":
        """Open the folder of a run to go on with.

        Raises:
            CheckpointError: there is no such run.
        """
        folder = cls(Path(path))
        if not folder.config.is_file():
            raise CheckpointError(f"run.resume: {path!r} is no run folder (it has no config.yaml)")
        return folder

    @contextlib.contextmanager
    def locked(self, is_writer: bool = True) -> Iterator[None]:
        """Keep a second process out meanwhile.

        Args:
            is_writer: this process writes here; False for ranks that don't.

        Raises:
            SetupError: another process trains in this folder.
        """
        if not is_writer:
            yield
            return
        try:
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise disk_error(self.path, error) from None
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                os.close(descriptor)
                raise SetupError(
                    f"another process is training in {str(self.path)!r}; stop it first, or choose "
                    "another folder"
                ) from None  # any other error: a file system without locks
        try:
            yield
        finally:
            os.close(descriptor)

    def write_json(self, name: str, content: Any) -> None:
        """Write one JSON file."""
        write_whole(self.path / name, json.dumps(content, indent=1).encode())

    def append_metrics(self, row: Dict[str, Any]) -> None:
        """Add the row of one epoch.

        Rows of the same or later epochs (of a run that was cut off) go.
        """
        try:
            rows = [old for old in self.read_metrics() if old["epoch"] < row["epoch"]]
        except OSError as error:
            raise disk_error(self.metrics, error) from None
        lines = "".join(json.dumps(_plain(item)) + "\n" for item in rows + [row])
        write_whole(self.metrics, lines.encode())

    def read_metrics(self) -> List[Dict[str, Any]]:
        """The rows written so far, oldest first."""
        rows = []
        if self.metrics.exists():
            for line in self.metrics.read_text("utf-8", errors="replace").splitlines():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    continue  # torn by a crash
                if isinstance(row, dict) and isinstance(row.get("epoch"), int):
                    rows.append(row)
        return rows


def default_folder(config: Config, now: Optional[datetime.datetime] = None) -> Path:
    """runs/<data>-<model>-<date and time>; with a number behind when that is taken."""
    name = _in_a_path(Path(config.data.path).resolve().name) or "data"
    stamp = (now or datetime.datetime.now()).strftime("%Y%m%d-%H%M%S")
    base = Path("runs") / f"{name}-{_in_a_path(config.model.name)}-{stamp}"
    path, number = base, 2
    while path.exists():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path


def _in_a_path(name: str) -> str:
    """A name as a part of a path that needs no quotes."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")


def _plain(row: Dict[str, Any]) -> Dict[str, Any]:
    """JSON has no NaN: null instead."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.items()
    }
