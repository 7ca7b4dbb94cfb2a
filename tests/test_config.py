"""The settings: each one explained, each value checked, nothing unknown accepted."""

import argparse
import ast
import dataclasses
import inspect
import os
import subprocess
import sys
from pathlib import Path

import jsonargparse
import pytest

from train import config
from train.command_line import build_parser, check_recipes, with_saved_config
from train.config import Config, DataConfig, OptimConfig, RunConfig, flatten
from train.config_changes import FREE_ON_RESUME, RETIRED, conflicts
from train.errors import ConfigError

ROOT = Path(__file__).parents[1]
NAN, INF = float("nan"), float("inf")

OUT_OF_RANGE = [
    (DataConfig, "val_share", [0, 1, -0.1, 1.5, NAN]),
    (DataConfig, "image_size", [0, 7, -224]),
    (DataConfig, "batch_size", [0, -1]),
    (DataConfig, "crop_min", [0, -0.1, 1.01, NAN]),
    (DataConfig, "flip", [-0.1, 1.1, NAN]),
    (DataConfig, "workers", [-1]),
    (DataConfig, "prefetch", [0, -1]),
    (DataConfig, "max_pixels", [0, -1]),
    (DataConfig, "bad_budget", [-0.001, 1.001, NAN]),
    (OptimConfig, "epochs", [0, -1]),
    (OptimConfig, "lr", [0, -0.1, NAN, INF]),
    (OptimConfig, "weight_decay", [-1e-4, NAN, INF]),
    (OptimConfig, "warmup_epochs", [-1, NAN]),
    (OptimConfig, "label_smoothing", [-0.1, 1, NAN]),
    (OptimConfig, "accumulate", [0, -1]),
    (OptimConfig, "ema", [0, 1, -0.1, 1.5, NAN]),
    (RunConfig, "seed", [-1, 2**63]),
    (RunConfig, "checkpoint_minutes", [0, -1, NAN]),
    (RunConfig, "max_steps", [0, -1]),
]
AT_THE_EDGE = [
    (DataConfig, {"image_size": 8, "batch_size": 1, "crop_min": 1, "flip": 0, "workers": 0}),
    (DataConfig, {"flip": 1, "prefetch": 1, "max_pixels": 1, "bad_budget": 0, "val_share": 0.999}),
    (OptimConfig, {"epochs": 1, "weight_decay": 0, "warmup_epochs": 0, "label_smoothing": 0}),
    (RunConfig, {"seed": 2**63 - 1, "checkpoint_minutes": None, "max_steps": 1}),
]


def section(kind):
    return kind.__name__[: -len("Config")].lower()


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [(kind, key, value) for kind, key, values in OUT_OF_RANGE for value in values],
)
def test_a_value_out_of_range_is_named_with_what_was_expected(kind, key, value):
    with pytest.raises(ConfigError) as error:
        kind(**{key: value})
    message = str(error.value)
    assert message.startswith(f"{section(kind)}.{key} must be ")
    assert message.endswith(f", got {value!r}")


@pytest.mark.parametrize(("kind", "values"), AT_THE_EDGE)
def test_values_at_the_edge_are_accepted(kind, values):
    found = kind(**values)
    assert {key: getattr(found, key) for key in values} == values


def test_every_number_is_checked():
    """A new knob must get a range, or be listed here as one that has none."""
    free = {
        "path",
        "workers_kind",
        "resize",
        "trust",
        "allow_empty_classes",
        "folder",
        "device",
        "precision",
        "resume",
    }
    for kind in (DataConfig, OptimConfig, RunConfig):
        checked = {key for owner, key, _ in OUT_OF_RANGE if owner is kind}
        assert {field.name for field in dataclasses.fields(kind)} - checked <= free


def test_there_are_at_most_thirty_knobs():
    assert len(flatten(Config())) <= 30


def test_each_field_is_followed_by_its_docstring():
    tree = ast.parse(inspect.getsource(config))
    classes = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name != "Config"
    ]
    assert {node.name for node in classes} == {
        "DataConfig",
        "ModelConfig",
        "OptimConfig",
        "RunConfig",
    }
    for node in classes:
        for field, after in zip(node.body, node.body[1:] + [None]):
            if isinstance(field, ast.AnnAssign):
                text = after.value.value if isinstance(after, ast.Expr) else None
                assert isinstance(text, str), f"{node.name}.{field.target.id} has no docstring"
                assert len(text) > 20


def test_settings_cannot_be_changed_by_accident():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().data.batch_size = 3


def test_no_setting_means_off_by_minus_one():
    assert -1 not in [value for value in flatten(Config()).values() if value is not True]


