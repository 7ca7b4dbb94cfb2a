"""What is known: kept, found again, and never believed when it is damaged or of something else."""

import dataclasses
import json
import os
import re

import pytest
from worlds import World, costs, space

from train.config import Config, DataConfig, OptimConfig
from train.tune import cache
from train.tune.choose import decide
from train.tune.commands import near_words
from train.tune.predict import Candidate
from train.tune.recommend import Advice
from train.tune.show import used_by
from train.tune.trials import Outcome
from train.tune.tuned import Tuned


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "wellfed" / "tune"


@pytest.fixture
def tuned():
    """A finding with everything in it."""
    where, one = space(costs(batch_ms=2.0, accelerator=5000.0)), Candidate(2, "process", 4)
    trial = World(lambda each: 1000.0, 5000.0).trial(one)
    outcome = Outcome([(one, trial)], one, 64, "")
    advice = Advice("decoding is most of the work", "train pack DIR DIR-raw")
    return decide(where, outcome, advice, "simulated", 12.3)


def _key(**settings):
    config = Config(data=DataConfig(**settings))
    return cache.key_of(config, "cpu", 2, cache.data_identity("data", 100, "folder", "JPEG"), "")


def test_what_is_kept_is_found_again(tuned, home):
    assert cache.look_up(_key()) is None
    assert cache.keep(_key(), tuned) == ""
    assert cache.look_up(_key()) == tuned
    assert len(list(home.iterdir())) == 1


def test_it_is_json_and_back(tuned):
    assert Tuned.from_json(json.loads(json.dumps(tuned.to_json()))) == tuned
    alone = dataclasses.replace(tuned, measured=None, workers=0, prefetch=None)
    assert Tuned.from_json(json.loads(json.dumps(alone.to_json()))) == alone


@pytest.mark.parametrize(
    "settings",
    [{"batch_size": 32}, {"image_size": 64}, {"resize": "dct"}, {"workers": 2}, {"prefetch": 2}],
)
def test_other_settings_are_another_finding(tuned, settings):
    cache.keep(_key(), tuned)
    assert cache.look_up(_key(**settings)) is None


def test_what_is_known_of_other_settings_is_told_with_the_command(tuned):
    """`train tune --data.path DIR` is not what `make train DATA=DIR` asks for."""
    assert cache.nearest(_key()) == {}
    cache.keep(_key(image_size=64, crop_min=0.5), tuned)
    cache.keep(_key(), tuned)
    assert cache.nearest(_key(crop_min=0.35)) == {"data.crop_min": 0.08}
    config = Config(data=DataConfig(path="a b", crop_min=0.35), optim=OptimConfig(epochs=3))
    assert near_words(cache.nearest(_key(crop_min=0.35)), config) == (
        "Tuned ones are known for data.crop_min 0.08 alone, and this run has 0.35; "
        "to find its own: train tune --data.path 'a b' --data.crop_min 0.35"
    )
    assert near_words({}, config) == ""
    # Not of other workers, another machine, or a file that is damaged.
    assert cache.nearest(_key(crop_min=0.35, workers=1)) == {}
    data = cache.data_identity("data", 100, "folder", "JPEG")
    assert cache.nearest(cache.key_of(config, "cuda", 2, data, "a GPU")) == {}
    for path in cache.folder().iterdir():
        path.write_text("{")
    assert cache.nearest(_key(crop_min=0.35)) == {}


def test_the_result_names_the_run_that_uses_it():
    config = Config(data=DataConfig(path="a b", crop_min=0.35))
    assert used_by(config, False)[-1].strip() == (
        "train fit --data.path 'a b' --data.crop_min 0.35"
    )
    assert "by no run" in used_by(config, True)[0]


def test_other_machines_data_and_versions_are_too(tuned, monkeypatch):
    cache.keep(_key(), tuned)
    config, data = Config(), cache.data_identity("data", 100, "folder", "JPEG")
    others = [
        cache.key_of(config, "cuda", 2, data, "a GPU"),
        cache.key_of(config, "cpu", 4, data, ""),
        cache.key_of(config, "cpu", 2, {**data, "images": 101}, ""),
        cache.key_of(config, "cpu", 2, {**data, "content": "raw"}, ""),
    ]
    monkeypatch.setattr(cache, "__version__", "99")
    others.append(cache.key_of(config, "cpu", 2, data, ""))
    assert [cache.look_up(key) for key in others] == [None] * len(others)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[" * 100_000,
        lambda text: "\x00" * 50,
        lambda text: text.replace('"workers": 2', '"workers": "two"'),
        lambda text: text.replace('"workers": 2', '"workers": -1'),
        lambda text: text.replace('"workers_kind": "process"', '"workers_kind": "coroutine"'),
        lambda text: text.replace('"rows"', '"lines"'),
        lambda text: re.sub('"limit": "[a-z]+"', '"limit": null', text),
        lambda text: text.replace('"kind": "process"', '"kind": []'),
        lambda text: re.sub('"wait_share": [0-9.]+', '"wait_share": "much"', text),
        lambda text: re.sub('"images_per_s": [0-9.]+', '"images_per_s": 1' + "0" * 400, text),
        lambda text: re.sub('"seconds": [0-9.e-]+', '"seconds": null', text),
        lambda text: text.replace('"images": 100', '"images": 7'),
        lambda text: text + " " * (2 << 20),
        lambda text: "null",
    ],
)
def test_a_damaged_file_counts_as_none(tuned, home, damage):
    cache.keep(_key(), tuned)
    (path,) = home.iterdir()
    path.write_text(damage(path.read_text()))
    assert cache.look_up(_key()) is None
    assert cache.keep(_key(), tuned) == ""
    assert cache.look_up(_key()) == tuned


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_could_be_read_for_ever_counts_as_none(tuned, home, make):
    cache.keep(_key(), tuned)
    (path,) = home.iterdir()
    path.unlink()
    make(path)
    assert cache.look_up(_key()) is None


def test_what_was_measured_on_a_busy_machine_holds_for_a_day(tuned):
    cache.keep(_key(), dataclasses.replace(tuned, disturbed=True))
    assert cache.look_up(_key()) is not None
    cache.keep(_key(), dataclasses.replace(tuned, disturbed=True, made="2001-01-01"))
    assert cache.look_up(_key()) is None
    cache.keep(_key(), dataclasses.replace(tuned, made="2001-01-01"))
    assert cache.look_up(_key()) is not None


def test_a_home_that_cannot_be_written_only_costs_the_memory_of_it(tuned, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    problem = cache.keep(_key(), tuned)
    assert str(tmp_path / "file") in problem
    assert cache.look_up(_key()) is None


def test_a_relative_cache_folder_is_ignored_as_the_standard_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "wellfed" / "tune"
