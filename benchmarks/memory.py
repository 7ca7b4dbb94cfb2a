"""Whether memory stays flat, and how soon a large index gives its first batch.

python benchmarks/memory.py [--data DIR] [--epochs 20] [--entries 1300000]
    [--only windows]

- memory: PSS of the process tree after each epoch, for worker processes and
  threads, on original files and on windows. The first epoch warms up; the rest
  are held against the second.
- start: a TFRecord file whose index names its few records over and over,
  `--entries` times; from `build_loader` to the first batch. The index is
  written before, imports and compiled kernels are warm, as they are from the
  second epoch's start on any machine.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from race import data as race_data  # noqa: E402
from race import measure, ours, rounds, table  # noqa: E402
from race.data import choose_pictures  # noqa: E402
from race.environments import Unavailable  # noqa: E402
from race.prepare import ensure_packed, pack_command  # noqa: E402

LIMIT_S = 900
CLASSES = 1000


def epochs_child(options):
    """PSS after each epoch of one loader; prints one line of JSON."""
    loader = ours.open_loader(options.pack, options.workers, options.kind)
    shm, series = measure.shm_used_mb(), []
    for _ in range(options.epochs):
        for _ in loader:
            pass
        series.append(round(sum(measure.memory_mb(shm).values()), 1))
    print(json.dumps({"mb": series}), flush=True)
    loader.close()


def start_child(options):
    """Seconds from opening the data to the first batch, the second time; prints JSON."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        loader = ours.open_loader(options.pack, options.workers, options.kind)
        opened = time.perf_counter() - begin
        batch = next(iter(loader))
        times.append({"open_s": opened, "first_batch_s": time.perf_counter() - begin})
        assert len(batch.images) == measure.BATCH_SIZE
        loader.close()
    print(json.dumps({"times": times, "entries": len(loader.dataset.source)}), flush=True)


def tile_index(path, entries):
    """Write the index of a TFRecord file anew: its rows over and over, under new keys.

    Args:
        path: of the file.
        entries: rows of the new index.
    """
    import numpy as np

    from train.data.sources import tfrecord
    from train.data.sources.index import open_index
    from train.data.sources.names import Names

    def no_index(_):
        raise SystemExit(f"error: {path} has no index of the kind that this script knows")

    rows = len(tfrecord.open_tfrecord([str(path)]).source)  # writes the index
    options = {"features": list(tfrecord.USUAL), "first_label": 0}
    index = open_index(str(path), "tfrecord", no_index, options=options)
    keys = Names.of([f"{number:08d}.jpg" for number in range(entries)]).arrays("keys")
    arrays = {
        name: np.resize(array, entries) if len(array) == rows else array
        for name, array in index.arrays.items()
    }
    meta = dict(index.meta)
    os.unlink(index.path)
    open_index(str(path), "tfrecord", lambda _: ({**arrays, **keys}, meta), options=options)


def _say(text):
    print(text, file=sys.stderr, flush=True)


def _pack(folder, container, content, name=None):
    target = folder / "packed" / (name or f"full-ours-{container}-{content}")
    ensure_packed(target, pack_command(folder / "full", target, container, content), _say)
    return target


def _command(options, what, kind, pack):
    command = [sys.executable, str(HERE / "memory.py"), "--child", what, "--kind", kind]
    command += ["--pack", str(pack), "--workers", str(options.workers)]
    return [*command, "--epochs", str(options.epochs)]


def _memory(options, folder):
    """Rows: PSS after some epochs and the largest change."""
    for content, pack in (("original", folder / "full"), ("windows", None)):
        if options.only not in (None, content):
            continue
        pack = pack or _pack(folder, "folder", content)
        for kind in ("process", "thread"):
            result, why = rounds.run(_command(options, "epochs", kind, pack), LIMIT_S)
            if not result:
                yield [f"{content}, {kind}", "", "", "", why]
                continue
            series = result["mb"]
            later = series[1:] or series
            change = max(abs(value / later[0] - 1) for value in later)
            cells = [f"{value:,.0f}" for value in (series[0], later[0], series[-1])]
            yield [f"{content}, {kind}", *cells, f"{change:.1%}"]


def _start(options, folder):
    """Rows: seconds to the first batch."""
    pack = _pack(folder, "tfrecord", "original", "start-tfrecord")
    marker = pack.with_name("start.entries")
    if not marker.exists() or marker.read_text() != str(options.entries):
        _say(f"writing an index of {options.entries:,} entries ...")
        for path in sorted(pack.glob("train-*.tfrecord")):
            tile_index(path, options.entries)
        marker.write_text(str(options.entries))
    for kind in ("process", "thread"):
        result, why = rounds.run(_command(options, "start", kind, pack), LIMIT_S)
        if not result:
            yield [f"{options.entries:,} entries, {kind}", "", why]
            continue
        opened, first = (
            min(found[name] for found in result["times"]) for name in ("open_s", "first_batch_s")
        )
        yield [f"{result['entries']:,} entries, {kind}", f"{opened:.2f}", f"{first:.2f}"]


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", metavar="DIR", help="folder of JPEG files (default: generated pictures)")
    add("--count", type=int, default=1000, help="files (%(default)s)")
    add("--epochs", type=int, default=20, help="(%(default)s)")
    add("--entries", type=int, default=1_300_000, help="of the large index (%(default)s)")
    add("--only", choices=("original", "windows", "start"))
    add("--workers", type=int, default=len(os.sched_getaffinity(0)))
    add("--kind", choices=("process", "thread"), default="process", help=argparse.SUPPRESS)
    add("--child", choices=("epochs", "start"), help=argparse.SUPPRESS)
    add("--pack", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        {"epochs": epochs_child, "start": start_child}[options.child](options)
        return 0
    try:
        folder, _ = choose_pictures(options.data, options.count)
        if options.only != "start":
            head = ["PSS MB after epoch", "1", "2", str(options.epochs), "largest change from 2 on"]
            print(table.markdown(head, list(_memory(options, folder))))
        if options.only in (None, "start"):
            head = ["from build_loader, s", "opened", "first batch"]
            print("\n" + table.markdown(head, list(_start(options, folder))))
    except (race_data.NoPictures, Unavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
