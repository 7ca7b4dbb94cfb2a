"""Models and sources of a user's own, named module:function: taken, or told what is wrong."""

import sys

import numpy as np
import pytest
import small_run
import torch

from train.data.sources.open import open_sets
from train.data.sources.splits import open_splits
from train.errors import ConfigError, DataError
from train.model import build_model, check_model
from train.own_code import is_named

MODELS = """
import sys

import torch
from torch import nn

def tiny(classes):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, classes))

def no_model(classes):
    return classes

def without_arguments():
    return tiny(2)

def one_more(classes):
    return tiny(classes + 1)

class Crashes(nn.Module):
    def __init__(self, classes):
        super().__init__()

    def forward(self, images):
        return {}[images.shape]

class Leaves(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, images):
        sys.exit(0)

def frozen(classes):
    return tiny(classes).requires_grad_(False)

def lazy(classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))

class Pair(nn.Module):
    def __init__(self, classes):
        super().__init__()

    def forward(self, images):
        return images, images

a_number = 3
"""
DATA = """
import sys

import numpy as np
from train.data.sources import Record

class Squares:
    classes = ("dark", "bright")

    def __init__(self, count=40):
        self.labels = np.arange(count) % 2

    def __len__(self):
        return len(self.labels)

    def key(self, index):
        return f"square {index}"

    def __getitem__(self, index):
        label = int(self.labels[index])
        grey = (60 + 120 * label) % 256
        return Record(np.full((40, 40, 3), grey, np.uint8), label, self.key(index))

def pair():
    return Squares(40), Squares(10)

def numbers():
    made = Squares()
    made.classes = None
    return made

def odd_val():
    train, val = numbers(), numbers()
    val.labels = val.labels + 4
    return train, val

class Late(Squares):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def __getitem__(self, index):
        record = super().__getitem__(index)
        if index != 20:
            return record
        if self.how == "raises":
            raise ValueError("boo")
        if self.how == "leaves":
            sys.exit(0)
        return {
            "text": record._replace(data="pixels"),
            "label": record._replace(label=1),
            "share": record._replace(label=0.5),
        }[self.how]

def late_raises():
    return Late("raises")

def late_leaves():
    return Late("leaves")

def late_text():
    return Late("text")

def late_label():
    return Late("label")

def late_share():
    return Late("share")

class NoClass(Squares):
    def __init__(self):
        super().__init__()
        self.labels = np.where(np.arange(40) == 20, -1, self.labels)

    def __getitem__(self, index):
        grey = np.full((40, 40, 3), 60, np.uint8)
        return Record(grey, int(self.labels[index]), self.key(index))

class NoLength(Squares):
    def __len__(self):
        raise OSError("gone")

def torch_like():
    return [(0, 0), (1, 1)]

def listed():
    made = Squares()
    made.labels = made.labels.tolist()
    return made

def floats():
    made = Squares()
    made.labels = made.labels.astype(float)
    return made

def none():
    return Squares(0)

async def awaited():
    return Squares()

class Pairs(Squares):
    def __getitem__(self, index):
        return 1, 2

class Raises(Squares):
    def __getitem__(self, index):
        raise KeyError(index)

class SomeBad(Squares):
    def __getitem__(self, index):
        if index % 20 == 3:
            raise OSError(5, "no such block")
        return super().__getitem__(index)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with ownpkg/models.py and ownpkg/data.py, which is the current one."""
    (tmp_path / "ownpkg").mkdir()
    (tmp_path / "ownpkg/models.py").write_text(MODELS)
    (tmp_path / "ownpkg/data.py").write_text(DATA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("ownpkg")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("mypkg.data:Squares", True),
        ("data:make", True),
        ("a.b.c:d.e", True),
        ("/data/a:b", False),
        ("C:\\images", False),
        ("s3://bucket/x", False),
        ("data/sample", False),
        ("pipe:cat x", False),
        ("a:b:c", False),
        ("1a:b", False),
    ],
)
def test_what_is_written_as_a_name(text, is_one):
    assert is_named(text) is is_one


def test_a_folder_of_that_name_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b").mkdir()
    assert not is_named("a:b")


def test_a_model_of_ones_own_is_made_for_the_classes(own):
    model = build_model("ownpkg.models:tiny", 7)
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, 7)
    check_model("ownpkg.models:tiny", 7, 32, 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ownpkg.models:tiyn", r"ownpkg.models has no 'tiyn'; did you mean 'tiny'\?"),
        ("ownpkg.nets:tiny", "there is no module 'ownpkg.nets'"),
        ("ownpkg.models:a_number", "a_number is an int, and not a function that returns a model"),
        ("ownpkg.models:no_model", "what it returns is an int, expected an nn.Module"),
        ("ownpkg.models:without_arguments", r"calling it raised TypeError: .*\(.*:\d+\)"),
        ("ownpkg.models:one_more", r"of shape \(2, 5\) for 2 image\(s\), expected .* \(2, 4\)"),
        ("ownpkg.models:Crashes", r"KeyError: .*ownpkg/models.py:\d+\); change data.image_size"),
        ("ownpkg.models:Pair", "gives a tuple of shape"),
        ("ownpkg.models:Leaves", "SystemExit: 0"),
        ("ownpkg.models:frozen", "none of its parameters requires a gradient"),
        ("ownpkg.models:lazy", "layers whose size isn't known yet"),
        (":tiny", "lacks the module"),
    ],
)
def test_what_is_no_model_is_told_before_the_run(own, name, message):
    with pytest.raises(ConfigError, match=message) as caught:
        check_model(name, 4, 32, 2)
    assert str(caught.value).startswith("model.name")


