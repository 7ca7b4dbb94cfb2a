"""Makes the sample data set: generated, photo-like JPEG files in ten classes that can be learnt.

`make train` uses it when no data is named. Nothing is downloaded. Every picture is a function of
(seed, class, index), so the set is the same for any number of processes.
"""

import argparse
import contextlib
import errno
import fcntl
import json
import os
import shutil
import sys
import time
from pathlib import Path

from sample_files import Plan, SampleDataError, write_images
from sample_images import CLASSES, make_image

__all__ = ["CLASSES", "SampleDataError", "make_data_set", "make_image"]

MANIFEST = "generated.json"
README = """The pictures in this folder are generated. They are not photographs.

scripts/sample_data.py made them, to have something to train on: ten classes, 4:2:0 JPEG files of
sizes as a camera's thumbnails have. generated.json says with which arguments; the same arguments
make the same pictures. The folder can be deleted at any time: "make train" makes it again.
"""
BYTES_PER_PIXEL = 0.36  # measured over 2,000 pictures, quality 85 to 90; only for messages


def _read_manifest(folder):
    """What generated.json says, {} where there is none or it is not ours."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    ours = isinstance(found, dict) and found.get("made_by") == Plan().manifest["made_by"]
    return found if ours else {}


def _is_there(out, plan, replace):
    """Whether the whole set stands in `out`; refuse what is not ours, or was made differently."""
    if not os.path.lexists(out) or (out.is_dir() and not any(out.iterdir())):
        return False
    manifest = _read_manifest(out)
    if not manifest:
        raise SampleDataError(
            f"{out} exists and was not made by this script, nothing was touched; "
            "give another folder with --out"
        )
    whole = all((out / path).is_file() for path, *_ in plan.files())
    if manifest == plan.manifest and whole:
        return True
    if replace:
        return False
    what = "lacks pictures" if manifest == plan.manifest else "was made with other arguments"
    raise SampleDataError(
        f"{out} {what} (see {MANIFEST} there); add --replace to make it again, "
        "or give another folder with --out"
    )


@contextlib.contextmanager
def _claim(partial):
    """Own an empty `partial` folder, alone: removed after an error, locked against a second run."""
    partial.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SampleDataError(
                f"another run is making {partial} right now; wait for it and run this again"
            ) from None
        if any(partial.iterdir()) and not _read_manifest(partial):
            raise SampleDataError(
                f"{partial} is in the way and was not made by this script; move it elsewhere"
            )
        try:
            for entry in list(partial.iterdir()):  # what a run that was killed left behind
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            yield
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    finally:
        os.close(descriptor)


def make_data_set(
    out,
    seed=0,
    num_train=1600,
    num_val=400,
    size=400,
    processes=None,
    shuffle_labels=False,
    replace=False,
    on_image=lambda: None,
):
    """Make the set in the folder `out`: train/<class>/*.jpg and val/<class>/*.jpg.

    It is written to `<out>.partial` and renamed at the end: `out` is whole or not there.

    Args:
        out: the folder; missing, empty, or made by this function before.
        seed: of all pictures.
        num_train: pictures to train on, spread evenly over the classes.
        num_val: pictures to validate on; 0 makes no val folder.
        size: the mean of the pictures' long side, pixels.
        processes: how many work; None takes the CPUs that this process may use, at most 8.
        shuffle_labels: put the same pictures under labels drawn by lot: nothing can be learnt.
        replace: delete a set in `out` that was made with other arguments.
        on_image: called after each picture.

    Returns:
        True when the set was made, False when it was there already.

    Raises:
        SampleDataError: an argument is out of range, the folder is another's, or the disk refuses.
    """
    plan = Plan(seed, num_train, num_val, size, shuffle_labels)
    if processes is not None and processes < 1:
        raise SampleDataError(f"--processes must be >= 1, got {processes}")
    num_workers = min(processes or min(len(os.sched_getaffinity(0)), 8), num_train)
    out = Path(os.path.realpath(out))
    partial = Path(f"{out}.partial")
    try:
        if _is_there(out, plan, replace):
            return False
        with _claim(partial):
            (partial / MANIFEST).write_text(json.dumps({**plan.manifest, "state": "building"}))
            for folder in {(partial / path).parent for path, *_ in plan.files()}:
                folder.mkdir(parents=True)
            write_images(partial, plan, num_workers, on_image)
            (partial / "README.txt").write_text(README)
            (partial / MANIFEST).write_text(json.dumps(plan.manifest, indent=1) + "\n")
            if replace and _read_manifest(out):
                shutil.rmtree(out)
            os.rename(partial, out)
    except OSError as error:
        raise SampleDataError(_explain(error, partial, plan)) from error
    return True


def _explain(error, partial, plan):
    """Say in one line what the disk refused, and what to do."""
    where = f"cannot write {error.filename or partial}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        pixels = (plan.train + plan.val) * 0.72 * plan.size**2
        return f"{where}; the set needs about {pixels * BYTES_PER_PIXEL / 1e6:.0f} MB, free some"
    return f"{where}; give a folder that can be written with --out"


def _parse(arguments):
    parser = argparse.ArgumentParser(
        prog="sample_data.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python scripts/sample_data.py --out data/sample\n"
        "  python -m train fit --config configs/sample.yaml\n\n"
        "exit codes: 0 the set is there, 2 it can't be made (the message says why), 130 Ctrl-C",
    )
    add = parser.add_argument
    add("--out", default="data/sample", metavar="DIR", help="folder to make (%(default)s)")
    add("--seed", type=int, default=0, help="another seed, other pictures (%(default)s)")
    add("--train", type=int, default=1600, metavar="N", help="to train on (%(default)s)")
    add("--val", type=int, default=400, metavar="N", help="to validate on, 0: none (%(default)s)")
    add("--size", type=int, default=400, metavar="PX", help="mean long side (%(default)s)")
    add("--processes", type=int, metavar="N", help="how many work (the usable CPUs, at most 8)")
    add("--shuffle-labels", action="store_true", help="labels by lot: training stays at chance")
    add("--replace", action="store_true", help="delete a set made with other arguments first")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def _progress(total):
    """Yield a function to call after each picture: it moves a bar, where a person is looking."""
    try:
        from rich.progress import Progress
    except ImportError:
        Progress = None
    if Progress is None or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("making pictures", total=total)
        yield lambda: progress.advance(task)


def main(arguments=None):
    """Run the command line; return the exit code."""
    options = vars(_parse(arguments))
    out, num_train, num_val = options.pop("out"), options.pop("train"), options.pop("val")
    start = time.monotonic()
    try:
        with _progress(num_train + num_val) as on_image:
            made = make_data_set(
                out, num_train=num_train, num_val=num_val, on_image=on_image, **options
            )
    except SampleDataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped by Ctrl-C; nothing was kept, run it again to start over", file=sys.stderr)
        return 130
    if made:
        count = f"{num_train:,} + {num_val:,} generated pictures in {len(CLASSES)} classes"
        print(f"{out}: {count}, made in {time.monotonic() - start:.1f} s")
    else:
        print(f"{out}: already there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
