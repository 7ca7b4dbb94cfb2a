"""`train tune` live, on small pictures; and a run that uses what it found."""

import json
import os
import signal
import sys

import pytest
import small_run

from train.__main__ import main
from train.tune import budgets, choose, known, trials
from train.tune.tuned import Tuned


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    """A cache of the test's own, trials of moments, and a machine that nobody else uses."""
    monkeypatch.setattr(choose.OthersClock, "cores", lambda self: 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(trials, "TRIAL_S", 0.05)
    monkeypatch.setattr(trials, "WARM_S", 0.0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_run.make_images(tmp_path_factory.mktemp("data"))


def _tune(capsys, *words):
    """Output of `train tune`, and its exit code."""
    code = main(["tune", "--seconds=8", *words])
    return capsys.readouterr(), code


def _settings(data, **more):
    """Arguments of a small run, without those that tuning chooses."""
    words = small_run.arguments(data, "unused", **more)[1:]
    return [word for word in words if not word.startswith(("--data.workers=", "--run.folder="))]


def test_it_measures_prints_and_remembers(data, capsys, no_child_left, deadline):
    words = [*_settings(data), "--accelerator=sim:300"]
    told, code = _tune(capsys, *words)
    assert code == 0
    assert "choice    data.workers=" in told.out
    assert "measured in" in told.out
    assert "\ndata:\n  workers: " in told.out
    told, code = _tune(capsys, *words)
    assert code == 0
    assert "known     known for this machine since" in told.out


def test_a_doubtful_choice_is_not_kept(data, tmp_path, capsys, monkeypatch, no_child_left):
    """Other programs had the machine: what was measured beside them holds for no other day."""
    monkeypatch.setattr(choose.OthersClock, "cores", lambda self: 4096.0)
    told, code = _tune(capsys, *_settings(data), "--accelerator=sim:300")
    assert code == 0
    assert "known     not kept: other programs had more than half of the cores" in told.out
    assert "choice    data.workers=" in told.out
    assert not list((tmp_path / "cache").rglob("tune/*.json"))


def test_json_is_one_object_and_the_rest_goes_to_standard_error(data, capsys, no_child_left):
    told, code = _tune(capsys, *_settings(data), "--accelerator=sim:300", "--json")
    assert code == 0
    found = json.loads(told.out)
    assert found.pop("known") is False
    tuned = Tuned.from_json(found)
    assert tuned.costs.decode.images >= 2
    assert tuned.costs.batch.seconds > 0
    assert 0 <= tuned.wait_share <= 1
    assert "trial 1" in told.err


def test_what_is_set_by_hand_is_kept(data, capsys, no_child_left):
    words = [*_settings(data), "--data.workers=1", "--data.workers_kind=thread", "--json"]
    told, code = _tune(capsys, *words, "--accelerator=sim:300")
    assert code == 0
    found = json.loads(told.out)
    assert (found["workers"], found["workers_kind"]) == (1, "thread")
    assert {row["candidate"]["workers"] for row in found["rows"]} == {1}


def test_a_run_uses_what_is_known_and_says_so(data, tmp_path, capsys, no_child_left, deadline):
    told, code = _tune(capsys, *_settings(data), "--accelerator=cpu", "--json")
    assert code == 0
    workers = json.loads(told.out)["workers"]
    words = _settings(data)
    assert main(["fit", *words, f"--run.folder={tmp_path / 'run'}", "--run.max_steps=1"]) == 0
    rows = json.loads((tmp_path / "run" / "settings.json").read_text())
    row = next(row for row in rows if row["name"] == "data.workers")
    assert row["value"] == workers
    assert "known for this machine since" in row["reason"]


def test_a_short_run_is_not_tuned_and_says_so(data, tmp_path, capsys):
    words = [*_settings(data), f"--run.folder={tmp_path / 'run'}", "--run.max_steps=1"]
    assert main(["fit", *words]) == 0
    assert "tuning    none: 8 images in all, worth it from 10,000" in capsys.readouterr().out


def test_a_finding_for_other_settings_is_told_in_the_same_line(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(known.cache, "nearest", lambda key: {"data.crop_min": 0.5})
    words = [*_settings(data), f"--run.folder={tmp_path / 'run'}", "--run.max_steps=1"]
    assert main(["fit", *words]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("tuning")]
    assert len(lines) == 1
    assert (
        "chosen by rule. Tuned ones are known for data.crop_min 0.5 alone, and this run"
        in (lines[0])
    )


# the child of a run


def _child(monkeypatch, script):
    """Let a script stand for the tuner."""
    true = known._run
    monkeypatch.setattr(
        known, "_run", lambda command, seconds: true([sys.executable, "-c", script], seconds)
    )
    monkeypatch.setattr(known, "WORTH_IMAGES", 0)


def _fit(data, folder):
    words = [*_settings(data), f"--run.folder={folder}", "--run.max_steps=1"]
    assert main(["fit", *words]) == 0
    return {
        row["name"]: (row["value"], row["reason"])
        for row in json.loads((folder / "settings.json").read_text())
    }


def test_a_long_run_takes_what_its_child_found(data, tmp_path, capsys, monkeypatch, deadline):
    told, _ = _tune(capsys, *_settings(data), "--accelerator=sim:300", "--json")
    found = {**json.loads(told.out), "workers": 3, "prefetch": 1, "workers_kind": "thread"}
    found.update(recommendation="packed it would be faster", command="train pack a b")
    path = tmp_path / "found.json"
    path.write_text(json.dumps(found))
    script = f"import sys; print('trial 1', file=sys.stderr); print(open({str(path)!r}).read())"
    _child(monkeypatch, script)
    rows = _fit(data, tmp_path / "run")
    assert rows["data.workers"][0] == rows["eval_workers"][0] == 3
    assert rows["data.workers_kind"][0] == "thread"
    assert "measured just now" in rows["data.workers"][1]
    out = capsys.readouterr().out
    assert "tuning    the loader for this machine and these data" in out
    assert "advice    packed it would be faster: train pack a b" in out


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import sys; sys.exit('error: no such thing')", "no such thing"),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9"),
        ("print('{')", "JSONDecodeError"),
        ("print('{}')", "KeyError"),
        ("import time; time.sleep(60)", "no result after"),
    ],
)
def test_a_child_that_fails_ends_no_run(data, tmp_path, capsys, monkeypatch, deadline, script, why):
    _child(monkeypatch, script)
    monkeypatch.setattr(known, "LEAST_S", 0.1)
    monkeypatch.setattr(known, "GRACE_S", 0.0 if "sleep" in script else 30.0)
    rows = _fit(data, tmp_path / "run")
    assert "tuned" not in rows["data.workers"][1]
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "tuning failed" in line]
    assert why in line


