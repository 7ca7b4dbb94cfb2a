"""How fast every container and content is from an empty page cache.

python benchmarks/cold.py [--data DIR] [--count 1000] [--set short256]
    [--only tar,lmdb-raw]

For each container and content: the page cache is emptied, one pass over the
pictures is timed from `build_loader` to the last batch, then a second pass
over what now is cached. Imports and compiled kernels are warm before either.
The cache is emptied through /proc/sys/vm/drop_caches by root, else the pack's
own files are dropped with posix_fadvise; the table says which. A virtual
disk's host may still hold the files in its memory, so a cold figure there is
an upper bound.
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
from race import figures, ours, rounds, table  # noqa: E402
from race.arms import CONTAINERS  # noqa: E402
from race.data import choose_pictures  # noqa: E402
from race.environments import Unavailable  # noqa: E402
from race.prepare import ensure_packed, pack_command  # noqa: E402

CONTENTS = dict.fromkeys(("full", "short256"), ("original", "windows", "coefficients", "raw"))
LIMIT_S = 300


def drop_caches(path):
    """Forget what the page cache holds of these files; gives the way it was done."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("1\n")
        return "drop_caches"
    except OSError:
        pass
    for entry in Path(path).rglob("*"):
        if entry.is_file():
            descriptor = os.open(entry, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
    return "posix_fadvise"


def _disk_read_bytes():
    """What all block devices have read so far, bytes; each disk once, without its partitions."""
    total = 0
    for entry in Path("/sys/block").iterdir():
        try:
            total += int((entry / "stat").read_text().split()[2]) * 512
        except (OSError, IndexError, ValueError):
            continue
    return total


def one_pass(path, workers, kind):
    """Images and seconds of one pass, from `build_loader` to the last batch."""
    begin = time.perf_counter()
    loader = ours.open_loader(path, workers, kind, epochs=1)
    images = sum(len(batch.images) for batch in loader)
    seconds = time.perf_counter() - begin
    loader.close()
    return images, seconds


def child(options):
    """Measure one pack, in a process of its own; prints one line of JSON."""
    one_pass(options.pack, options.workers, options.kind)  # imports, kernels, the index
    way = drop_caches(options.pack)
    read = _disk_read_bytes()
    images, cold_s = one_pass(options.pack, options.workers, options.kind)
    read = _disk_read_bytes() - read
    images, warm_s = one_pass(options.pack, options.workers, options.kind)
    result = {"cold": images / cold_s, "warm": images / warm_s, "read_mb": read / 1e6, "way": way}
    print(json.dumps(result))


def _chosen(options):
    for container in CONTAINERS:
        for content in CONTENTS[options.set]:
            name = f"{container}-{content}"
            if not options.only or {container, content, name} & set(options.only.split(",")):
                yield container, content, name


def _say(text):
    print(text, file=sys.stderr, flush=True)


def _race(options, packs, described):
    """Rows of the table: every pack once a round."""
    command = [sys.executable, str(HERE / "cold.py"), "--child", "--kind", options.kind]
    command += ["--workers", str(options.workers), "--pack"]
    found = {name: [] for name in packs}
    for number in range(options.rounds):
        for name, path in packs.items():
            result, why = rounds.run([*command, str(path)], LIMIT_S)
            if result:
                found[name].append(result)
            _say(f"[{number + 1}/{options.rounds}] {name}: {why or round(result['cold'])}")
    for name, results in found.items():
        if not results:
            continue
        middle, least, most = figures.spread([result["cold"] for result in results])
        warm, _, _ = figures.spread([result["warm"] for result in results])
        read, _, _ = figures.spread([result["read_mb"] for result in results])
        size = race_data.bytes_of(packs[name]) / described["files"] / 1000
        yield [
            name,
            f"{middle:,.0f}",
            f"{least:,.0f} - {most:,.0f}",
            f"{warm:,.0f}",
            f"{size:.1f}",
            f"{read:,.0f}",
            results[0]["way"],
        ]


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", metavar="DIR", help="folder of JPEG files (default: generated pictures)")
    add("--count", type=int, default=1000, help="files (%(default)s)")
    add("--set", choices=tuple(CONTENTS), default="full")
    add("--only", metavar="A,B", help="containers, contents, or both as tar-windows")
    add("--rounds", type=int, default=3)
    add("--workers", type=int, default=len(os.sched_getaffinity(0)))
    add("--kind", choices=("process", "thread"), default="process", help="of the workers")
    add("--child", action="store_true", help=argparse.SUPPRESS)
    add("--pack", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        child(options)
        return 0
    try:
        folder, described = choose_pictures(options.data, options.count)
    except race_data.NoPictures as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    packs = {}
    for container, content, name in _chosen(options):
        target = folder / "packed" / f"{options.set}-ours-{name}"
        try:
            command = pack_command(folder / options.set, target, container, content)
            ensure_packed(target, command, _say)
            packs[name] = target
        except Unavailable as reason:
            _say(f"{name}: not run: {reason}")
    lines = list(_race(options, packs, described[options.set]))
    if not lines:
        print("error: nothing could be measured; the reasons stand above", file=sys.stderr)
        return 2
    head = ["container-content", "cold images/s", "least - most", "warm", "kB/image", "MB read"]
    print(table.markdown([*head, "cache emptied by"], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
