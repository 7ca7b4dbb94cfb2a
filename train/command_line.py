"""The commands and their settings: parsers, recipes, and messages in plain words."""

import argparse
import difflib
import math
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Literal, Union, get_args, get_origin, get_type_hints

import jsonargparse
import yaml

from train import __version__
from train.bench import options as benching
from train.config import START_METHODS, Config, flatten
from train.config_changes import RETIRED
from train.doctor import options as examining
from train.errors import ConfigError, TrainError
from train.files import write_whole
from train.pack import options as packing
from train.tune import options as tuning

DESCRIPTION = """Train an image classifier whose accelerator does not wait for data, and say so
with numbers.

  train fit --config configs/sample.yaml     a recipe; its header says more
  train fit --data.path DIR                  your own images, in any container
  train fit --data.path DIR --print_config   all settings, for a recipe of yours
  train fit --run.resume runs/NAME           go on from the very next sample
  train pack DIR OUT                         pack once, read faster ever after
  train doctor --data.path DIR               what keeps the accelerator waiting
  train tune --data.path DIR                 the loader's settings, by trials
  train bench --data.path DIR                our loader beside a plain one
  train info                                 what this machine offers
"""

MOST_VALUES = 10_000
"""Of a recipe, whose own are about forty."""

MOST_VALUE_WORDS = 100
"""Characters of a wrong value that are shown."""

RECIPES: Dict[str, Any] = {"fit": None, "tune": tuning, "bench": benching, "doctor": examining}
"""Commands that take the settings of a run, and the options that they have beside."""

_FIT = """Train: from images to a checkpoint and a report.

Exit codes: 0 done; 2 something to mend; 130 (Ctrl-C), 143 (SIGTERM),
138 (SIGUSR1), 129 (closed terminal): saved and stopped.
"""

_HELP = {
    "fit": "train a model",
    "pack": "pack a data set, to read it faster",
    "doctor": "say what keeps the accelerator waiting, and what mends it",
    "tune": "find the loader's settings for this machine and these data",
    "bench": "compare our loader with a plain one, on this machine",
    "info": "show the machine and the environment",
}


class _AsWritten(jsonargparse.DefaultHelpFormatter):
    """Keeps the lines of the description: its examples are one to a line."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "".join(f"{indent}{line}\n" for line in text.splitlines())


class _Parser(jsonargparse.ArgumentParser):
    """Refuses integers beyond every float, of which the original makes a traceback."""

    def parse_args(self, *args: Any, **options: Any) -> Any:
        try:
            return super().parse_args(*args, **options)
        except OverflowError as error:
            raise argparse.ArgumentError(None, f"a number is out of range: {error}") from None


def build_parser() -> jsonargparse.ArgumentParser:
    """The parser; its help is made from the docstrings of `train.config`."""
    jsonargparse.set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = _Parser(
        formatter_class=_AsWritten,
        prog="train",
        exit_on_error=False,
        allow_abbrev=False,
        description=DESCRIPTION,
        version=__version__,
    )
    commands = parser.add_subcommands()
    for name, more in RECIPES.items():
        command = jsonargparse.ArgumentParser(
            exit_on_error=False,
            allow_abbrev=False,
            formatter_class=_AsWritten,
            # The thirty settings below would fill the first screen otherwise.
            usage=f"train {name} [--config FILE] [options] [--section.key VALUE ...]",
            description=more.DESCRIPTION if more else _FIT,
        )
        command.add_argument(
            "--config", action="config", help="YAML file with settings; flags on top of it win."
        )
        if more is not None:
            more.add_options(command)
        command.add_class_arguments(Config, None)
        commands.add_subcommand(name, command, help=_HELP[name])
    commands.add_subcommand("pack", packing.build_parser(_AsWritten), help=_HELP["pack"])
    info = jsonargparse.ArgumentParser(
        description="Show what this machine and this environment offer."
    )
    info.add_argument("--json", type=bool, default=False, help="Print JSON.", nargs="?", const=True)
    info.add_argument("--data", type=str, default=".", help="A path on the disk of your data.")
    commands.add_subcommand("info", info, help=_HELP["info"])
    return parser


def read_config(parser: jsonargparse.ArgumentParser, options: jsonargparse.Namespace) -> Config:
    """The settings of a run from what was parsed for one of RECIPES.

    Raises:
        ConfigError: a value out of its range.
    """
    # Renamed in jsonargparse 4.49, where the old name warns.
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes
    chosen = instantiate(options)[options.subcommand]
    return Config(data=chosen.data, model=chosen.model, optim=chosen.optim, run=chosen.run)


def with_saved_config(asked: List[str]) -> List[str]:
    """A resumed run starts from its own settings: its config.yaml comes before all arguments."""
    folder = None
    for position, argument in enumerate(asked):
        if argument == "--run.resume" and position + 1 < len(asked):
            folder = asked[position + 1]
        elif argument.startswith("--run.resume="):
            folder = argument.split("=", 1)[1]
    if folder in (None, "null") or asked[0] != "fit":
        return asked
    saved = os.path.join(str(folder), "config.yaml")
    if not os.path.isfile(saved):
        raise TrainError(f"run.resume: {folder!r} is no run folder (it has no config.yaml)")
    _modernise(saved)
    return ["fit", "--config", saved] + asked[1:]


def _modernise(path: str) -> None:
    """Bring the settings of a run of before 2026-12 up to date: the start method has moved."""
    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
        data = content["data"]
        method = data.pop("start_method")
    except Exception:  # another one's, or none at all: `check_recipes` says so
        return
    if method in START_METHODS and data.get("workers_kind", "auto") in ("auto", "process"):
        data["workers_kind"] = method
    write_whole(Path(path), yaml.safe_dump(content, sort_keys=False).encode())


def check_recipes(arguments: List[str]) -> None:
    """Name the file that is no recipe, which the parser's own message does not."""
    for option, path in zip(arguments, arguments[1:] + [""]):
        if option.startswith("--config="):
            path = option.split("=", 1)[1]
        elif option != "--config":
            continue
        try:
            with open(path, encoding="utf-8") as file:
                content = yaml.safe_load(file)
        except OSError as error:
            raise ConfigError(f"--config: cannot read {path!r}: {error.strerror}") from None
        except RecursionError:
            raise ConfigError(f"--config: {path!r} is nested too deeply") from None
        except Exception as error:  # PyYAML passes on what becomes of dates that are none
            raise ConfigError(f"--config: {path!r} is no YAML: {error}") from None
        if _unfolded(content, {}) > MOST_VALUES:
            raise ConfigError(
                f"--config: {path!r} has aliases that unfold to more than {MOST_VALUES:,} values"
            )
        sections = content.values() if isinstance(content, dict) else [None]
        if not all(isinstance(section, dict) for section in sections):
            raise ConfigError(
                f"--config: {path!r} must hold sections (data, model, optim, run), each with "
                "settings below it; train fit --print_config shows them"
            )
        resume = content.get("run", {}).get("resume")
        if resume and not any(word.startswith("--run.resume") for word in arguments):
            raise ConfigError(
                f"--config: {path!r} sets run.resume; say --run.resume {resume} on the command "
                "line instead, so that the run's own settings are taken"
            )


