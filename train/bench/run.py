"""`train bench` from its first line to its last."""

import datetime
import re
import tempfile
from pathlib import Path
from typing import Optional, Tuple

import torch

from train import machine
from train.accelerator_choice import parse_accelerator
from train.bench import about
from train.bench.arms import choose
from train.bench.chosen import LEAST_TUNE_S, TUNE_TIMES, USUAL_TUNE_S
from train.bench.comparison import START_S, Comparison
from train.bench.jobs import JobFailed, Stopped
from train.bench.options import BenchOptions
from train.config import Config
from train.console import say
from train.data.sampler import Sampler
from train.errors import Interrupted, SetupError
from train.files import disk_error
from train.model import check_model, check_name
from train.prepare import choose_device, open_data
from train.signals import StopRequest


def bench(config: Config, options: BenchOptions, cpus: machine.Measure[int]) -> int:
    """Compare the loaders.

    Args:
        config: all settings of a run.
        options: what to compare.
        cpus: usable CPUs, read before torch was imported.

    Returns:
        0.

    Raises:
        TrainError: what can be mended.
        Interrupted: a signal; what was measured is written.
    """
    kind, images_per_s = accelerator_of(options.accelerator)
    if kind != "sim":
        check_name(config.model.name)
    say(first_words(options, kind == "sim" and images_per_s is None), indent=10)
    splits = open_data(config)
    sampler = Sampler(
        len(splits.train), config.data.batch_size, config.run.seed, shuffle=True, min_batch=2
    )
    name = Path(splits.root).name or "data"
    facts = about.Facts(
        config,
        options,
        cpus,
        kind,
        name,
        splits.root,
        splits.kind,
        len(splits.classes),
        len(splits.train),
        sum(sampler.global_batch_sizes()),
        images_per_s,
    )
    if kind != "sim":
        smallest = min(2, *sampler.batch_sizes())
        check_model(config.model.name, facts.classes, config.data.image_size, smallest)
    out = make_folder(options.out, name)
    try:
        with tempfile.TemporaryDirectory(prefix="wellfed-bench-") as scratch, _stopping() as stop:
            run = Comparison(facts, splits, out, Path(scratch), lambda: stop.signum is not None)
            try:
                return run.go()
            except Stopped:
                assert stop.signum is not None
                raise Interrupted(stop.signum, f"stopped; {run.kept()}") from None
    except JobFailed as failure:
        raise SetupError(str(failure)) from None
    except OSError as error:
        raise SetupError(_by_out(str(disk_error(Path(error.filename or out), error)))) from None
    except SetupError as error:
        raise SetupError(_by_out(str(error))) from None
    finally:
        if not any(out.iterdir()):
            out.rmdir()


def first_words(options: BenchOptions, calibrates: bool) -> str:
    """What comes, and about how long it takes: the first figures are a while away.

    Args:
        options: what to compare.
        calibrates: the device is made for the plain loader, which is measured first.
    """
    arms = choose(options.only)
    each, tuned = options.seconds + START_S, [arm for arm in arms if arm.kind == "ours"]
    tune_s = min(USUAL_TUNE_S, max(LEAST_TUNE_S, TUNE_TIMES * options.seconds))
    total_s = len(arms) * options.rounds * each + len(tuned) * tune_s
    total_s += (each + options.seconds + each) if calibrates else 0.0
    first = "the images are listed and read once"
    if calibrates:
        first += ", then the plain loader is measured alone"
    packs = any(arm.packed for arm in arms) and options.packed is None
    beside = ", and packing, once" if packs else ""
    names = f"{len(arms)} arm{'s' if len(arms) != 1 else ''}"
    return (
        f"bench     {names}, {about.rounds_words(options).split(' an arm')[0]}: about "
        f"{max(1, round(total_s / 60))} min{beside}. First {first}"
    )


def _by_out(message: str) -> str:
    """A message of `train.files`, which knows the option of a run alone."""
    return message.replace("run.folder", "--out")


def _stopping() -> StopRequest:
    return StopRequest(lambda _: say("stopping; a second signal ends at once"))


def accelerator_of(text: str) -> Tuple[str, Optional[float]]:
    """Kind and simulated speed of what --accelerator asks for.

    Raises:
        SetupError: cuda, and there is none.
    """
    asked = parse_accelerator(text)
    if asked.kind == "cuda":
        choose_device("cuda")
    if asked.kind == "auto":
        return ("cuda" if torch.cuda.is_available() else "sim"), None
    return asked.kind, asked.images_per_s


def make_folder(asked: Optional[str], name: str) -> Path:
    """The folder for the results, empty.

    Raises:
        SetupError: it holds something, or can't be made.
    """
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    plain = re.sub(r"[^\w.-]", "_", name)
    out = Path(asked).expanduser() if asked else Path("runs", "bench", f"{plain}-{now}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise SetupError(
                f"--out: {str(out)!r} is not empty; choose another folder: nothing is overwritten"
            )
    except OSError as error:
        raise SetupError(
            f"--out: {str(out)!r} can't be made: {error.strerror or error}; choose another folder"
        ) from None
    return out
