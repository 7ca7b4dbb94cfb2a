"""Races our loader against every other one that installs here.

Each arm runs in a process of its own, peers in throwaway environments
(build/bench-envs/, from the lock files in benchmarks/peers/). Rounds are
interleaved: every arm once, then every arm again. The table goes to the
screen; table, JSON and picture into build/bench/.
"""

import argparse
import json
import os
import signal
import sys
import textwrap
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]

from race import arms as race_arms  # noqa: E402
from race import data as race_data  # noqa: E402
from race import figures, plot, plot_bytes, rounds, table  # noqa: E402
from race.environments import Unavailable  # noqa: E402
from race.prepare import NotPacked, prepare  # noqa: E402

EPILOG = """examples:
  python benchmarks/loaders.py                  about 20 minutes
  python benchmarks/loaders.py --data ~/photos  your own JPEG files
  python benchmarks/loaders.py --only ours,dali these and the machine's limit
  python benchmarks/loaders.py --only short256 --rounds 9
  python benchmarks/loaders.py --quick          one short round, to try it
  python benchmarks/loaders.py --list           arms and groups

exit codes: 0 done (arms that could not run are listed with the reason), 2
nothing could run (the message says why), 130 Ctrl-C (what was measured until
then is written)
"""


def _parse(arguments):
    parser = argparse.ArgumentParser(
        prog="loaders.py",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--data", metavar="DIR", help="folder of JPEG files (default: generated pictures)")
    add("--count", type=int, default=1000, help="files; fewer are repeated (%(default)s)")
    add("--only", metavar="A,B", help="arms or groups, or all; see --list")
    add("--rounds", type=int, default=5, help="how often every arm runs (%(default)s)")
    add("--seconds", type=float, default=1.5, help="measured in a round, at least (%(default)s)")
    add("--workers", type=int, help="processes or threads of each arm (the usable CPUs)")
    add("--quick", action="store_true", help="1 round, 0.5 s, 256 files")
    add("--prepare", action="store_true", help="make environments and packs, and stop")
    add("--fresh", action="store_true", help="pack again what our own arms read")
    add("--out", metavar="DIR", default=str(ROOT / "build" / "bench"), help="for JSON and picture")
    add("--work", metavar="DIR", help="for the pictures and packs (build/bench-data)")
    add("--list", action="store_true", help="name all arms and their groups, and stop")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
        options.count = min(options.count, 256)
    if min(options.rounds, options.count - 63, options.workers or 1) < 1 or options.seconds <= 0:
        parser.error("--rounds, --workers and --seconds must be positive, --count at least 64")
    return options


def _say(text):
    print(text, file=sys.stderr, flush=True)


def _list():
    print("* runs by default\n")
    for arm in race_arms.ARMS:
        print(f"{'*' if arm.by_default else ' '} {arm.name:<28} {arm.title}")
    print("\ngroups, for --only")
    for group in sorted({group for arm in race_arms.ARMS for group in arm.groups}):
        names = ", ".join(arm.name for arm in race_arms.ARMS if group in arm.groups)
        lines = textwrap.wrap(names, 59, break_on_hyphens=False)
        print(f"  {group:<17} " + ("\n" + " " * 20).join(lines))


def _machine():
    from train import machine

    rows = {row.name: str(row.value) for row in machine.describe()}
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {"processor": names[0] if names else "unknown", **rows}


def _prepare(options, chosen):
    """(ready arms, {name: why not}, what the data is)."""
    folder, described = race_data.choose_pictures(options.data, options.count, options.work)
    _say(f"pictures and packs: {folder}")
    if options.fresh:
        for done in (folder / "packed").glob("*-ours-*.done"):
            done.unlink()
    ready, unavailable, broken = [], {}, {}
    for arm in chosen:
        try:
            if arm.environment in broken:
                raise Unavailable(broken[arm.environment])
            ready.append(prepare(arm, folder, described, options.workers, _say))
        except Unavailable as reason:
            unavailable[arm.name] = str(reason)
            if not isinstance(reason, NotPacked):
                broken[arm.environment] = str(reason)  # the same for its other arms
            _say(f"{arm.name}: not run: {reason}")
    return ready, unavailable, described


def _write(out, rows, described, options, results):
    """The JSON, the table and the picture; gives their common path without ending."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    machine = _machine()
    path = out / time.strftime("loaders-%Y%m%d-%H%M%S")
    text = table.tables(rows, described)
    settings = {name: value for name, value in vars(options).items() if name != "list"}
    document = {
        "time": time.time(),
        "machine": machine,
        "settings": settings,
        "data": described,
        "rows": [{**row._asdict(), "arm": row.arm._asdict()} for row in rows],
        "results": [
            {"arm": name, "round": number, "result": result, "failed": why}
            for (name, number), (result, why) in results.items()
        ],
    }
    path.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    path.with_suffix(".md").write_text(f"{text}\n\n{table.versions(rows)}\n")
    if any(row.images_per_s for row in rows):
        subtitle = (
            f"{machine['processor']}, {options.workers} workers, batches of 64, 224 x 224; "
            f"median of {options.rounds} rounds; {time.strftime('%d %B %Y')}"
        )
        plot.draw(rows, path.with_suffix(".png"), subtitle)
        plot_bytes.draw(rows, path.with_name(f"{path.name}-bytes.png"), subtitle)
    return path, text


def _stop(number, frame):
    raise KeyboardInterrupt  # so that SIGTERM, too, ends the arm that is running


def main(arguments=None):
    """Run the command line; return the exit code."""
    options = _parse(arguments)
    if options.list:
        _list()
        return 0
    options.workers = options.workers or len(os.sched_getaffinity(0))
    try:
        chosen = race_arms.choose(options.only and options.only.split(","))
        ready, unavailable, described = _prepare(options, chosen)
    except KeyboardInterrupt:
        print("stopped before the first round", file=sys.stderr)
        return 130
    except (race_arms.UnknownArm, race_data.NoPictures) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.prepare:
        print(f"{len(ready)} arms are ready, {len(unavailable)} can't run here; the reasons: above")
        return 0 if ready else 2
    results, code, begin = {}, 0, time.monotonic()
    try:
        for arm, number, result, why in rounds.race(ready, options.rounds, options.seconds, _say):
            results[arm.name, number] = result, why
    except KeyboardInterrupt:
        code = 130
    sizes = {one.arm.name: one.bytes_an_image / 1000 for one in ready}
    rows = figures.summarise(chosen, results, sizes, unavailable)
    path, text = _write(options.out, rows, described, options, results)
    print(text)
    print(f"\n{table.versions(rows)}\n")
    minutes = (time.monotonic() - begin) / 60
    print(f"{options.rounds} round(s) in {minutes:.1f} minutes; {path}.json, .md, .png, -bytes.png")
    if not any(row.images_per_s for row in rows):
        print("error: no arm could run; the reasons stand above", file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # loaders.py --list | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    sys.exit(code)
