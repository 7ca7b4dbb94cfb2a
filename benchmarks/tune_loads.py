"""Does `train tune` find what a sweep finds? Five loads, a simulated device.

python benchmarks/tune_loads.py [--only LOAD] [--runs 7]

For each load: a sweep of workers 0, 1, 2, 3, 4, 6 x prefetch 1, 2, 4 x kind
of worker, once each; then train tune, from nothing, timed; then its choice and
the sweep's three best again, interleaved, and the best one twice to see how
much the same setting differs from itself. Loads:

  decode   large JPEG files         raw    pixels, one core is enough
  disk     12 ms a read             fast   small images, a very fast device
  python   a data set in Python

Right: within 5 % of the best, or within the difference of one setting from
itself; where a setting keeps the accelerator waiting under 1 %: so does the
choice, and none does it with fewer cores. tune itself: under 60 s.

About 4 minutes a load; build/bench-data/tune holds the pictures.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from tuning import verdict  # noqa: E402

LOADS = ("decode", "raw", "disk", "python", "fast")

WORKERS, DEPTHS, KINDS = (0, 1, 2, 3, 4, 6), (1, 2, 4), ("process", "thread")
LIMIT_S = 60


def _parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", choices=sorted(LOADS), help="one load")
    add("--runs", type=int, default=7, help="of each setting at the end (%(default)s)")
    add("--seconds", type=float, default=1.2, help="of one measurement (%(default)s)")
    add("--photos", metavar="DIR", help="of the decode load (default: generated)")
    add("--work", metavar="DIR", default=str(HERE.parent / "build" / "bench-data" / "tune"))
    add("--out", metavar="FILE", help="write all figures there, as JSON")
    add("--quick", action="store_true", help="a small sweep, 2 runs: to try it")
    options = parser.parse_args(arguments)
    if options.quick:
        options.runs, options.seconds = 2, min(options.seconds, 0.3)
    return options


def candidates(quick=False):
    """The sweep's settings."""
    from train.tune.predict import Candidate

    workers, depths = ((0, 1, 2), (2,)) if quick else (WORKERS, DEPTHS)
    found = [Candidate(0)] if 0 in workers else []
    return found + [
        Candidate(count, kind, depth)
        for kind in KINDS
        for count in workers
        if count
        for depth in depths
    ]


class Runner:
    """Measures settings of one load; each run reads an order of its own."""

    def __init__(self, load, seconds):
        from train.accelerator import SimulatedAccelerator

        self.load, self.seconds, self.count = load, seconds, 0
        self.accelerator = SimulatedAccelerator(load.images_per_s)

    def run(self, one):
        """One trial of a candidate."""
        from train.data import build_loader
        from train.data.settings import LoaderSettings
        from train.trial import run_trial

        depth = one.prefetch if one.workers else None
        settings = LoaderSettings(
            one.workers, depth, 0, None, False, "fork", [], [], workers_kind=one.kind
        )
        data, self.count = self.load.config.data, self.count + 1
        loader = build_loader(self.load.source, data, settings, train=True, seed=42)
        loader.load_state_dict(loader.sampler.state(self.count, 0))
        try:
            return run_trial(loader, self.accelerator, self.seconds)
        finally:
            loader.close()


def examine(name, options, cpus):
    """One load: sweep, tune, the race at the end; prints, and returns all figures."""
    from tuning import loads

    from train.tune.choose import tuned_settings
    from train.tune.predict import Candidate

    load = loads.LOADS[name](Path(options.work), options.photos)
    print(f"\n== {name}: {load.title}; accelerator {load.images_per_s:,.0f} images/s", flush=True)
    runner = Runner(load, options.seconds)
    runner.run(Candidate(0))  # left out: compilation, files
    sweep, names = [], {}
    for one in candidates(options.quick):
        found = verdict.figures(one.words(), [runner.run(one)])
        sweep.append(found)
        names[found.name] = one
        _print(found)
    begin = time.perf_counter()
    tuned = tuned_settings(load.config, load.source, runner.accelerator, cpus, LIMIT_S)
    took = time.perf_counter() - begin
    choice = Candidate(tuned.workers, tuned.workers_kind, tuned.prefetch or 1)
    print(f"tune: {choice.words()} in {took:.1f} s")
    for reason in tuned.reasons:
        print(f"      {reason}")
    best = verdict.three_best(sweep)
    entries = [("tune", choice)] + [(one.name, names[one.name]) for one in best]
    entries.append((f"{best[0].name} again", names[best[0].name]))
    runs = {title: [] for title, _ in entries}
    for turn in range(options.runs):
        for title, one in entries if turn % 2 == 0 else entries[::-1]:
            runs[title].append(runner.run(one))
    final = [verdict.figures(title, runs[title]) for title, _ in entries]
    print(f"medians of {options.runs} interleaved runs:")
    for found in final:
        _print(found)
    right, why = verdict.judge(final[0], final[1:-1], [final[1], final[-1]])
    right = right and took < LIMIT_S
    print(f"{'right' if right else 'WRONG'}: {why}; tune took {took:.1f} s", flush=True)
    return {
        "load": name,
        "right": right,
        "why": why,
        "tune_s": took,
        "tuned": tuned.to_json(),
        "sweep": [one._asdict() for one in sweep],
        "final": [one._asdict() for one in final],
    }


def _print(found):
    spread = f"{found.low:,.0f} to {found.high:,.0f}" if found.runs > 1 else ""
    print(
        f"  {found.name:<28}{found.images_per_s:>9,.0f} images/s  waiting {found.wait_share:>6.1%}"
        f"  {found.cores:.2f} cores  {spread}".rstrip(),
        flush=True,
    )


def main(arguments=None):
    options = _parse(arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch, as the program has it
    from train import machine

    cpus = machine.usable_cpus()
    names = [options.only] if options.only else list(LOADS)
    found = [examine(name, options, cpus) for name in names]
    print(f"\n{sum(one['right'] for one in found)} of {len(found)} right")
    if options.out:
        rows = [[row.name, row.value, row.source] for row in machine.describe()]
        Path(options.out).write_text(json.dumps({"machine": rows, "loads": found}, indent=1))
    return 0 if all(one["right"] for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
