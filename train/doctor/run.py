"""`train doctor`: the machine, then the way of the data, one verdict, and what mends it."""

import contextlib
import json
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from train import machine
from train.accelerator import Accelerator, ModelAccelerator, SimulatedAccelerator
from train.accelerator_choice import Asked as AskedAccelerator
from train.accelerator_choice import parse_accelerator
from train.config import Config
from train.console import say, waiting
from train.data import worker
from train.data.batch import NO_LABEL
from train.data.settings import Known
from train.data.sources.splits import Splits
from train.doctor import letter
from train.doctor.apply import Tried, try_mend
from train.doctor.asked import Asked
from train.doctor.dataset_function import make_dataset, needs_pythonpath
from train.doctor.evidence import evidence
from train.doctor.examine import Examined, examine
from train.doctor.findings import Finding
from train.doctor.machine_checks import CHECKS, check_machine
from train.doctor.machine_facts import read_machine
from train.doctor.mend import Mend, mend
from train.doctor.options import DoctorOptions
from train.doctor.own_checks import check_own_data, raising_is_told
from train.doctor.subject import Subject, settings_for
from train.doctor.verdict import Verdict, judge
from train.errors import ConfigError, TrainError
from train.precision import choose_precision
from train.prepare import choose_device, open_data
from train.signals import StopAtOnce
from train.tune import cache
from train.tune.known import device_name, identity, reason, to_choose

STALL_S = 60.0
"""A data set that gives no batch for so long ends the examination: it hangs."""

MOST_CLASSES = 1_000_000
"""Beyond it a label is no class: a hash, a time, an identifier."""


def doctor(config: Config, options: DoctorOptions, cpus: machine.Measure[int]) -> int:
    """Examine, and tell; returns the exit code.

    Raises:
        TrainError: what the user can mend.
        Interrupted: Ctrl-C or SIGTERM.
    """
    with StopAtOnce() as stop:
        return _doctor(config, options, cpus, stop)


def _doctor(
    config: Config, options: DoctorOptions, cpus: machine.Measure[int], stop: StopAtOnce
) -> int:
    own = options.dataset is not None
    pipeline = own or config.data.path != Config().data.path or _names_data(sys.argv[1:])
    told: Dict[str, Any] = {}
    before, worker.STALL_S = worker.STALL_S, STALL_S
    try:
        with _screen(options.json) as (write, tell):
            path = None if own or not pipeline else config.data.path
            seen = check_machine(read_machine(cpus, path), own, None)
            if options.dataset is not None and needs_pythonpath(options.dataset):
                seen = [finding for finding in seen if finding.what != "PYTHONPATH"]
            told["machine"] = [finding._asdict() for finding in seen]
            write([*letter.machine_part(seen, len(CHECKS) + own + 1), ""])
            if pipeline:
                careful = raising_is_told(str(options.dataset)) if own else contextlib.nullcontext()
                with careful:
                    _pipeline(config, options, cpus, told, write, _looking(stop, tell))
            else:
                write(
                    [
                        "The machine alone was examined. The way of the data too:",
                        "  train doctor --data.path DIR",
                        "  train doctor --dataset mypkg.data:make_dataset",
                    ]
                )
    finally:
        worker.STALL_S = before
    if options.json:
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
    return 0


def _names_data(words: Sequence[str]) -> bool:
    """The default data were asked for by name, in words or by a recipe."""
    return any(word.startswith(("--data", "--config")) for word in words)


Write = Callable[[Sequence[str]], None]
Tell = Callable[[str], None]


def _looking(stop: StopAtOnce, tell: Tell) -> Tell:
    def look_and_tell(text: str) -> None:
        stop.look()
        tell(text)

    return look_and_tell


def _pipeline(
    config: Config,
    options: DoctorOptions,
    cpus: machine.Measure[int],
    told: Dict[str, Any],
    write: Write,
    tell: Tell,
) -> None:
    wanted = parse_accelerator(options.accelerator)
    device = _device(config, wanted)
    if options.dataset is not None:
        subject, findings = _own(config, options.dataset, device, wanted, cpus)
        told["data"] = [finding._asdict() for finding in findings]
        write([*letter.data_part(findings), ""])
    else:
        subject = _ours(config, device, wanted, cpus)
        write([""])
    make = _accelerator_maker(config, subject, device, wanted)
    examined = examine(subject, make, cpus.value, tell)
    found = examined.found
    verdict = judge(found)
    asked = Asked(config, options.dataset, options.accelerator)
    cure, why = mend(found, verdict, asked), evidence(found, verdict)
    told.update(measurements=found.as_dict(), verdict=_plain(verdict), evidence=why)
    told["mend"] = cure._asdict()
    workers = next(row.reason for row in subject.settings.reasons if row.name == "data.workers")
    write([*letter.runs_part(found, workers), "", *letter.verdict_part(verdict, why, cure)])
    if wanted.kind == "auto" and device.type == "cpu":
        write(["", "No GPU here: ask what one would see with --accelerator sim:1000."])
    if options.apply:
        _apply(examined, verdict, cure, cpus, told, write, tell)
    elif cure.can_be_tried:
        write(["", "With --apply the same command measures what that gains."])


