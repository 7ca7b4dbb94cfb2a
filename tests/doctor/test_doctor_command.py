"""`train doctor`, from the command to the letter, on small data and a simulated accelerator."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pictures
import pytest
from terminal import SPINNER, lines_of, shown_on_a_terminal

from train.__main__ import main
from train.doctor import apply, examine, pipeline, probe
from train.pack import run as pack_run

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    """Fractions of a second: what comes out is told, not judged."""
    monkeypatch.setattr(examine, "RUN_S", 0.05)
    monkeypatch.setattr(examine.examine, "__defaults__", (lambda text: None, 0.05))
    monkeypatch.setattr(examine, "LIMIT_S", 3.0)
    monkeypatch.setattr(apply, "RUN_S", 0.05)
    for name in ("ALONE_S", "STAGES_S", "TOGETHER_S"):
        monkeypatch.setattr(probe, name, 0.05)
    monkeypatch.setattr(apply, "ROUNDS", 2)
    monkeypatch.setattr(pack_run, "measure", lambda *_: None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)


def doctor(*words):
    return main(["doctor", *words])


def test_the_machine_alone(capsys):
    assert doctor() == 0
    text = capsys.readouterr().out
    assert "The machine: " in text
    assert "train doctor --data.path DIR" in text


def test_the_machine_as_json(capsys):
    assert doctor("--json") == 0
    assert set(json.loads(capsys.readouterr().out)) == {"machine"}


def small(tree, *more):
    return doctor(
        *(f"--data.path={tree}", "--data.image_size=32", "--data.batch_size=4"),
        *("--data.workers=1", "--accelerator=sim:2000", *more),
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one_odd_sample", "equal size"),
        ("one_sample_raises", "OSError: torn file ("),
        ("looks_up_what_raises", "RuntimeError: __"),
    ],
)
def test_what_a_data_set_raises_late_is_one_message(name, message, capsys, no_child_left):
    words = ("--data.batch_size=4", "--data.workers=1", "--accelerator=sim:2000")
    assert doctor(f"--dataset=data_sets:{name}", *words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_labels_that_are_no_classes_are_told(capsys):
    words = ("--data.batch_size=4", "--data.workers=1", "--accelerator=cpu")
    assert doctor("--dataset=data_sets:labels_beyond_all", *words) == 2
    assert "labels go from 1000000000000 to 1000000000000" in capsys.readouterr().err


def test_a_folder_is_examined(tmp_path, capsys, no_child_left, deadline):
    tree = pictures.write_tree(tmp_path / "tree", count=20)
    assert small(tree) == 0
    text = capsys.readouterr().out
    for words in ("one batch again and again", "+ made, data in memory", "Verdict: ", "What to do"):
        assert words in text
    assert "(1 process worker: as asked for)" in text


def test_a_letter_on_a_terminal_is_plain_and_alone_on_its_lines(tmp_path, deadline):
    tree = pictures.write_tree(tmp_path / "tree", count=20)
    text = shown_on_a_terminal(
        "from train.__main__ import main\n"
        "from train.doctor import examine, probe\n"
        "probe.ALONE_S = probe.STAGES_S = probe.TOGETHER_S = 0.05\n"
        "examine.examine.__defaults__ = (lambda text: None, 0.05)\n"
        f"assert main(['doctor', '--data.path={tree}', '--data.image_size=32', "
        "'--data.batch_size=4', '--data.workers=1', '--accelerator=sim:2000']) == 0\n"
    )
    assert "█" in text
    assert "\\u25" not in text
    assert "\\xb5" not in text
    lines = lines_of(text)
    assert any(sign in text for sign in SPINNER)  # it was there, and is gone
    assert not set("".join(lines)) & set(SPINNER)
    assert [line for line in lines if len(line) > 79 and not line.startswith("  train ")] == []


def test_a_folder_as_json(tmp_path, capsys, no_child_left, deadline):
    tree = pictures.write_tree(tmp_path / "tree", count=20)
    assert small(tree, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"]["cause"] in told["verdict"]["losses"] or (
        told["verdict"]["cause"] == "model"
    )
    assert told["measurements"]["image_side"] > 0
    assert told["mend"]["command"].startswith("train ") or not told["mend"]["settings"]
    assert told["evidence"]


def test_a_mend_is_tried(tmp_path, capsys, no_child_left, deadline, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree = pictures.write_tree(tmp_path / "tree", count=20)
    assert small(tree, "--accelerator=sim:200000", "--apply") == 0
    text = capsys.readouterr().out
    assert "Tried, 2 times each in turn" in text or "nothing that --apply could try" in text
    left = list((tmp_path / "cache" / "wellfed").glob("wellfed-doctor-*"))
    assert left == []


def test_a_sample_of_the_data_is_packed_for_a_trial(tmp_path, no_child_left, deadline, monkeypatch):
    from train import machine
    from train.accelerator import SimulatedAccelerator
    from train.config import Config, DataConfig
    from train.data.sources.splits import open_splits
    from train.doctor.mend import Mend
    from train.doctor.subject import Subject, settings_for

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree = pictures.write_tree(tmp_path / "tree", count=20)
    config = Config(data=DataConfig(path=str(tree), image_size=32, batch_size=4, workers=1))
    cpus = machine.usable_cpus()
    splits = open_splits(str(tree), 0.1, 42)
    settings = settings_for(config, True, False, cpus, 4 * 32 * 32 * 3, False)
    subject = Subject(splits.train, False, config, settings, 3, splits.root)
    accelerator = SimulatedAccelerator(100_000)
    examined = examine.examine(subject, lambda batches: accelerator, cpus.value, run_s=0.05)
    cure = Mend("pack", "train pack", {}, {})
    tried = apply.try_mend(examined, cure, False, cpus, lambda text: None)
    assert (tried.before.name, tried.after.name) == ("as it is", "packed")
    assert tried.after.images_per_s > 0
    assert "removed again" in tried.note
    assert list((tmp_path / "cache" / "wellfed").iterdir()) == []


def own(name, *more):
    return doctor(
        *(f"--dataset=data_sets:{name}", "--accelerator=sim:2000", "--data.batch_size=4"),
        *("--data.workers=2", *more),
    )


@pytest.fixture
def here(monkeypatch):
    monkeypatch.chdir(HERE)


@pytest.mark.parametrize("name", ["sound", "locked", "vectors"])
def test_a_data_set_of_a_users_own(here, name, capsys, no_child_left, deadline):
    assert own(name) == 0
    text = capsys.readouterr().out
    assert "Your data set: " in text
    assert "Verdict: " in text


def test_a_slow_one_is_told_with_its_line(here, capsys, no_child_left, deadline):
    assert own("slow", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"]["cause"] == "disk"
    assert "time.sleep(0.004)" in " ".join(told["evidence"])


def test_findings_come_before_the_runs(here, capsys, no_child_left, deadline):
    assert own("own_generator") == 0
    text = capsys.readouterr().out
    assert text.index("the same draw in two workers") < text.index("one batch again and again")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing_there", "has no 'nothing_there'"),
        ("raising", "dataset[i] raised ValueError: no such picture"),
        ("on_cuda", "__getitem__ uses CUDA"),
        ("three_parts", "a tuple of 3; a pair (image, label) is needed"),
        ("dying", "died (code 3)"),
    ],
)
def test_what_can_not_be_examined_ends_with_one_message(
    here, name, message, capsys, no_child_left, deadline
):
    assert own(name) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../my/mydata.py:make", "write mydata:make, started in ../my"),
        ("mydata.py:make", "write mydata:make (or"),
        ("my/mydata:make", "write mydata:make, started in my"),
    ],
)
def test_the_path_of_a_file_is_no_module(name, message, capsys):
    assert doctor(f"--dataset={name}") == 2
    assert message in capsys.readouterr().err


def test_a_path_that_the_data_set_comes_from_is_no_fault(
    tmp_path, capsys, monkeypatch, no_child_left, deadline
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    assert own("vectors") == 0
    assert "PYTHONPATH" not in capsys.readouterr().out
    assert doctor() == 0
    assert "PYTHONPATH" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "key"), [("sim:1000", "sim:1000"), ("auto", "cpu"), ("cpu", "cpu")]
)
def test_what_tuning_found_is_looked_up_for_the_accelerator(asked, key, tmp_path, monkeypatch):
    import torch

    from train import machine
    from train.accelerator_choice import parse_accelerator
    from train.config import Config, DataConfig
    from train.doctor import run

    looked = []
    monkeypatch.setattr(run.cache, "look_up", lambda found: looked.append(found["accelerator"]))
    tree = pictures.write_tree(tmp_path / "tree", count=20)
    config = Config(data=DataConfig(path=str(tree), image_size=32))
    device, cpus = torch.device("cpu"), machine.usable_cpus()
    run._ours(config, device, parse_accelerator(asked), cpus)
    assert looked == [key]


def test_without_a_gpu_it_is_told_how_to_ask_for_one(
    here, capsys, monkeypatch, no_child_left, deadline
):
    from train.accelerator import SimulatedAccelerator
    from train.doctor import run

    monkeypatch.setattr(run, "ModelAccelerator", lambda *_: SimulatedAccelerator(2000))
    monkeypatch.setattr(run, "choose_device", lambda name: __import__("torch").device("cpu"))
    assert own("sound", "--accelerator=auto") == 0
    assert "No GPU here: ask what one would see with --accelerator sim:1000." in (
        capsys.readouterr().out
    )


def test_samples_that_are_no_images_need_a_simulated_accelerator(here, capsys, no_child_left):
    assert own("vectors", "--accelerator=cpu") == 2
    assert "sim:IMAGES_PER_S" in capsys.readouterr().err


def test_workers_are_ended_between_two_samples(deadline):
    """A worker that is killed with a lock would leave it locked for the next ones."""
    import data_sets

    from train.accelerator import SimulatedAccelerator
    from train.config import Config, DataConfig
    from train.data.settings import LoaderSettings
    from train.doctor.subject import Subject

    config = Config(data=DataConfig(batch_size=4))
    settings = LoaderSettings(4, 2, 0, None, False, "fork", [], [])
    subject = Subject(data_sets.locked(), True, config, settings)
    pace = pipeline.Pace(0.02, 1, 2.0)
    for _ in range(10):
        found = pipeline.warm(subject, range(40), SimulatedAccelerator(1e6), pace)
        assert found.images > 0


def test_threads_that_a_data_set_leaves_do_not_keep_it_from_its_end():
    code = "import train.__main__ as program; program.JOIN_S = 0.2; program.command()"
    words = ["doctor", "--dataset=data_sets:keeps_a_thread", "--accelerator=sim:1000"]
    path = os.pathsep.join((str(HERE), str(HERE.parent.parent)))
    ended = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode == 2
    assert "and does not end it" in ended.stderr
    assert "left threads that go on (reader)" in ended.stderr
    assert ended.stderr.count("\n") == 2
