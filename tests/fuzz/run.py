"""Mutated inputs over our own readers: `make fuzz`, or `python tests/fuzz/run.py --help`.

It goes on where it stopped. Exit code 0: nothing found; 1: something, see the folder.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# One thread a library: children are forked, and threads do not survive that.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
FOLDERS = (HERE, HERE.parent, HERE.parent / "data/jpeg", HERE.parents[1])
sys.path[:0] = [str(path) for path in FOLDERS]

import fuzz_bounds  # noqa: E402
import fuzz_campaign  # noqa: E402
import fuzz_targets  # noqa: E402
from fuzz_progress import Progress  # noqa: E402

SHOW_S = 15.0


def main():
    options = _options()
    with tempfile.TemporaryDirectory(prefix="wellfed-fuzz-", dir=_in_memory()) as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        if options.replay:
            return _replay(options.replay, scratch)
        names = options.only.split(",") if options.only else list(fuzz_targets.TARGETS)
        progress = Progress(options.folder, options.count, names)
        _warm(names, scratch)
        signal.signal(signal.SIGTERM, _interrupt)
        return _run(progress, scratch, options)


def _options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs in all")
    parser.add_argument("--folder", default="build/fuzz", help="progress, and inputs that failed")
    parser.add_argument("--only", default="", help="targets, with commas; default: all")
    parser.add_argument("--procs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--minutes", type=float, default=0, help="stop then; 0: at the end")
    parser.add_argument("--replay", default="", metavar="TARGET:NUMBER", help="read one again")
    return parser.parse_args()


def _in_memory():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _warm(names, scratch):
    """Make the seeds and read them: what is compiled or imported is so before the first fork."""
    for name in names:
        for data in fuzz_targets.seeds_of(name):
            with fuzz_bounds.scratch(scratch) as place:
                try:
                    fuzz_targets.TARGETS[name].check(data, place, random.Random(0))
                except (*fuzz_targets.FAMILY, *fuzz_targets.TARGETS[name].refusals):
                    pass


def _run(progress, scratch, options):
    begin, before = time.monotonic(), progress.done()[0]
    shown = [begin]

    def finished(block, counts, found):
        progress.finished(block, counts, found)
        for finding in found:
            print(f"FOUND  {finding.target}:{finding.number}  {finding.why.splitlines()[-1][:150]}")
        now = time.monotonic()
        if now - shown[0] > SHOW_S:
            shown[0] = now
            progress.save(now - begin)
            _show(progress, now - begin, before)

    def blocks():
        for block in progress.blocks():
            if options.minutes and time.monotonic() - begin > 60 * options.minutes:
                return
            yield block

    try:
        fuzz_campaign.run(blocks(), scratch, finished, options.procs)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here")
    progress.save(time.monotonic() - begin)
    _show(progress, time.monotonic() - begin, before)
    _table(progress)
    return 1 if progress.findings else 0


def _show(progress, seconds, before):
    done, wanted = progress.done()
    rate = (done - before) / max(seconds, 0.01)
    left = (wanted - done) / max(rate, 0.01)
    print(
        f"{done:,} of {wanted:,} inputs  {rate:,.0f}/s  left {left / 60:.0f} min  "
        f"found {len(progress.findings)}",
        flush=True,
    )


def _table(progress):
    columns = [*fuzz_campaign.OUTCOMES[1:]]
    print(f"{'':12}" + "".join(f"{name:>11}" for name in columns))
    for name, counts in progress.counts.items():
        print(f"{name:12}" + "".join(f"{counts.get(column, 0):>11,}" for column in columns))
    if progress.findings:
        print(f"what failed, and how to read it again: {progress.folder}")


def _replay(text, scratch):
    name, _, number = text.partition(":")
    fuzz_targets.seeds_of(name)
    fuzz_bounds.prepare()
    outcome, why = fuzz_bounds.attempt(name, int(number), scratch)
    print(f"{text}: {outcome}\n{why}")
    return 1 if outcome == fuzz_bounds.FAILED else 0


def _interrupt(signum, frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
