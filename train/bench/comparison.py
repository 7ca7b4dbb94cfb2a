"""One comparison, from the opened data to the written files."""

import dataclasses
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from train.bench import about, prepare
from train.bench.arms import ARMS, Arm, choose, torch_settings
from train.bench.figures import Measured, Row, as_made, percent, summarise
from train.bench.jobs import JobFailed, Stopped, run_job
from train.bench.plain import problem
from train.bench.plot import draw
from train.bench.progress import Plan, Show
from train.bench.rounds import Jobs, measure, race
from train.bench.table import page, screen_table
from train.console import console, say
from train.data.sources.splits import Splits
from train.errors import ConfigError, DataError
from train.files import write_whole

TIMES_PLAIN = 2.5
"""Speed of the simulated device over the plain loader's: which so keeps it 1 / 2.5 = 40 % busy, as
in the articles."""

NO_LIMIT = 1e9
"""Images/s of a device that is never waited for: the plain loader's own speed is measured on it."""

CALIBRATIONS = 2
"""Tries, where the second look at plain does not fit the first."""

START_S = 4.0
"""What a measurement takes beside its own time, before one was seen."""


class _Reads(NamedTuple):
    """What an arm reads: the file of its records, their container, and what there is to say."""

    file: str
    container: str
    notes: List[str]