def _unfolded(tree: Any, known: Dict[int, float]) -> float:
    """How many values a document has with its aliases written out; infinitely many in a circle."""
    if not isinstance(tree, (dict, list)):
        return 1
    if id(tree) not in known:
        known[id(tree)] = math.inf
        parts = tree.values() if isinstance(tree, dict) else tree
        known[id(tree)] = 1 + sum(_unfolded(part, known) for part in parts)
    return known[id(tree)]


def in_plain_words(message: str, command: str) -> str:
    """The parser's message without Python's type syntax, and the key that was probably meant."""
    message = _of_wrong_type(message) or message
    message = re.sub(r"<class '([\w.]+)'>", r"\1", message).replace("typing.", "")
    message = re.sub(r"Expected an? (\w+\.)", r"expected \1", message)
    keys = list(flatten(Config()))
    for word in re.findall(r"(?:--|')(\w+\.\w+)", message):
        message += f"\n{RETIRED[word]}" if word in RETIRED else ""
        near = [] if word in keys or word in RETIRED else difflib.get_close_matches(word, keys, n=1)
        message += "".join(f"\ndid you mean --{key}?" for key in near)
    command = command if command in _HELP else "fit"
    return f"{message}\nsee: python -m train {command} --help"


_TYPES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _of_wrong_type(message: str) -> str:
    """One line for a value of a wrong type, where the parser lists its attempts; else ''."""
    named = re.search(r'Parser key "(\w+)\.(\w+)":', message)
    given = re.findall(r"(?:Given|Got) value: (.+)", message)
    section = getattr(Config(), named[1], None) if named else None
    kinds = get_type_hints(type(section)) if section is not None else {}
    if named is None or not given or named[2] not in kinds:
        return ""
    words = _words_of(kinds[named[2]])
    expected = " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
    value = given[-1].strip()[:MOST_VALUE_WORDS]
    return f"{named[1]}.{named[2]} must be {expected}, got {value!r}"


def _words_of(kind: Any) -> List[str]:
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    if get_origin(kind) is Union:
        return [word for part in get_args(kind) for word in _words_of(part)]
    return ["null" if kind is type(None) else _TYPES.get(kind, str(kind))]
