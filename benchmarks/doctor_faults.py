"""Does `train doctor` find the fault? Pipelines that have one, and its verdict.

python benchmarks/doctor_faults.py [--only lock,disk] [--json OUT]

Eight kinds of trouble, twenty pipelines: each is at least five times as dear
as the next stage of its pipeline. Waiting is made by sleeping, work by real
work of the CPU, so that the faults stay what they are on a busy machine. The
accelerator is simulated. Prints what was found and a table of fault against
verdict; exit code 1 when one is wrong.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path[:0] = [str(HERE), str(HERE.parent)]

from train import machine  # noqa: E402

CPUS = machine.usable_cpus()  # before torch

from faults.cases import CASES  # noqa: E402
from faults.data_sets import SIDE  # noqa: E402

from train.accelerator import SimulatedAccelerator  # noqa: E402
from train.config import Config, DataConfig  # noqa: E402
from train.doctor.examine import examine  # noqa: E402
from train.doctor.subject import Subject, settings_for  # noqa: E402
from train.doctor.verdict import judge  # noqa: E402

RUN_S = 0.6
"""Seconds of each run of an examination."""


def subject_of(chosen):
    data = DataConfig(
        workers=chosen["workers"],
        batch_size=chosen["batch"],
        workers_kind=chosen["kind"],
        image_size=SIDE,
    )
    config = Config(data=data)
    own = chosen["own"]
    settings = settings_for(config, True, False, CPUS, chosen["batch"] * SIDE * SIDE * 3, own)
    return Subject(chosen["make"](), own, config, settings)


def run(chosen):
    """The verdict about one pipeline, and how long it took."""
    begin = time.perf_counter()
    accelerator = SimulatedAccelerator(chosen["speed"])
    examined = examine(subject_of(chosen), lambda batches: accelerator, CPUS.value, run_s=RUN_S)
    return judge(examined.found), examined.found, time.perf_counter() - begin


def table(rows):
    """Fault against verdict."""
    kinds = list(dict.fromkeys(chosen["fault"] for chosen in CASES))
    found = Counter((row["fault"], row["verdict"]) for row in rows)
    verdicts = [*kinds, *sorted({row["verdict"] for row in rows} - set(kinds))]
    print(f"\n{'fault, then verdict':<20}" + "".join(f"{kind:>8}" for kind in verdicts))
    for kind in kinds:
        cells = [found[kind, verdict] or "." for verdict in verdicts]
        print(f"{kind:<20}" + "".join(f"{cell:>8}" for cell in cells))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="faults, by comma")
    parser.add_argument("--json", default="", help="file for the measurements")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    rows = []
    for chosen in CASES:
        if only and chosen["fault"] not in only:
            continue
        verdict, found, seconds = run(chosen)
        right = verdict.cause == chosen["fault"]
        ratio = "" if verdict.ratio == float("inf") else f"{verdict.ratio:.1f} x the next"
        print(
            f"{'ok   ' if right else 'WRONG'} {chosen['fault']:<8} {chosen['name']:<30}"
            f"-> {verdict.cause:<9} {ratio:<18} {seconds:5.1f} s",
            flush=True,
        )
        rows.append(
            {
                "fault": chosen["fault"],
                "name": chosen["name"],
                "verdict": verdict.cause,
                "right": right,
                "measurements": found.as_dict(),
            }
        )
    table(rows)
    right = sum(row["right"] for row in rows)
    print(f"\n{right} of {len(rows)} right")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if right == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
