"""Starts that must not go wrong silently: foreign folders, diverged models, impossible batches."""

import json
import subprocess
import sys

import pytest
from small_run import ROOT, arguments, fit, make_images


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), train=8, val=3)


def test_a_foreign_folder_is_never_written_into(data, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.yaml").write_text("my: precious\n")
    (mine / "report.html").write_text("mine")
    assert fit(*arguments(data, mine)) == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert (mine / "config.yaml").read_text() == "my: precious\n"
    assert (mine / "report.html").read_text() == "mine"


def test_an_empty_folder_and_a_failed_start_may_be_used(data, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    bad = arguments(data, folder, model__weights=tmp_path / "no_such.pt", optim__epochs=1)
    assert fit(*bad) == 2  # after the folder was made
    assert (folder / "config.yaml").exists()
    assert fit(*arguments(data, folder, optim__epochs=1)) == 0


@pytest.mark.parametrize("left", ["checkpoints", ".config.yaml.7.part"])
def test_a_folder_whose_start_was_killed_may_be_used(data, tmp_path, left):
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / left).exists() or (folder / left).write_bytes(b"half")
    (folder / ".lock").touch()
    assert fit(*arguments(data, folder, optim__epochs=1, run__max_steps=1)) == 0


def test_a_folder_with_something_hidden_is_not_free(data, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/.secret").touch()
    assert fit(*arguments(data, tmp_path / "mine")) == 2
    assert "is not an empty folder" in capsys.readouterr().err


def test_a_diverged_model_is_neither_best_nor_saved(data, tmp_path, capsys):
    options = {"optim__lr": 1e30, "optim__warmup_epochs": 0, "data__batch_size": 64}
    assert fit(*arguments(data, tmp_path / "run", **options)) == 2
    assert "diverged" in capsys.readouterr().err
    assert list((tmp_path / "run/checkpoints").iterdir()) == []


def test_the_learning_rate_follows_the_images_there_are(data, tmp_path):
    options = {"optim__lr": "auto", "data__batch_size": 4096, "optim__epochs": 1}
    assert fit(*arguments(data, tmp_path / "run", **options)) == 0
    settings = json.loads((tmp_path / "run/settings.json").read_text())
    rate = next(row["value"] for row in settings if row["name"] == "peak learning rate")
    assert rate == pytest.approx(0.1 * 24 / 256, rel=1e-3)


def test_two_processes_in_one_folder(data, tmp_path, capsys):
    folder = tmp_path / "run"
    assert fit(*arguments(data, folder, run__max_steps=1)) == 0
    code = (
        "import sys, pathlib; from train.run_folder import RunFolder; "
        f"keep = RunFolder(pathlib.Path({str(folder)!r})).locked(); keep.__enter__(); "
        "print('locked', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as other:
        assert other.stdout.readline() == b"locked\n"
        assert fit("fit", f"--run.resume={folder}") == 2
        other.communicate(b"\n", timeout=180)
    assert "another process is training in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model__name": "vit_b_32", "data__image_size": 64}, "Wrong image height"),
        ({"data__batch_size": 1}, "Expected more than 1 value per channel"),
    ],
)
def test_a_model_that_cannot_take_the_batches(data, tmp_path, capsys, options, reason):
    assert fit(*arguments(data, tmp_path / "run", **options)) == 2
    message = capsys.readouterr().err
    assert reason in message
    assert "change data.image_size, data.batch_size or the model" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("line", ["5", '{"no": 1}', "\xff\xfe"])
def test_a_damaged_metrics_file_does_not_end_a_resumed_run(data, tmp_path, line):
    folder = tmp_path / "run"
    assert fit(*arguments(data, folder, run__max_steps=2)) == 0
    (folder / "metrics.jsonl").write_bytes(line.encode("latin-1") + b"\n")
    assert fit("fit", f"--run.resume={folder}", "--run.max_steps=null") == 0
    rows = [json.loads(row) for row in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [0, 1]


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("data:\n", "must hold sections"),
        ("data: [1, 2]\n", "must hold sections"),
        ("optim:\n  epochs: null\n", "optim.epochs"),
        ("run:\n  resume: runs/x\n", "--run.resume runs/x on the command line"),
    ],
)
def test_recipes_that_mean_nothing(tmp_path, capsys, recipe, message):
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe)
    assert fit("fit", "--config", str(path)) == 2
    assert message in capsys.readouterr().err


def test_the_same_folder_under_two_names_is_no_second_class(tmp_path, capsys):
    folder = make_images(tmp_path / "images", train=4, val=2)
    (folder / "train/zebra").symlink_to(folder / "train/cat")
    assert fit(*arguments(folder, tmp_path / "run")) == 2
    assert "'zebra'" in capsys.readouterr().err


def test_folders_that_are_called_like_splits_are_mentioned(tmp_path, capsys):
    images = make_images(tmp_path / "images", train=4, val=2)
    (images / "train").rename(images / "Train")
    (images / "val").rename(images / "Test")
    assert fit(*arguments(images, tmp_path / "run", optim__epochs=1)) == 0
    assert "have the names of splits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "message"),
    [("resnet81", "did you mean resnet"), ("nowhere.models:tiny", "no module 'nowhere'")],
)
def test_a_model_that_is_not_there_is_told_before_the_data_are_scanned(
    data, tmp_path, capsys, name, message
):
    assert fit(*arguments(data, tmp_path / "run", model__name=name)) == 2
    told = capsys.readouterr()
    assert message in " ".join(told.err.split())
    assert "data " not in told.out
    assert "tuning" not in told.out
    assert not (tmp_path / "run").exists()