def test_one_source_is_split_and_a_pair_is_not(own):
    splits = open_splits("ownpkg.data:Squares", 0.1, 42)
    assert (len(splits.train), len(splits.val), splits.classes) == (36, 4, ("dark", "bright"))
    splits = open_splits("ownpkg.data:pair", 0.1, 42)
    assert (len(splits.train), len(splits.val), splits.kind) == (40, 10, "own")
    assert open_splits("ownpkg.data:numbers", 0.1, 42).classes == ("0", "1")


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("torch_like", ConfigError, "is a list without key, labels; expected a source"),
        ("listed", ConfigError, "whose labels are a list; expected a NumPy array of int64"),
        ("floats", ConfigError, "whose labels are float64; expected int64"),
        ("none", ConfigError, "a Squares of 0 records"),
        ("Pairs", ConfigError, "record 0 is a tuple; expected a Record"),
        ("Raises", ConfigError, r"record 0 raised KeyError: 0 \(.*data.py:\d+\)"),
        ("NoLength", ConfigError, r"of which len\(\) or labels raised OSError: gone"),
        ("odd_val", DataError, "class.es. that train has not: '4', '5'"),
        ("gone", ConfigError, "ownpkg.data has no 'gone'"),
    ],
)
def test_what_is_no_source_is_told(own, name, error, message):
    with pytest.raises(error, match=message):
        open_sets(f"ownpkg.data:{name}")


def test_a_run_of_ones_own_model_and_data(own, capsys):
    words = small_run.arguments(
        "ownpkg.data:SomeBad", own / "run", model__name="ownpkg.models:tiny", data__bad_budget=0.2
    )
    assert small_run.fit(*words) == 0
    said = capsys.readouterr().out
    assert "36 training and 4 validation images, 2 classes: dark, bright" in said
    bad = (own / "run/bad_samples.jsonl").read_text()
    assert "square 3" in bad
    assert "no such block" in bad
    trained = small_run.weights(own / "run")
    assert all(np.isfinite(value.numpy()).all() for value in trained.values())


def test_the_run_s_folder_needs_no_quotes(own):
    from train.config import Config, DataConfig, ModelConfig
    from train.run_folder import default_folder

    config = Config(
        data=DataConfig(path="ownpkg.data:Squares"), model=ModelConfig(name="ownpkg.models:tiny")
    )
    assert default_folder(config).name.startswith("ownpkg.data-Squares-ownpkg.models-tiny-2")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("late_raises", r"record 20 raised ValueError: boo \(.*data.py:\d+\)"),
        ("late_leaves", "record 20 raised SystemExit: 0"),
        ("late_text", "record 20 has a str as data; expected bytes or an array"),
        ("late_label", "record 20 has the label 1, and `labels` says 0"),
        ("late_share", "record 20 has the label 0.5, and `labels` says 0"),
    ],
)
def test_a_mistake_in_a_later_record_names_it(own, name, message):
    source = open_sets(f"ownpkg.data:{name}").train
    assert source[19].label == 1
    with pytest.raises(ConfigError, match=message):
        source[20]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_that_meets_it_ends_with_one_message(own, capsys, workers):
    words = small_run.arguments(
        *("ownpkg.data:late_raises", own / "run"),
        model__name="ownpkg.models:tiny",
        data__workers=workers,
    )
    assert small_run.fit(*words) == 2
    error = capsys.readouterr().err
    assert "record 20 raised ValueError: boo" in error
    assert "Traceback" not in error


def test_a_record_without_a_class_is_a_bad_sample(own, capsys):
    words = small_run.arguments(
        "ownpkg.data:NoClass", own / "run", model__name="ownpkg.models:tiny", data__bad_budget=0.2
    )
    assert small_run.fit(*words) == 0
    assert "its class is -1" in (own / "run/bad_samples.jsonl").read_text()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ownpkg.data:", "lacks the function after the colon; write module:function"),
        (":Squares", "lacks the module before it; write module:function"),
        ("ownpkg.data:awaited", "is written with `async def`"),
    ],
)
def test_half_a_name_and_a_function_that_must_be_awaited_are_told(own, name, told):
    with pytest.raises(ConfigError, match=f"data.path.*{told}"):
        open_sets(name)
    if name != "ownpkg.data:awaited":
        with pytest.raises(ConfigError, match=f"model.name.*{told}"):
            build_model(name, 2)
