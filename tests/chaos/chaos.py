"""Training under random faults until so many kills are done: `make chaos`, or --help.

A run is killed at random moments, its files are damaged, its disk is full; it is started again each
time, to its end. Then every sample was seen exactly once an epoch, no checkpoint was lost, and the
weights are those of a run that nobody disturbed. It goes on where it stopped. Exit code 0: all of
that held; 1: something did not, see the folder.
"""

import argparse
import collections
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
sys.path[:0] = [str(path) for path in (HERE, HERE.parent, HERE.parents[1])]

from chaos_disk import Disk  # noqa: E402
from chaos_faults import KINDS  # noqa: E402
from chaos_life import ROOT  # noqa: E402
from chaos_round import Round  # noqa: E402


class Progress:
    """What was done so far; a file keeps it.

    Args:
        folder: where it is kept; what it holds is gone on with.
    """

    def __init__(self, folder):
        self.path = folder / "progress.json"
        self.rounds, self.seconds = [], 0.0
        if self.path.exists():
            state = json.loads(self.path.read_text())
            self.rounds, self.seconds = state["rounds"], state["seconds"]

    def add(self, result, seconds):
        """Keep one more round, whole or not at all."""
        self.rounds.append(result)
        self.seconds += seconds
        beside = self.path.with_suffix(".part")
        beside.write_text(json.dumps({"rounds": self.rounds, "seconds": self.seconds}, indent=1))
        os.replace(beside, self.path)

    def sums(self, key):
        """Sums over all rounds of what one key counts."""
        total = collections.Counter()
        for result in self.rounds:
            total.update(result[key])
        return total

    @property
    def kills(self):
        """How many kills."""
        return sum(self.sums("kills").values())

    @property
    def problems(self):
        """What did not hold, with its round."""
        return [(r["round"], problem) for r in self.rounds for problem in r["problems"]]


def main():
    options = _options()
    folder = Path(options.folder or ROOT / f"build/chaos/{options.seed}").resolve()
    if options.anew:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    signal.signal(signal.SIGTERM, _interrupt)
    progress = Progress(folder)
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    try:
        with Disk(folder / "disk") as disk:
            if not disk.small:
                print("SKIPPED: no full disk, since one may not mount a tmpfs here (root may)")
            while progress.kills < options.kills and time.monotonic() < end:
                begin, number = time.monotonic(), len(progress.rounds)
                most = options.kills - progress.kills
                result = Round(folder, number, options.seed, most, disk).go()
                progress.add(result, time.monotonic() - begin)
                _tell(result, progress, options.kills, time.monotonic() - begin)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here")
    _summary(progress, folder)
    return 1 if progress.problems else 0


def _options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="in all")
    parser.add_argument("--seed", type=int, default=1, help="decides the faults and their moments")
    parser.add_argument("--folder", default="", help="default: build/chaos/SEED")
    parser.add_argument("--minutes", type=float, default=0, help="stop then; 0: when all is done")
    parser.add_argument("--anew", action="store_true", help="forget what was done before")
    return parser.parse_args()


def _tell(result, progress, wanted, seconds):
    kinds = ", ".join(f"{name} {count}" for name, count in result["kills"].items())
    print(
        f"{progress.kills} of {wanted} kills  round {result['round']} ({result['way']}): {kinds}; "
        f"{seconds:.0f} s",
        flush=True,
    )
    for problem in result["problems"]:
        print(f"FOUND  {problem}", flush=True)


def _summary(progress, folder):
    kills, counts, rounds = progress.sums("kills"), progress.sums("counts"), progress.rounds
    exact = [result for result in rounds if result["way"] in ("one", "two")]
    print(f"{sum(kills.values())} kills in {len(rounds)} rounds, {progress.seconds / 60:.1f} min")
    print("  kinds    " + ", ".join(f"{name} {kills[name]}" for name in KINDS if kills[name]))
    moments = progress.sums("moments").items()
    print("  moments  " + ", ".join(f"{name} {count}" for name, count in moments))
    print(
        f"  starts   {counts['begun']}, {counts['loaded']} from a checkpoint, "
        f"{counts['fallback']} of them from the one before the last"
    )
    print(
        f"  saves    {counts['saved']}, {counts['unsaved']} refused by a full disk; "
        f"{counts['cut']} kills came while one was written"
    )
    print(f"  steps    {counts['trained']} trained, {counts['kept']} of them count")
    print(
        f"  equal    bit by bit: {sum(r['equal'] for r in exact)} of {len(exact)} runs at one "
        f"world size and thread count, {sum(r['equal'] for r in rounds if r not in exact)} of "
        f"{len(rounds) - len(exact)} others"
    )
    for number, problem in progress.problems:
        print(f"FOUND  round {number}: {problem}")
    if progress.problems:
        print(f"what failed: {folder}")


def _interrupt(signum, frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