def test_the_child_is_given_the_runs_settings(tmp_path):
    from train.config import Config, DataConfig, ModelConfig, RunConfig

    config = Config(
        data=DataConfig(path="a b", workers=2, image_size=64),
        model=ModelConfig(weights="w.pt"),
        run=RunConfig(folder="f", resume="r"),
    )
    found = known.recipe_of(config)
    assert found["data"]["path"] == "a b"
    assert found["data"]["workers"] == 2
    assert found["run"]["folder"] is found["run"]["resume"] is found["model"]["weights"] is None


# budgets and signals


def _budgets(monkeypatch, memory=8 << 30, files=4096, shm=1 << 30, own=False, **settings):
    from train import machine
    from train.config import Config, DataConfig
    from train.machine import Measure

    monkeypatch.setattr(machine, "memory_limit_bytes", lambda: Measure("m", memory, "cgroup"))
    monkeypatch.setattr(machine, "shm_free_bytes", lambda: Measure("s", shm, "statvfs"))
    monkeypatch.setattr(machine, "raise_open_file_limit", lambda: Measure("f", files, "limit"))
    config = Config(data=DataConfig(**settings))
    return budgets.Budgets(config, own, "cpu", Measure("CPUs", 8, "affinity"))


def test_memory_shared_memory_and_open_files_bound_what_is_tried(monkeypatch):
    six = _candidate(6)
    assert _budgets(monkeypatch).fits(six)
    # 20 % of it for batches of 9.6 MB, of both loaders
    small = _budgets(monkeypatch, memory=1 << 30)
    assert not small.fits(six)
    assert small.fits(_candidate(2))
    assert _budgets(monkeypatch, memory=1).fits(_candidate(0))
    # ours do not pass through /dev/shm, samples of a user's own do
    assert _budgets(monkeypatch, shm=64 << 20).fits(six)
    assert not _budgets(monkeypatch, shm=64 << 20, own=True).fits(six)
    assert not _budgets(monkeypatch, files=100).fits(six)
    assert _budgets(monkeypatch, files=100).fits(_candidate(6, "thread"))
    assert not _budgets(monkeypatch, files=128, own=True).fits(_candidate(6, "thread", 8))


def test_what_the_user_set_bounds_it_too(monkeypatch):
    assert not _budgets(monkeypatch, workers=2).fits(_candidate(3))
    assert _budgets(monkeypatch, workers=2).fits(_candidate(2))
    assert not _budgets(monkeypatch, prefetch=1).fits(_candidate(2))
    assert not _budgets(monkeypatch, workers_kind="thread").fits(_candidate(2))


def _candidate(workers, kind="process", prefetch=2):
    from train.tune.predict import Candidate

    return Candidate(workers, kind, prefetch)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_nothing_left_behind(signum, data, tmp_path, no_child_left, deadline):
    words = [*_settings(data), "--accelerator=sim:100000", "--seconds=60"]
    child = small_run.start(["tune", *words], {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    for line in child.stdout:
        if "trial 1" in line:
            os.killpg(child.pid, signum)
            break
    rest = child.stdout.read()
    assert child.wait(30) == 128 + signum
    assert f"{signum.name}: stopped; nothing is kept" in rest
    assert "Traceback" not in rest
    assert not list((tmp_path / "cache").rglob("*.json"))
    child.stdout.close()


def test_the_bar_shows_what_the_tuner_is_at_in_few_words():
    told = b"data   somewhere: 5 images\n   0.1 s  the accelerator alone (CPU)\n"
    assert known._note(bytearray(told)) == "the accelerator alone"
    told += b"  13.6 s  trial 4: 1 thread x 2: 188 images/s, waiting 2.1%, 1.6 cores\n"
    assert known._note(bytearray(told)) == "1 thread x 2"
    assert known._note(bytearray(b"data 1: 5\n")) == ""
