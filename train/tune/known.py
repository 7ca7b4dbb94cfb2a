"""What a run knows from tuning: looked up, or found out once by a child process before it begins.

The child is `train tune`, a program of its own: it comes and goes before CUDA, threads and workers
exist here. Nothing that happens to it ends a run: then the settings are chosen by rule.
"""

import dataclasses
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

import yaml

from train import machine
from train.config import Config
from train.console import Bar, say
from train.data.decode import describe
from train.data.plan import Known
from train.data.sources.splits import Splits
from train.errors import BadSample
from train.tune import cache
from train.tune.commands import near_words
from train.tune.tuned import LIMITS, Tuned

CHILD_OF = "WELLFED_TUNE_CHILD_OF"
"""Environment variable: the process that a tuner ends with."""

WORTH_IMAGES = 10_000
"""A run that trains on fewer images in all is over before tuning would have paid."""

IMAGES_PER_SECOND_OF_TUNING = 800
"""Tuning may take a second for so many images of the run: some percent of it at most."""

LEAST_S, MOST_S = 12.0, 60.0

START_S = 6.0
"""What the child usually takes to begin."""

GRACE_S = 60.0
"""For the child's start: imports, CUDA, a look at the data."""


def known_settings(
    config: Config, splits: Splits, device_type: str, cpus: machine.Measure[int]
) -> Optional[Known]:
    """What is known of this machine and these data, after finding it out where that pays.

    Says what it does, and why not where it does not.

    Args:
        config: of the run.
        splits: its data.
        device_type: cpu or cuda.
        cpus: usable ones.

    Returns:
        None: nothing is to be chosen, or nothing is known.
    """
    if not to_choose(config):
        return None
    device = device_name(device_type)
    key = cache.key_of(config, device_type, cpus.value, identity(splits, config), device)
    tuned, when = cache.look_up(key), ""
    if tuned is not None:
        when = f"known for this machine since {tuned.made}"
    else:
        images = images_of(config, len(splits.train))
        if images < WORTH_IMAGES:
            near = near_words(cache.nearest(key), config)
            say(
                f"tuning    none: {images:,} images in all, worth it from {WORTH_IMAGES:,}; "
                "the loader's settings are chosen by rule" + (f". {near}" if near else ""),
                indent=10,
            )
            return None
        tuned, when = _found_out(config, device_type, seconds_for(images)), "measured just now"
    if tuned is None:
        return None
    if tuned.recommendation:
        say(f"advice    {tuned.recommendation}: {tuned.command}", indent=10)
    return Known(tuned.workers, tuned.prefetch, tuned.workers_kind, reason(tuned, when))


def to_choose(config: Config) -> List[str]:
    """The settings that tuning may choose: those that are auto."""
    names = ("workers", "prefetch", "workers_kind")
    if config.data.workers == 0:  # the others have no effect
        return []
    return [name for name in names if getattr(config.data, name) == "auto"]


def images_of(config: Config, per_epoch: int) -> int:
    """Images that the whole run trains on."""
    images = per_epoch * config.optim.epochs
    if config.run.max_steps is not None:
        step = config.data.batch_size * config.optim.accumulate
        images = min(images, config.run.max_steps * step)
    return images


def seconds_for(images: int) -> float:
    """What tuning may take, for a run of so many images."""
    return min(MOST_S, max(LEAST_S, images / IMAGES_PER_SECOND_OF_TUNING))


def reason(tuned: Tuned, when: str) -> str:
    """Why a setting is what it is, in one line."""
    return f"tuned: {LIMITS[tuned.limit]}, waiting {tuned.wait_share:.1%}; {when}"


def device_name(device_type: str) -> str:
    """The GPU's name, by the driver; '' where none is used."""
    if device_type != "cuda":
        return ""
    found, _ = machine.gpus()
    return ", ".join(gpu.name for gpu in found) or "unknown"


def identity(splits: Splits, config: Config) -> Dict[str, Any]:
    """What tells these data from others, see `cache.data_identity`."""
    content = ""
    for index in (len(splits.train) // 2, 0):
        try:
            content = describe(splits.train[index].data, config.data.resize)
            break
        except (BadSample, OSError):
            continue
    return cache.data_identity(splits.root, len(splits.train), splits.kind, content)


def _found_out(config: Config, device_type: str, seconds: float) -> Optional[Tuned]:
    say(
        f"tuning    the loader for this machine and these data: about {seconds:.0f} s at most, "
        "once; set data.workers, data.prefetch and data.workers_kind to go without",
        indent=10,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="wellfed-tune-") as folder:
            recipe = Path(folder) / "recipe.yaml"
            recipe.write_text(yaml.safe_dump(recipe_of(config)), encoding="utf-8")
            command = [sys.executable, "-m", "train", "tune", f"--config={recipe}", "--json"]
            command += [f"--accelerator={device_type}", f"--seconds={seconds:g}"]
            output, problem = _run(command, seconds)
        if not problem:
            return Tuned.from_json(json.loads(output))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
    say(f"warning: tuning failed ({problem}); the loader's settings are chosen by rule")
    return None


def recipe_of(config: Config) -> Dict[str, Any]:
    """The run's settings for its tuner: all but where it is written and what it goes on from."""
    found = dataclasses.asdict(config)
    found["run"].update(folder=None, resume=None)
    found["model"].update(weights=None)
    return found


def _run(command: List[str], seconds: float) -> Any:
    """Run the tuner and show what it tells: (its output, why it failed or '')."""
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        CHILD_OF: str(os.getpid()),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONUNBUFFERED": "1",
    }
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    try:
        return _watched(child, seconds)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()


def _watched(child: Any, seconds: float) -> Any:
    """Follow a child to its end: (what it wrote, why it failed or '')."""
    taken: Dict[Any, bytearray] = {child.stdout: bytearray(), child.stderr: bytearray()}
    begin, shown, note = time.monotonic(), 0, ""
    most = round(seconds + START_S)
    with selectors.DefaultSelector() as ready, Bar("tuning", most, unit="seconds") as bar:
        for stream in taken:
            ready.register(stream, selectors.EVENT_READ)
        while ready.get_map():
            for key, _ in ready.select(timeout=0.5):
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    ready.unregister(key.fileobj)
                taken[key.fileobj] += piece
            now = time.monotonic() - begin
            if now > seconds + GRACE_S:
                return "", f"no result after {now:.0f} s"
            note = _note(taken[child.stderr]) or note
            bar.advance(max(0, min(int(now), most) - shown), note)
            shown = max(shown, min(int(now), most))
    child.wait()
    if child.returncode != 0:
        return "", _last_line(taken[child.stderr]) or f"exit code {child.returncode}"
    return taken[child.stdout].decode("utf-8"), ""


def _note(told: bytearray) -> str:
    """What the tuner is at, short enough to stand beside a bar: '2 processes x 4'."""
    text = told.decode("utf-8", "replace")
    found = re.findall(r"^ *[\d.]+ s  (?:trial \d+: )?([^:(\n]*)", text, re.MULTILINE)
    return found[-1].strip()[:24] if found else ""


def _last_line(told: bytearray) -> str:
    lines = told.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""
