"""Readers of what the program itself has written: packs, journals, runs, recipes, checkpoints."""

import contextlib
import io
import sys
from types import SimpleNamespace

from train import __main__ as program
from train import checkpoint_file
from train.command_line import build_parser
from train.data.batch import Bad
from train.data.ledger import Ledger
from train.data.sources.classes import class_notes, read_classes
from train.errors import DataError
from train.pack import findings, target
from train.pack import journal as journals
from train.pack import run as packing
from train.pack.options import PackOptions
from train.report import write_report
from train.run_folder import RunFolder
from train.run_record import read_record

ABOUT = {"source": "x", "container": "tar"}
PLAN = SimpleNamespace(splits={"train": range(100), "val": range(20)}, classes=("a", "b"))


def classes(data, folder, draw):
    """classes.json."""
    (folder / "classes.json").write_bytes(data)
    names = read_classes(str(folder / "classes.json"))
    assert names
    assert all(type(name) is str for name in names)
    assert len(set(names)) == len(names)
    assert class_notes("x", names) is not None


def marker(data, folder, draw):
    """pack.json, and what `--verify` takes from it."""
    (folder / target.MARKER).write_bytes(data)
    found = target.read_marker(folder)
    if found is None:
        raise DataError("no pack of ours")
    stored = found["options"]
    names = ("container", "content", "short_side", "quality", "shard_size")
    size = stored["shard_size"] or 1000
    assert PackOptions("src", "dst", *(stored[name] for name in names[:4]), size).lasting()
    assert sum(found["records"].values()) >= 0


def journal(data, folder, draw):
    """The journal of an unfinished pack."""
    partial = folder / "dst.partial"
    partial.mkdir()
    (partial / journals.JOURNAL).write_bytes(data)
    (partial / "train-000000.tar").write_bytes(bytes(5000))
    options = PackOptions("src", "dst", container=draw.choice(target.get_args(target.Container)))
    with journals.Partial(folder / "dst", ABOUT, anew=draw.random() < 0.5) as unfinished:
        position = unfinished.latest(lambda p: packing._fits(p, options, PLAN, unfinished))
        if position is not None:
            assert packing._done(position, PLAN) <= 120
            numbers = {**position.counts, **position.counts.get("reasons", {})}
            numbers.pop("reasons", None)
            assert sum(numbers.values()) >= 0


def ledger(data, folder, draw):
    """The bad samples of a run that goes on, and of a pack."""
    path = folder / target.LEDGER
    path.write_bytes(data)
    known = Ledger(path, 100, 1.0)
    assert known.add("train", [Bad(5, "new", "damaged")]) in (0, 1)
    assert "train:new" in Ledger(path, 100, 1.0).entries
    for split, indices in findings.left_out(folder).items():
        assert isinstance(split, str)
        assert all(type(index) is int for index in indices)


def metrics(data, folder, draw):
    """The rows of the epochs: read, appended to, shown."""
    run = RunFolder(folder)
    run.metrics.write_bytes(data)
    rows = run.read_metrics()
    run.append_metrics({"epoch": 3, "train_loss": 1.0})
    assert run.read_metrics()[-1]["epoch"] == 3
    assert len(run.read_metrics()) <= len(rows) + 1
    assert read_record(folder).rows
    if draw.random() < 0.02:
        assert write_report(folder).stat().st_size > 1000


def settings(data, folder, draw):
    """Every other file of a run's folder, for its page."""
    names = ("settings.json", "machine.json", "bad_samples.jsonl", "config.yaml", "metrics.jsonl")
    (folder / draw.choice(names)).write_bytes(data)
    record = read_record(folder)
    assert isinstance(record.config, dict)
    if draw.random() < 0.1:
        assert write_report(folder).stat().st_size > 1000


_parser = []


def config(data, folder, draw):
    """A recipe: settings, or one message and exit code 2."""
    (folder / "recipe.yaml").write_bytes(data)
    if not _parser:
        _parser.append(build_parser())
    before = program._run_recipe, program.build_parser
    program._run_recipe = lambda options, config, cpus: 0
    program.build_parser = lambda: _parser[0]
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            code = program.main(["fit", "--config", str(folder / "recipe.yaml")])
    finally:
        program._run_recipe, program.build_parser = before
        sys.stdout.flush()
    if code == 2:
        assert errors.getvalue().startswith("error: ")
        raise program.ConfigError(errors.getvalue()[:500])
    assert code == 0


def checkpoint(data, folder, draw):
    """A checkpoint."""
    (folder / "last.pt").write_bytes(data)
    assert checkpoint_file.load(folder / "last.pt")["format"] in (1, checkpoint_file.FORMAT)