def test_what_a_resumed_run_may_change_is_no_conflict():
    saved = flatten(Config())
    changed = {**saved, "data.workers": 3, "run.device": "cpu", "data.batch_size": 8, "run.seed": 1}
    assert conflicts(saved, saved) == []
    assert conflicts(saved, changed) == ["data.batch_size: 64 -> 8", "run.seed: 42 -> 1"]
    older = {key: value for key, value in saved.items() if key != "data.flip"}
    assert conflicts(older, saved) == ["data.flip: None -> 0.5"]
    assert set(FREE_ON_RESUME) <= set(saved)
    assert not set(RETIRED) & set(saved)


def train(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "train", "fit", *arguments],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["--data.batchsize", "8"], "data.batchsize"),
        (["--data.batch_size", "many"], "data.batch_size"),
        (["--run.device", "tpu"], "run.device"),
    ],
)
def test_a_mistake_in_a_flag_is_one_message_and_exit_code_2(arguments, key):
    done = train(*arguments)
    assert done.returncode == 2, done.stderr
    assert key in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("data:\n  batchsize: 8\n", "batchsize"),
        ("data:\n  batch_size: 1.5\n", "batch_size"),
        ("data:\n  workers: fast\n", "workers"),
        ("optim:\n  lr: [1]\n", "lr"),
        ("trainer: {epochs: 3}\n", "trainer"),
    ],
)
def test_a_mistake_in_a_recipe_is_refused_by_name(tmp_path, text, key):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(text)
    with pytest.raises(Exception, match=key):
        parse("--config", str(recipe))


def parse(*arguments):
    parser = build_parser()
    parsed = parser.parse_args(["fit", *arguments])
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes
    chosen = instantiate(parsed).fit
    return Config(data=chosen.data, model=chosen.model, optim=chosen.optim, run=chosen.run)


def test_a_retired_setting_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "old.yaml").write_text("data: {start_method: forkserver}\n")
    for words in (["--data.start_method=fork"], ["--config", str(tmp_path / "old.yaml")]):
        done = train(*words)
        assert done.returncode == 2
        assert "start_method" in done.stderr
        assert "it is part of data.workers_kind now" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("method", "kind", "expected"),
    [
        ("auto", "auto", "auto"),
        ("forkserver", "auto", "forkserver"),
        ("spawn", "process", "spawn"),
        ("fork", "thread", "thread"),
    ],
)
def test_the_settings_of_a_run_of_before_are_brought_up_to_date(tmp_path, method, kind, expected):
    path = tmp_path / "config.yaml"
    path.write_text(
        f"data: {{path: here, start_method: {method}, workers_kind: {kind}}}\nrun: {{seed: 3}}\n"
    )
    words = with_saved_config(["fit", f"--run.resume={tmp_path}"])
    found = parse(*words[1:])
    assert (found.data.workers_kind, found.data.path, found.run.seed) == (expected, "here", 3)
    assert "start_method" not in path.read_text()
    assert conflicts({**flatten(found), "data.start_method": method}, flatten(found)) == []


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "data: {batch_size: 8, workers: 3}\noptim: {lr: 0.5}\nrun: {max_steps: null}\n"
    )
    found = parse("--config", str(recipe), "--data.batch_size", "16", "--optim.weight_decay=0")
    assert (found.data.batch_size, found.data.workers, found.data.prefetch) == (16, 3, "auto")
    assert (found.optim.lr, found.optim.weight_decay, found.run.max_steps) == (0.5, 0, None)


def test_what_print_config_prints_gives_the_same_settings(tmp_path):
    flags = [
        "--data.batch_size",
        "12",
        "--optim.lr",
        "0.25",
        "--run.folder",
        "here",
        "--data.workers",
        "2",
    ]
    done = train(*flags, "--print_config")
    assert done.returncode == 0, done.stderr
    recipe = tmp_path / "printed.yaml"
    recipe.write_text(done.stdout)
    assert parse("--config", str(recipe)) == parse(*flags)
    assert jsonargparse.__version__


CIRCLE = "data: &a\n  path: [*a]\n"
LAUGHS = "data:\n  batch_size:\n  - &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"  - &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run: {seed: 2024-99-99}\n", "is no YAML"),
        ("run: {seed: !!timestamp x}\n", "is no YAML"),
        ("run: {seed: !!float _}\n", "is no YAML"),
        ("run: {seed: 0x_}\n", "is no YAML"),
        ("[" * 5000, "nested too deeply"),
        (LAUGHS, "unfold to more than 10,000 values"),
        (CIRCLE, "unfold to more than 10,000 values"),
    ],
)
def test_a_recipe_of_odd_yaml_is_one_message(tmp_path, text, words):
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(ConfigError, match=words):
        check_recipes(["fit", "--config", str(tmp_path / "recipe.yaml")])


def test_a_number_that_no_computer_has():
    with pytest.raises(argparse.ArgumentError, match="a number is out of range"):
        parse("--data.flip", "9" * 400)