class Comparison:
    """One comparison.

    Args:
        facts: what it is made on.
        splits: the data.
        out: folder for the results.
        scratch: folder for what the measurements read.
        stopped: whether a signal came.
    """

    def __init__(
        self,
        facts: about.Facts,
        splits: Splits,
        out: Path,
        scratch: Path,
        stopped: Callable[[], bool],
    ):
        self.facts, self.splits, self.out, self.scratch = facts, splits, out, scratch
        self.stopped = stopped
        self.arms = choose(facts.options.only)
        self.measured: List[Measured] = []
        self.why_not: Dict[str, str] = {}
        self.reads: Dict[bool, _Reads] = {}
        self.count = 0

    def go(self) -> int:
        """Do it; returns 0."""
        facts, options = self.facts, self.facts.options
        calibrates = facts.kind == "sim" and facts.images_per_s is None
        names = [arm.name for arm in self.arms] * options.rounds
        plan = Plan(["calibration", "check"] * calibrates + names, options.seconds + START_S)
        self._check_plain(calibrates)
        with Show(plan) as show:
            self._read(False, self.splits, [], show)
            if "packed" in names:
                try:
                    self._pack(show)
                except JobFailed as failure:
                    self.why_not["packed"] = str(failure)
            if calibrates:
                self._calibrate(show)
            jobs = self._jobs(show)
            race(self.measured, jobs, options.rounds, self.stopped, show, self._after_each)
        self._finish()
        return 0

    def kept(self) -> str:
        """What is there when it was stopped."""
        if not self.count:
            return "nothing was measured yet"
        return f"{self.count} measurements are in {self.out / 'bench.json'}"

    def _check_plain(self, calibrates: bool) -> None:
        """See whether Pillow can read the data."""
        if not calibrates and not {"plain", "articles"} & {arm.name for arm in self.arms}:
            return
        reason = problem(self.splits.train, self.facts.config.data.max_pixels)
        if reason and calibrates:
            raise ConfigError(
                f"{reason}, so the plain loader has no speed that a simulated device could be made "
                "2.5 times as fast as; say --accelerator sim:IMAGES_PER_S"
            )
        if reason:
            self.why_not.update(dict.fromkeys(("plain", "articles"), reason))

    def _read(self, packed: bool, splits: Splits, notes: List[str], show: Show) -> None:
        """Read the records once, and write down what was opened."""
        name = "pack" if packed else "files"
        source = splits.train
        warm = prepare.warm(source, f"reading the {name}", self.stopped, show)
        if self.stopped():
            raise Stopped
        self.facts.warm.append(f"{name} {warm.words()}")
        file = prepare.keep(source, self.scratch / f"{name}.pickle")
        self.reads[packed] = _Reads(file, splits.kind, notes)

    def _pack(self, show: Show) -> None:
        """Find or make the pack."""
        config, asked = self.facts.config, self.facts.options.packed
        if asked is None:
            if prepare.opened_pack(Path(config.data.path)) is not None:
                self.why_not["packed"] = "data.path is a pack already, which ours reads"
                return
            pack = prepare.get_pack(
                config,
                self.splits,
                self.reads[False].file,
                self.out.parent / "packs",
                self.facts.cpus,
                self.stopped,
                show,
            )
        else:
            found = prepare.opened_pack(Path(asked))
            if found is None:
                raise DataError(f"--packed: {asked!r} is no pack made by train pack")
            pack = found
        say(f"pack      {pack.words()}", indent=10)
        splits = prepare.open_pack(config, pack.path)
        if asked is not None:
            prepare.refuse_other_data(self.splits, splits, pack.path)
        notes = prepare.differences(self.splits.train, splits.train, pack.content)
        for note in notes:
            say(f"          {note}", indent=10)
        self._read(True, splits, [pack.words(), *notes], show)

    def _calibrate(self, show: Show) -> None:
        """Measure the plain loader alone; the simulated device follows from it.

        Then plain is measured beside that device, and where it does not keep it about 40 % busy,
        something else ran meanwhile: both are measured once more.
        """
        facts, plain = self.facts, ARMS[0]
        for attempt in range(CALIBRATIONS):
            job = self._job(plain, torch_settings(plain, facts.cpus.value, False))
            job.update(images_per_s=NO_LIMIT, seconds=2 * facts.options.seconds, timer=False)
            alone = measure(job, "calibration", "the plain loader alone", self.stopped, show)
            facts.calibration, facts.images_per_s = alone, TIMES_PLAIN * alone["images_per_s"]
            job.update(images_per_s=facts.images_per_s, seconds=facts.options.seconds)
            beside = measure(job, "check", "the plain loader beside it", self.stopped, show)
            busy = beside["busy_share"]
            held = (
                f"device    {about.accelerator_words(facts)}: plain keeps it {percent(busy)} busy"
            )
            if as_made(busy):
                say(f"{held}; the articles begin at 40 %", indent=10)
                return
            again = attempt + 1 < CALIBRATIONS
            then = "measured once more" if again else "something else runs here; the race tells"
            say(f"{held}, and not about 40 %: {then}", indent=10)

    def _job(self, arm: Arm, settings: Dict[str, Any]) -> Dict[str, Any]:
        """One measurement of an arm."""
        facts = self.facts
        return {
            "what": "trial",
            "arm": arm.name,
            "config": dataclasses.asdict(facts.config),
            "settings": settings,
            "source": self.reads[arm.packed].file,
            "classes": facts.classes,
            "container": self.reads[arm.packed].container,
            "kind": facts.kind,
            "images_per_s": facts.images_per_s or 0.0,
            "seconds": facts.options.seconds,
            "cpus": [facts.cpus.value, facts.cpus.source],
        }

    def _jobs(self, show: Show) -> Jobs:
        """The measurements by arm; arms that can't run are said to be so."""
        jobs: Jobs = {}
        for arm in self.arms:
            why_not = self.why_not.get(arm.name, "")
            settings: Dict[str, Any] = {}
            notes: List[str] = []
            try:
                if why_not:
                    raise JobFailed(why_not)
                settings, notes = self._settings(arm, show)
                jobs[arm.name] = self._job(arm, settings)
            except JobFailed as failure:
                why_not = str(failure)
                say(f"{arm.name:<9} not possible: {why_not}", indent=10)
                show.plan.drop(arm.name)
            self.measured.append(Measured(arm, settings, notes, [], why_not))
        return jobs

    def _settings(self, arm: Arm, show: Show) -> Tuple[Dict[str, Any], List[str]]:
        """What an arm's loader is made with, and what there is to say of it."""
        notes: List[str] = []
        if arm.kind == "cached":
            return {}, notes
        if arm.kind == "torch":
            settings = torch_settings(arm, self.facts.cpus.value, self.facts.kind == "cuda")
            words = ", ".join(f"{key}={value}" for key, value in settings.items())
            words = f"{arm.title}: {words}"
        else:
            with show.apart(f"choosing the settings of {arm.name}"):
                job = {**self._job(arm, {}), "what": "settings"}
                chosen = run_job(
                    job, self.stopped, lambda line: show.note(line["note"].split(" (")[0][:36])
                )
            settings, notes = chosen["settings"], self.reads[arm.packed].notes
            words = "; ".join([about.loader_words(settings), *chosen["reasons"]])
        say(f"{arm.name:<9} {words}", indent=10)
        return settings, [words, *notes]

    def _after_each(self) -> None:
        self.count += 1
        self._write_json(self._rows(), complete=False)

    def _rows(self) -> List[Row]:
        return summarise(self.measured, self.facts.images_per_epoch)

    def _write_json(self, rows: List[Row], complete: bool) -> Dict[str, Any]:
        content = about.describe(self.facts, rows, complete)
        write_whole(self.out / "bench.json", json.dumps(content, indent=1).encode() + b"\n")
        return content

    def _finish(self) -> None:
        """Show and write the figures."""
        rows = self._rows()
        content = self._write_json(rows, complete=True)
        if not any(row.spread for row in rows):
            raise DataError(f"no arm gave a result: {self.measured[0].why_not}")
        console().print()
        console().print(screen_table(rows))
        console().print()
        if content["disturbed"]:
            say(f"warning: {content['disturbed']}")
        say(content["verdict"] or "neither of our arms was measured: no verdict")
        write_whole(self.out / "bench.md", page(rows, content).encode())
        drawn = draw(rows, content, self.out)
        say(f"written   {self.out}: {', '.join(['bench.md', 'bench.json', *drawn])}", indent=10)
