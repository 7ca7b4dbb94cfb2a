"""The command line: `python -m train fit`, `python -m train info` (or `train ...`).

Exit codes: 0 done; 2 something that you can mend, in one message; 130 Ctrl-C and 143 SIGTERM, after
saving.
"""

import json
import os
import signal
import sys
from typing import Any, List, Optional, Sequence

import jsonargparse

from train import __version__, machine
from train.config import Config
from train.errors import Interrupted, TrainError

DESCRIPTION = """Train an image classifier whose accelerator never waits for data, and say so with
numbers.

  train fit --config configs/sample.yaml          a recipe; its header says what to expect
  train fit --data.path DIR                       your own folder of images
  train fit --data.path DIR --print_config        all settings, to save as your own recipe
  train fit --run.resume runs/NAME                go on from the very next sample
  train info                                      what this machine offers
"""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command; returns the exit code."""
    asked = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(asked)
    except TrainError as error:
        return _end(f"error: {error}", 2)
    except Interrupted as stop:
        return _end(f"{stop.signal_name}: {stop}", stop.exit_code)
    except KeyboardInterrupt:
        return _end("interrupted before training began; nothing to save", 128 + signal.SIGINT)
    except BrokenPipeError:  # `train info | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def build_parser() -> jsonargparse.ArgumentParser:
    """The parser; its help is made from the docstrings of `train.config`."""
    jsonargparse.set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = jsonargparse.ArgumentParser(prog="train", description=DESCRIPTION, version=__version__)
    commands = parser.add_subcommands()
    fit = jsonargparse.ArgumentParser(
        description="Train: from a folder of images to a checkpoint and a report. "
        "Exit codes: 0 done; 2 something to mend; "
        "130 (Ctrl-C) and 143 (SIGTERM) saved and stopped."
    )
    fit.add_argument(
        "--config", action="config", help="YAML file with settings; flags on top of it win."
    )
    fit.add_class_arguments(Config, None)
    commands.add_subcommand("fit", fit, help="train a model")
    info = jsonargparse.ArgumentParser(
        description="Show what this machine and this environment offer."
    )
    info.add_argument("--json", type=bool, default=False, help="Print JSON.", nargs="?", const=True)
    commands.add_subcommand("info", info, help="show the machine and the environment")
    return parser


def _run(asked: List[str]) -> int:
    # Before torch is imported: an OpenMP runtime may change the affinity that this reads.
    cpus = machine.usable_cpus()
    parser = build_parser()
    if not asked:
        parser.print_help()
        return 2
    options = parser.parse_args(_with_saved_config(asked))
    if options.subcommand == "info":
        return _info(options.info.json)
    # It imports torch: late, so that --help and errors in settings come at once.
    from train.fit import fit

    fit(_config(parser.instantiate_classes(options).fit), cpus)
    return 0


def _config(options: Any) -> Config:
    return Config(data=options.data, model=options.model, optim=options.optim, run=options.run)


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
    encoding = sys.stderr.encoding or "ascii"
    print(
        message.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True
    )
    return code


if __name__ == "__main__":
    sys.exit(main())
