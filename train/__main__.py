"""The command line: `python -m train fit`, `pack`, `info` (or `train ...`).

Exit codes: 0 done; 2 something that you can mend, in one message; 130 Ctrl-C and 143 SIGTERM, after
saving.
"""

import argparse
import difflib
import json
import os
import re
import signal
import sys
from typing import List, Optional, Sequence

try:
    import jsonargparse
    import yaml
except ModuleNotFoundError as missing:
    print(
        f"error: this Python ({sys.executable}) has no {missing.name}: it is not the project's "
        "environment; activate it (source .venv/bin/activate), or use make train",
        file=sys.stderr,
    )
    sys.exit(2)

from train import __version__, machine
from train.config import Config, flatten
from train.errors import ConfigError, Interrupted, TrainError
from train.pack import options as packing

DESCRIPTION = """Train an image classifier whose accelerator does not wait for data, and say so
with numbers.

  train fit --config configs/sample.yaml     a recipe; its header says more
  train fit --data.path DIR                  your own images, in any container
  train fit --data.path DIR --print_config   all settings, for a recipe of yours
  train fit --run.resume runs/NAME           go on from the very next sample
  train pack DIR OUT                         pack once, read faster ever after
  train info                                 what this machine offers
"""


class _AsWritten(jsonargparse.DefaultHelpFormatter):
    """Keeps the lines of the description: its examples are one to a line."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "".join(f"{indent}{line}\n" for line in text.splitlines())


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command; returns the exit code."""
    asked = list(sys.argv[1:] if arguments is None else arguments)
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # started with its output closed
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115  stays open to the end
    try:
        return _run(asked)
    except TrainError as error:
        return _end(f"error: {error}", 2)
    except Interrupted as stop:
        return _end(f"{stop.signal_name}: {stop}", stop.exit_code)
    except KeyboardInterrupt:
        return _end("interrupted before anything began; nothing to save", 128 + signal.SIGINT)
    except BrokenPipeError:  # `train info | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except RecursionError:
        return _end("error: the settings are nested too deeply", 2)


def build_parser() -> jsonargparse.ArgumentParser:
    """The parser; its help is made from the docstrings of `train.config`."""
    jsonargparse.set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = jsonargparse.ArgumentParser(
        formatter_class=_AsWritten,
        prog="train",
        exit_on_error=False,
        allow_abbrev=False,
        description=DESCRIPTION,
        version=__version__,
    )
    commands = parser.add_subcommands()
    fit = jsonargparse.ArgumentParser(
        exit_on_error=False,
        allow_abbrev=False,
        formatter_class=_AsWritten,
        description="Train: from images to a checkpoint and a report.\n\n"
        "Exit codes: 0 done; 2 something to mend; 130 (Ctrl-C), 143 (SIGTERM),\n"
        "129 (closed terminal): saved and stopped.",
    )
    fit.add_argument(
        "--config", action="config", help="YAML file with settings; flags on top of it win."
    )
    fit.add_class_arguments(Config, None)
    commands.add_subcommand("fit", fit, help="train a model")
    pack = packing.build_parser(_AsWritten)
    commands.add_subcommand("pack", pack, help="pack a data set, to read it faster")
    info = jsonargparse.ArgumentParser(
        description="Show what this machine and this environment offer."
    )
    info.add_argument("--json", type=bool, default=False, help="Print JSON.", nargs="?", const=True)
    commands.add_subcommand("info", info, help="show the machine and the environment")
    return parser


def _run(asked: List[str]) -> int:
    # Before torch is imported: an OpenMP runtime may change the affinity that this reads.
    cpus = machine.usable_cpus()
    # Also before torch: its OpenMP threads spin while they wait for each other. Beside any other
    # busy process (our workers, to begin with) that costs most of the speed (docs/log.md).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    parser = build_parser()
    if not asked:
        parser.print_help()
        return 2
    arguments = _with_saved_config(asked)
    _check_recipes(arguments)
    try:
        options = parser.parse_args(arguments)
    except argparse.ArgumentError as error:
        raise ConfigError(_in_plain_words(str(error), arguments[0])) from None
    if options.subcommand == "info":
        return _info(options.info.json)
    if options.subcommand == "pack":
        from train.pack.run import pack

        pack(packing.from_namespace(options.pack), cpus)
        return 0
    # It imports torch: late, so that --help and errors in settings come at once.
    from train.fit import fit

    fit(read_config(parser, options), cpus)
    return 0


def read_config(parser: jsonargparse.ArgumentParser, options: jsonargparse.Namespace) -> Config:
    """The dataclasses of `train fit` from what was parsed.

    Raises:
        ConfigError: a value out of its range.
    """
    # Renamed in jsonargparse 4.49, where the old name warns.
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes
    chosen = instantiate(options).fit
    return Config(data=chosen.data, model=chosen.model, optim=chosen.optim, run=chosen.run)


def _with_saved_config(asked: List[str]) -> List[str]:
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
    return ["fit", "--config", saved] + asked[1:]


def _check_recipes(arguments: List[str]) -> None:
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
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(f"--config: {path!r} is no YAML: {error}") from None
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


def _in_plain_words(message: str, command: str) -> str:
    """The parser's message without Python's type syntax, and the key that was probably meant."""
    message = re.sub(r"<class '([\w.]+)'>", r"\1", message).replace("typing.", "")
    message = re.sub(r"Expected an? (\w+\.)", r"expected \1", message)
    keys = list(flatten(Config()))
    for word in re.findall(r"(?:--|')(\w+\.\w+)", message):
        near = [] if word in keys else difflib.get_close_matches(word, keys, n=1)
        message += "".join(f"\ndid you mean --{key}?" for key in near)
    command = command if command in ("pack", "info") else "fit"
    return f"{message}\nsee: python -m train {command} --help"


def _info(as_json: bool) -> int:
    rows = machine.describe()
    if as_json:
        print(
            json.dumps(
                [{"name": r.name, "value": r.value, "source": r.source} for r in rows], indent=1
            )
        )
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("what", "value", "from"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(row.name, row.value, row.source)
    Console(highlight=False).print(table)
    return 0


def _end(message: str, code: int) -> int:
    try:
        encoding = sys.stderr.encoding or "ascii"
        text = message.encode(encoding, "backslashreplace").decode(encoding)
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody can hear it; the exit code still tells
    return code


if __name__ == "__main__":
    sys.exit(main())
