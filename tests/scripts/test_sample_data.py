import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
if str(SCRIPTS) not in sys.path:
    sys.path.insert(0, str(SCRIPTS))

import sample_data  # noqa: E402
from sample_data import CLASSES, SampleDataError, make_data_set, make_image  # noqa: E402

SMALL = {"num_train": 30, "num_val": 10, "size": 48, "processes": 1}


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run_script(*arguments, **options):
    command = [sys.executable, str(SCRIPTS / "sample_data.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "sample"
    assert make_data_set(out, **SMALL) is True
    return out


def test_an_image_depends_on_its_three_numbers_alone():
    first = make_image(3, 4, 5)
    assert first.dtype == np.uint8
    assert first.ndim == 3
    assert first.shape[2] == 3
    assert np.array_equal(first, make_image(3, 4, 5))
    for other in [(2, 4, 5), (3, 5, 5), (3, 4, 6)]:
        changed = make_image(*other)
        assert changed.shape != first.shape or not np.array_equal(changed, first)


def test_sizes_vary_as_photographs_do():
    shapes = [make_image(0, index % 10, index, size=64).shape[:2] for index in range(60)]
    assert len(set(shapes)) > 20
    assert 5 <= sum(height > width for height, width in shapes) <= 30
    assert all(54 <= max(shape) <= 74 for shape in shapes)


def test_file_sizes_are_those_of_photographs(tmp_path):
    make_data_set(tmp_path / "full", num_train=10, num_val=0, processes=1)
    sizes = [path.stat().st_size for path in (tmp_path / "full").rglob("*.jpg")]
    assert len(sizes) == 10
    assert all(15_000 < size < 80_000 for size in sizes)


def hue_histogram(image):
    hue, saturation, value = np.asarray(Image.fromarray(image).convert("HSV")).reshape(-1, 3).T
    weights = (saturation / 255.0) ** 2 * (value / 255.0)
    histogram = np.histogram(hue, bins=20, range=(0, 256), weights=weights)[0]
    return histogram / histogram.sum()


def test_classes_can_be_told_apart_and_colour_is_not_all():
    features = np.array(
        [[hue_histogram(make_image(0, c, i, size=48)) for i in range(20)] for c in range(10)]
    )
    centres = features[:, :10].mean(1)
    distance = np.abs(features[:, 10:, None] - centres).sum(-1)
    share = (distance.argmin(-1) == np.arange(10)[:, None]).mean()
    assert 0.35 < share < 0.9


def test_layout_and_labels_that_say_generated(made):
    for split, count in [("train", 3), ("val", 1)]:
        assert sorted(path.name for path in (made / split).iterdir()) == list(CLASSES)
        for name in CLASSES:
            assert len(list((made / split / name).glob("*.jpg"))) == count
    assert "not photographs" in (made / "README.txt").read_text()
    with Image.open(made / "train" / "star" / "000006.jpg") as image:
        assert "not a photograph" in image.info["comment"].decode()
        assert [layer[1:3] for layer in image.layer] == [(2, 2), (1, 1), (1, 1)]  # 4:2:0
        pixels = np.asarray(image).astype(int)
    drawn = make_image(0, CLASSES.index("star"), 0, size=48)
    assert np.abs(pixels - drawn).mean() < 12


def test_train_and_val_share_no_picture(made):
    files = [data for name, data in contents(made).items() if name.endswith(".jpg")]
    assert len(files) == len(set(files)) == 40


def test_same_set_for_any_number_of_processes(made, tmp_path):
    many = {**SMALL, "processes": 3}
    assert make_data_set(tmp_path / "many", **many)
    assert contents(tmp_path / "many") == contents(made)


def test_val_stays_when_train_grows(made, tmp_path):
    make_data_set(tmp_path / "more", **{**SMALL, "num_train": 50})
    assert contents(tmp_path / "more" / "val") == contents(made / "val")


def test_second_call_does_nothing(made):
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert make_data_set(made, **SMALL) is False
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before


def test_shuffled_labels_are_the_same_pictures_under_other_names(made, tmp_path):
    for name in ["one", "two"]:
        make_data_set(tmp_path / name, **SMALL, shuffle_labels=True)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    plain = {p.name: (p.parent.name, p.read_bytes()) for p in (made / "train").rglob("*.jpg")}
    lots = {p.name: (p.parent.name, p.read_bytes()) for p in tmp_path.glob("one/train/*/*.jpg")}
    assert plain.keys() == lots.keys()
    assert all(plain[name][1] == lots[name][1] for name in plain)
    kept = sum(plain[name][0] == lots[name][0] for name in plain)
    assert kept < len(plain) / 2
    assert all(len(list((tmp_path / "one" / "train" / name).iterdir())) == 3 for name in CLASSES)


def test_foreign_folder_is_refused_and_untouched(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for replace in [False, True]:
        with pytest.raises(SampleDataError, match="was not made by this script"):
            make_data_set(tmp_path / "mine", **SMALL, replace=replace)
    assert contents(tmp_path) == {"mine/thesis.txt": b"years of work"}


def test_empty_folder_is_used(tmp_path):
    (tmp_path / "empty").mkdir()
    assert make_data_set(tmp_path / "empty", **SMALL)


def test_other_arguments_need_replace(tmp_path):
    out = tmp_path / "set"
    make_data_set(out, **SMALL)
    with pytest.raises(SampleDataError, match=r"made with other arguments.*--replace"):
        make_data_set(out, **SMALL, seed=1)
    assert make_data_set(out, **SMALL, seed=1, replace=True)
    assert json.loads((out / "generated.json").read_text())["seed"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_missing_picture_is_noticed(tmp_path):
    out = tmp_path / "set"
    make_data_set(out, **SMALL)
    (out / "val" / "ring" / "000004.jpg").unlink()
    with pytest.raises(SampleDataError, match="lacks pictures"):
        make_data_set(out, **SMALL)
    assert make_data_set(out, **SMALL, replace=True)


def test_what_a_killed_run_left_is_made_again(made, tmp_path):
    partial = tmp_path / "set.partial"
    (partial / "train" / "ring").mkdir(parents=True)
    (partial / "train" / "ring" / "000004.jpg").write_bytes(b"half a pic")
    manifest = json.loads((made / "generated.json").read_text())
    (partial / "generated.json").write_text(json.dumps({**manifest, "state": "building"}))
    assert make_data_set(tmp_path / "set", **SMALL)
    assert contents(tmp_path / "set") == contents(made)
    assert not partial.exists()


def test_half_made_set_never_passes_for_a_whole_one(made, tmp_path):
    make_data_set(tmp_path / "set", **SMALL)
    manifest = json.loads((made / "generated.json").read_text())
    (tmp_path / "set" / "generated.json").write_text(json.dumps({**manifest, "state": "building"}))
    with pytest.raises(SampleDataError, match="--replace"):
        make_data_set(tmp_path / "set", **SMALL)


def test_foreign_partial_folder_is_refused(tmp_path):
    (tmp_path / "set.partial").mkdir()
    (tmp_path / "set.partial" / "notes").write_text("mine")
    with pytest.raises(SampleDataError, match="in the way"):
        make_data_set(tmp_path / "set", **SMALL)
    assert contents(tmp_path) == {"set.partial/notes": b"mine"}


def test_two_runs_at_a_time(tmp_path):
    (tmp_path / "set.partial").mkdir()
    descriptor = os.open(tmp_path / "set.partial", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(SampleDataError, match="another run is making"):
            make_data_set(tmp_path / "set", **SMALL)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_train": 9}, "--train must be from 10"),
        ({"num_val": 3}, "--val must be 0 or >= 10"),
        ({"size": 8}, "--size must be from 32"),
        ({"seed": -1}, "--seed must be >= 0"),
        ({"processes": 0}, "--processes must be >= 1"),
    ],
)
def test_arguments_out_of_range(change, message, tmp_path):
    with pytest.raises(SampleDataError, match=message):
        make_data_set(tmp_path / "set", **{**SMALL, **change})
    assert not any(tmp_path.iterdir())


def test_full_disk_is_one_message_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "x.jpg")

    monkeypatch.setattr(sample_data, "write_images", full)
    assert sample_data.main(["--out", str(tmp_path / "set")]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: cannot write x.jpg: No space left on device; the set needs")
    assert shown.count("\n") == 1
    assert not any(tmp_path.iterdir())


def test_error_in_a_process_that_draws_reaches_the_caller(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

    done = run_script("--out", tmp_path / "set", "--processes", 2, preexec_fn=limit)
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not any(tmp_path.iterdir())


def test_place_that_cannot_hold_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    done = run_script("--out", tmp_path / "file" / "set")
    assert done.returncode == 2
    assert "Not a directory" in done.stderr
    assert "--out" in done.stderr
    assert "Traceback" not in done.stderr


def start_and_wait_for_pictures(out):
    command = [sys.executable, str(SCRIPTS / "sample_data.py"), "--out", str(out)]
    command += ["--processes", "2", "--train", "5000"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    end = time.monotonic() + 30
    while not any(Path(f"{out}.partial").glob("train/*/*.jpg")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end, "no picture appeared"
        time.sleep(0.05)
    return process


def test_ctrl_c(tmp_path):
    process = start_and_wait_for_pictures(tmp_path / "set")
    children = psutil.Process(process.pid).children()
    os.killpg(process.pid, signal.SIGINT)
    _, shown = process.communicate(timeout=180)
    assert process.returncode == 130
    assert shown == "stopped by Ctrl-C; nothing was kept, run it again to start over\n"
    assert not any(tmp_path.iterdir())
    assert psutil.wait_procs(children, timeout=10)[1] == []


def test_process_that_draws_is_killed(tmp_path):
    process = start_and_wait_for_pictures(tmp_path / "set")
    children = psutil.Process(process.pid).children()
    drawing = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    assert len(drawing) == 2
    for child in drawing:
        child.kill()
    _, shown = process.communicate(timeout=180)
    assert process.returncode == 2
    assert "ended with code -9" in shown
    assert not any(tmp_path.iterdir())


def test_processes_that_draw_end_with_their_parent(tmp_path):
    process = start_and_wait_for_pictures(tmp_path / "set")
    children = psutil.Process(process.pid).children()
    process.kill()
    process.communicate(timeout=180)
    assert psutil.wait_procs(children, timeout=10)[1] == []


def test_command_line(tmp_path):
    out = tmp_path / "set"
    small = ["--train", 20, "--val", 0, "--size", 48, "--processes", 1]
    done = run_script("--out", out, *small)
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 + 0 generated pictures in 10 classes" in done.stdout
    assert not (out / "val").exists()
    assert "already there" in run_script("--out", out, *small).stdout
    assert "exit codes" in run_script("--help").stdout
