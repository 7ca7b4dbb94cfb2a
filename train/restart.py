"""A run that torchrun started again, after a rank or a machine was lost, goes on by itself.

torchrun starts all ranks anew with the same arguments. A run's folder holds the name of the launch
that made it, so the ranks of the next attempt find it.
"""

import dataclasses
import json
import os
import socket
from pathlib import Path
from typing import Any, Dict, Optional

from train.config import Config
from train.console import say
from train.files import write_whole
from train.run_folder import RunFolder

_NAME = "launch.json"


def launch_name() -> str:
    """What all attempts of one launch have in common; '' outside of torchrun.

    With a rendezvous of one's own naming that is its name (`--rdzv-id`), so a job that a scheduler
    puts back into its queue is found too; else it is the process of torchrun.
    """
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if not name:
        return ""
    if name != "none":  # torchrun's default
        return name
    parent = os.getppid()
    try:
        started = Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        started = "0"
    return f"{socket.gethostname()}-{parent}-{started}"


def attempt() -> int:
    """How often torchrun has started the ranks before."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0)


def sign(folder: RunFolder) -> None:
    """Write into a new run's folder which launch made it."""
    name = launch_name()
    if name:
        write_whole(folder.path / _NAME, json.dumps({"launch": name}).encode())


def find_run(config: Config) -> Optional[RunFolder]:
    """The folder that an earlier attempt of this launch made; None: this is the first one.

    With run.folder it can only be that one. Without, a run that is done is none to go on with,
    but for the next attempt of the very launch that did it.
    """
    name = launch_name()
    if not name or config.run.resume:
        return None
    candidates = [Path(config.run.folder).expanduser()] if config.run.folder else _newest_first()
    for path in candidates:
        if _read(path / _NAME).get("launch") != name:
            continue
        folder = RunFolder(path)
        if attempt() or config.run.folder or not _is_done(folder, config):
            return folder
    return None


def gone_on(config: Config) -> Config:
    """The settings, so that an earlier attempt's run goes on where there is one.

    Nothing may have been saved yet: then the run begins again, in the same folder.
    """
    folder = find_run(config)
    if folder is None:
        return config
    run: Dict[str, Any] = {"folder": str(folder.path)}
    if folder.last.exists() or folder.previous.exists():
        run["resume"] = str(folder.path)
    say(f"restart   attempt {attempt() + 1} of this launch: its run is {folder.path}")
    return dataclasses.replace(config, run=dataclasses.replace(config.run, **run))


def _newest_first() -> Any:
    try:
        found = [path for path in Path("runs").iterdir() if (path / _NAME).is_file()]
    except OSError:
        return []
    return sorted(found, key=lambda path: (path / _NAME).stat().st_mtime, reverse=True)


def _is_done(folder: RunFolder, config: Config) -> bool:
    rows = folder.read_metrics()
    return bool(rows) and rows[-1]["epoch"] + 1 >= config.optim.epochs


def _read(path: Path) -> Dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
