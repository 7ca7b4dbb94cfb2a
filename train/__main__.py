"""The program: `python -m train fit`, `pack`, `doctor`, `tune`, `bench`, `info` (or `train ...`).

Exit codes: 0 done; 2 something that you can mend, in one message; 130 Ctrl-C, 138 SIGUSR1 and 143
SIGTERM, after saving.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from typing import Any, List, NoReturn, Optional, Sequence

try:
    import jsonargparse  # noqa: F401
    import yaml  # noqa: F401
except ModuleNotFoundError as missing:
    print(
        f"error: this Python ({sys.executable}) has no {missing.name}: it is not the project's "
        "environment; activate it (source .venv/bin/activate), or use make train",
        file=sys.stderr,
    )
    sys.exit(2)

from train import machine
from train.command_line import (
    RECIPES,
    build_parser,
    check_recipes,
    in_plain_words,
    read_config,
    with_saved_config,
)
from train.config import Config
from train.errors import ConfigError, Interrupted, TrainError
from train.pack import options as packing

JOIN_S = 5.0
"""How long the end waits for threads that a user's data set has started."""


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


def command() -> NoReturn:
    """`train` as a program: it ends even where threads of a user's data set do not."""
    code = main()
    if sys.argv[1:2] == ["doctor"]:
        threading.Thread(target=_end_at_last, args=(code,), daemon=True).start()
    sys.exit(code)  # joins all threads that are no daemons


def _end_at_last(code: int) -> None:
    """What a thread does while the program waits for the others."""
    time.sleep(JOIN_S)
    left = [t.name for t in threading.enumerate() if not t.daemon and t.is_alive()]
    _end(
        f"the data set has left threads that go on ({', '.join(left[:3])}), which every program "
        "waits for at its end: training would not end; start them with daemon=True",
        code,
    )
    sys.stdout.flush()
    os._exit(code)


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
    arguments = with_saved_config(asked)
    check_recipes(arguments)
    try:
        options = parser.parse_args(arguments)
    except argparse.ArgumentError as error:
        raise ConfigError(in_plain_words(str(error), arguments[0])) from None
    if options.subcommand == "info":
        return _info(options.info.data, options.info.json)
    if options.subcommand == "pack":
        from train.pack.run import pack

        pack(packing.from_namespace(options.pack), cpus)
        return 0
    return _run_recipe(options, read_config(parser, options), cpus)


def _run_recipe(options: Any, config: Config, cpus: machine.Measure[int]) -> int:
    """Run a command that takes the settings of a run."""
    # They import torch: late, so that --help and errors in settings come at once.
    name = options.subcommand
    if name == "fit":
        from train.fit import fit

        fit(config, cpus)
        return 0
    chosen = RECIPES[name].from_namespace(options[name])
    if name == "tune":
        from train.tune.run import tune

        return tune(config, chosen, cpus)
    if name == "bench":
        from train.bench.run import bench

        return bench(config, chosen, cpus)
    from train.doctor.run import doctor

    return doctor(config, chosen, cpus)


def _info(data: str, as_json: bool) -> int:
    rows = machine.describe(data)
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
    if os.environ.get("LOCAL_RANK", "0") != "0":
        return code  # all ranks of a machine were given the same arguments: one tells
    from train.console import complain  # late: rich is slow to import

    complain(message)
    return code


if __name__ == "__main__":
    command()