def _apply(
    examined: Examined,
    verdict: Verdict,
    cure: Mend,
    cpus: machine.Measure[int],
    told: Dict[str, Any],
    write: Write,
    tell: Tell,
) -> None:
    if not cure.can_be_tried:
        write(["", "There is nothing that --apply could try: the mend is yours to make."])
        return
    try:
        tried: Tried = try_mend(examined, cure, verdict.counts == "cold", cpus, tell)
    except TrainError as error:
        told["tried"] = {"problem": str(error)}
        write(["", f"Not tried: {error}"])
        return
    told["tried"] = {
        "before": tried.before._asdict(),
        "after": tried.after._asdict(),
        "rounds": tried.rounds,
        "note": tried.note,
    }
    write(["", *letter.gain_part(tried.before, tried.after, tried.rounds, tried.note)])


def _device(config: Config, wanted: AskedAccelerator) -> torch.device:
    if wanted.kind == "sim":
        return torch.device("cpu")
    return choose_device(config.run.device if wanted.kind == "auto" else wanted.kind)


def _ours(
    config: Config, device: torch.device, wanted: AskedAccelerator, cpus: machine.Measure[int]
) -> Subject:
    splits = open_data(config)
    size = config.data.batch_size * (config.data.image_size**2 * 3 + 8)
    kind = device.type
    if wanted.kind == "sim":
        kind = f"sim:{wanted.images_per_s:g}"
    known = _known(config, splits, kind, cpus)
    return Subject(
        splits.train,
        False,
        config,
        _settings(config, device, wanted, cpus, size, False, known),
        len(splits.classes),
        splits.root,
        splits.kind != "folder",
    )


def _known(
    config: Config, splits: Splits, accelerator: str, cpus: machine.Measure[int]
) -> Optional[Known]:
    """What tuning has found before, for this accelerator; it is not done now."""
    if not to_choose(config):
        return None
    content, name = identity(splits, config), device_name(accelerator)
    tuned = cache.look_up(cache.key_of(config, accelerator, cpus.value, content, name))
    if tuned is None:
        return None
    why = reason(tuned, f"known since {tuned.made}")
    return Known(tuned.workers, tuned.prefetch, tuned.workers_kind, why)


def _own(
    config: Config,
    name: str,
    device: torch.device,
    wanted: AskedAccelerator,
    cpus: machine.Measure[int],
) -> Tuple[Subject, List[Finding]]:
    opened = make_dataset(name)
    size = config.data.batch_size * config.data.image_size**2 * 3 * 4
    settings = _settings(config, device, wanted, cpus, size, True)
    subject = Subject(opened.dataset, True, config, settings)
    return subject, check_own_data(subject, opened, cpus.value)


def _settings(
    config: Config,
    device: torch.device,
    wanted: AskedAccelerator,
    cpus: machine.Measure[int],
    batch_bytes: int,
    own: bool,
    known: Optional[Known] = None,
) -> Any:
    feeds_gpu = device.type == "cuda" or wanted.kind == "sim"
    return settings_for(config, feeds_gpu, device.type == "cuda", cpus, batch_bytes, own, known)


def _accelerator_maker(
    config: Config, subject: Subject, device: torch.device, wanted: AskedAccelerator
) -> Callable[[Sequence[Any]], Accelerator]:
    def make(batches: Sequence[Any]) -> Accelerator:
        if wanted.kind == "sim":
            return SimulatedAccelerator(float(wanted.images_per_s or 0))
        images = batches[0].images
        if images.dim() != 4:
            raise ConfigError(
                f"these samples are no images (a batch is {tuple(images.shape)}), so "
                f"{config.model.name} can't be fed with them; say --accelerator sim:IMAGES_PER_S "
                "with the speed of your own model"
            )
        least = min(int(batch.labels.min()) for batch in batches)
        most = max(int(batch.labels.max()) for batch in batches) + 1
        if least < NO_LABEL or most > MOST_CLASSES:
            raise ConfigError(
                f"labels go from {least} to {most - 1}: classes are numbered from 0 (-1: none) to "
                f"{MOST_CLASSES - 1:,} at most, and {config.model.name} has an output for each; "
                "say --accelerator sim:IMAGES_PER_S to leave them out"
            )
        classes = max(2, most, 0 if subject.own else subject.classes)
        precision = choose_precision(config.run.precision, device)
        smoothing = config.optim.label_smoothing
        return ModelAccelerator(device, config.model.name, classes, precision, smoothing)

    return make


def _plain(verdict: Verdict) -> Dict[str, Any]:
    plain = verdict._asdict()
    plain.update(words=verdict.words, clear=verdict.clear, losses=dict(verdict.losses))
    if verdict.ratio == float("inf"):
        plain["ratio"] = None
    return plain


@contextlib.contextmanager
def _screen(as_json: bool) -> Iterator[Tuple[Write, Tell]]:
    """How to write lines, and how to tell what goes on while one waits."""

    def write(lines: Sequence[str]) -> None:
        if not as_json:
            for line in lines:
                say(line, unit="\n")  # the letter has broken it already; commands are to be copied

    with contextlib.ExitStack() as stack:
        if as_json:  # what others say is for people
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield write, stack.enter_context(waiting("looking at the machine", as_json))
