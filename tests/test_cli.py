"""The command line: each mistake one message and exit code 2, never a traceback."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from small_run import ROOT, arguments, fit, make_images

import train.files
from train.__main__ import main


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), train=4, val=2)


def train_command(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "train", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def refused(*words):
    """Run in a process of its own; the message of a run that ended with code 2."""
    done = train_command(*words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    return done.stderr


def test_unknown_key(data, tmp_path):
    message = refused("fit", "--data.batchsize", "8")
    assert "--data.batchsize" in message
    assert "did you mean --data.batch_size?" in message
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("data:\n  batch_size: 8\n  colour: red\n")
    assert "colour" in refused("fit", "--config", recipe)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("data.batch_size", "many", "a whole number, got 'many'"),
        ("data.batch_size", "[1, 2]", "a whole number, got '[1, 2]'"),
        ("data.workers", "many", "a whole number or auto, got 'many'"),
        ("optim.lr", "fast", "a number or auto, got 'fast'"),
        ("data.resize", "nice", "antialias, bilinear or dct, got 'nice'"),
        ("optim.ema", "{a: 1}", "a number or null, got '{'a': 1}'"),
    ],
)
def test_a_value_of_a_wrong_type_is_one_line(capsys, key, value, told):
    assert main(["fit", f"--{key}", value]) == 2
    message = capsys.readouterr().err.replace('"', "'")
    assert message.startswith(f"error: {key} must be {told}\nsee: "), message


def test_value_out_of_range():
    assert "data.batch_size must be >= 1, got 0" in refused("fit", "--data.batch_size", "0")


def test_recipe_that_is_no_yaml(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("data: [1, 2\n")
    assert "recipe.yaml" in refused("fit", "--config", recipe)
    assert "no_such.yaml" in refused("fit", "--config", tmp_path / "no_such.yaml")


def test_no_command_shows_help():
    done = train_command()
    assert done.returncode == 2
    assert "train fit" in done.stdout


@pytest.mark.parametrize("command", ["fit", "info"])
def test_help_teaches(command):
    done = train_command(command, "--help")
    assert done.returncode == 0
    if command == "fit":
        assert "cgroup" in done.stdout
        assert "--data.workers" in done.stdout
        assert "Exit codes" in done.stdout


def test_print_config_is_a_recipe(tmp_path, data):
    done = train_command("fit", "--data.path", data, "--optim.epochs", "3", "--print_config")
    assert done.returncode == 0
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(done.stdout)
    again = train_command("fit", "--config", recipe, "--print_config")
    assert again.stdout == done.stdout
    assert "epochs: 3" in again.stdout


@pytest.mark.parametrize(
    "recipe", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name
)
def test_every_recipe_loads(recipe):
    assert train_command("fit", "--config", recipe, "--print_config").returncode == 0
    assert recipe.read_text().startswith("#")  # its header: what to expect


def test_info(capsys):
    assert main(["info"]) == 0
    assert "CPUs" in capsys.readouterr().out
    assert main(["info", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"name", "value", "source"} == set(rows[0])


def test_info_into_a_closed_pipe():
    done = subprocess.run(
        f"'{sys.executable}' -m train info | true",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert "Traceback" not in done.stderr


def test_missing_folder(tmp_path, capsys):
    assert fit(*arguments(tmp_path / "nowhere", tmp_path / "run")) == 2
    assert "no such folder" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_empty_path_is_not_the_current_folder(tmp_path, capsys):
    assert fit(*arguments("", tmp_path / "run")) == 2
    assert "data.path is empty" in capsys.readouterr().err


def test_a_file_instead_of_a_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert fit(*arguments(tmp_path / "file", tmp_path / "run")) == 2
    assert "is a file of an unknown kind" in capsys.readouterr().err


def test_empty_class(tmp_path, capsys):
    folder = make_images(tmp_path / "images", train=4, val=2)
    (folder / "train/ant").mkdir()
    assert fit(*arguments(folder, tmp_path / "run")) == 2
    assert "'ant'" in capsys.readouterr().err
    assert (
        fit(*arguments(folder, tmp_path / "run", data__allow_empty_classes="true", optim__epochs=1))
        == 0
    )


def test_folder_without_classes(tmp_path, capsys):
    assert fit(*arguments(tmp_path, tmp_path / "run")) == 2
    assert "no class folders" in capsys.readouterr().err


def test_unreadable_file(tmp_path, capsys, monkeypatch):
    folder = make_images(tmp_path / "images", train=4, val=2)
    locked = folder / "train/cat/01.png"
    locked.chmod(0)
    if (
        os.geteuid() == 0
    ):  # root may read everything: let the system call say what it says to others
        real = os.access
        monkeypatch.setattr(
            os, "access", lambda path, mode: str(path) != str(locked) and real(path, mode)
        )
    assert fit(*arguments(folder, tmp_path / "run")) == 2
    message = capsys.readouterr().err
    assert "cat/01.png" in message
    assert "permission denied" in message


def test_too_many_bad_samples_stop_with_the_list(tmp_path, capsys):
    folder = make_images(tmp_path / "images", train=4, val=2)
    for name in ("bird/00.png", "cat/03.png"):
        (folder / "train" / name).write_bytes(b"not an image at all")
    assert fit(*arguments(folder, tmp_path / "run")) == 2
    message = capsys.readouterr().err
    assert "2 of 18 samples are bad" in message
    assert "bird/00.png" in message
    assert "cat/03.png" in message
    ledger = [
        json.loads(line) for line in (tmp_path / "run/bad_samples.jsonl").read_text().splitlines()
    ]
    assert {entry["key"] for entry in ledger} == {"train:bird/00.png", "train:cat/03.png"}


def test_one_bad_sample_is_replaced_and_counted(tmp_path, capsys):
    folder = make_images(tmp_path / "images", train=4, val=2)
    (folder / "val/cat/00.png").write_bytes(b"")
    assert fit(*arguments(folder, tmp_path / "run", optim__epochs=1)) == 0
    output = capsys.readouterr().out
    assert "the file is empty" in output
    row = json.loads((tmp_path / "run/metrics.jsonl").read_text())
    assert (row["bad_samples"], row["val_samples"]) == (1, 5)


def test_unknown_model(data, tmp_path, capsys):
    assert fit(*arguments(data, tmp_path / "run", model__name="resnet19")) == 2
    assert "did you mean resnet" in capsys.readouterr().err


def test_cuda_where_there_is_none(data, tmp_path, capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert fit(*arguments(data, tmp_path / "run", run__device="cuda")) == 2
    assert "finds no GPU" in capsys.readouterr().err


def test_a_full_disk_while_saving_keeps_what_was_saved(data, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "run"
    assert fit(*arguments(data, folder, run__max_steps=1)) == 0
    before = (folder / "checkpoints/last.pt").read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    capsys.readouterr()
    monkeypatch.setattr(train.files.os, "fsync", full)
    assert fit("fit", f"--run.resume={folder}", "--run.max_steps=null") == 2
    assert "the disk is full" in capsys.readouterr().err
    assert (folder / "checkpoints/last.pt").read_bytes() == before
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["last.pt"]


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mount"), reason="only root can mount a small disk"
)
def test_a_disk_that_is_really_full(data, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount")
    try:
        message = refused(
            *arguments(data, disk / "run", model__name="resnet18")
        )  # its's checkpoint takes 90 MB
        assert "the disk is full" in message
        assert "MiB free" in message
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_odd_file_names_are_shown_in_any_locale(tmp_path):
    folder = make_images(tmp_path / "images", train=4, val=2)
    odd = Path(os.fsdecode(os.fsencode(folder / "train/cat") + b"/caf\xe9 \xf0\x9f\x98\x80\n.jpg"))
    odd.write_bytes(b"")
    Image.new("RGB", (8, 8)).save(folder / "train/dog/日本語.png")
    done = train_command(
        *arguments(folder, tmp_path / "run", optim__epochs=1),
        env={
            **os.environ,
            "LANG": "C",
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
        },
    )
    assert done.returncode == 0, done.stderr
    assert "bad sample" in done.stdout
