"""`train pack` from its first line to its last."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any, Dict, Tuple

from train import __version__, machine
from train.console import Bar, say
from train.data.coefficients import VERSION
from train.errors import Interrupted, SetupError
from train.files import write_whole
from train.machine import bytes_text
from train.pack import target as place
from train.pack.journal import JOURNAL, Partial, Position, partial_of
from train.pack.options import PackOptions
from train.pack.plan import Plan, check_room, estimate, make_plan, open_data
from train.pack.speed import measure
from train.pack.summary import describe
from train.pack.verify import verify_alone, verify_existing, verify_pack
from train.pack.write import Meter, SplitWriting, Work, stopping
from train.pack.writers import Target, writer_class
from train.signals import StopRequest

MB = 1_000_000


def pack(options: PackOptions, cpus: machine.Measure[int], look: bool = True) -> None:
    """Pack, verify, or both.

    Args:
        options: what was asked for.
        cpus: usable ones.
        look: measure the pack's speed at the end, and advise.

    Raises:
        TrainError: something to mend, in one message.
        Interrupted: a signal came; the message has the command that goes on.
    """
    threads = cpus.value if options.workers == "auto" else options.workers
    why = f"{cpus.source}" if options.workers == "auto" else "as asked for"
    if options.dst is None:
        verify_alone(options, threads)
        return
    dst = Path(os.path.abspath(os.path.expanduser(options.dst)))
    place.refuse_source(options.src, dst)
    place.mend(dst)
    marker = place.read_marker(dst)
    if options.verify and marker is not None and not options.overwrite:
        verify_existing(options, dst, marker, threads)
        return
    place.check_target(dst, options.overwrite)
    plan = make_plan(options)
    say(f"threads   {threads} ({why})")
    with stopping() as stop:
        _make(options, plan, dst, threads, stop)
    if options.verify:
        verify_pack(options, dst, plan, threads)
    if not look:
        return
    try:
        measure(options, dst, plan, cpus.value)
    except KeyboardInterrupt:
        raise Interrupted(
            signal.SIGINT, f"{dst} is whole; only the look at its speed was cut short"
        ) from None


def _make(options: PackOptions, plan: Plan, dst: Path, threads: int, stop: StopRequest) -> None:
    """Write the pack beside its place, then put it there."""
    about = {**options.lasting(), "source": plan.fingerprint}
    if options.content == "coefficients":
        about["record_version"] = VERSION  # one of another version is not gone on with
    rate = 0.0
    if not _is_whole(partial_of(dst), about, options.overwrite):
        with Partial(dst, about, options.overwrite) as partial:
            position = partial.latest(lambda at: _fits(at, options, plan, partial)) or Position(
                next(iter(plan.splits)), 0, None, {}, {}
            )
            done = _done(position, plan)
            if done:
                say(f"goes on   after {done} of {plan.num_records} images")
            if options.content in ("windows", "coefficients"):
                say("a look at some images; the first time on a machine it compiles, for a moment")
            needed = estimate(plan, options)
            try:
                check_room(partial.path, needed, done / plan.num_records)
            except SetupError:
                if not done:
                    partial.discard()
                raise
            say(
                f"target    {dst}: {options.container}, {options.content}, about "
                f"{bytes_text(needed.after)} (the images now: about {bytes_text(needed.before)})",
                indent=10,
            )
            work = Work(
                options, partial, threads, lambda: stop.signum is not None, plan.num_records
            )
            try:
                counts, rate = _write(work, plan, position, stop)
                _complete(options, plan, partial, counts, about)
            except OSError as error:
                raise _disk_error(error, partial.path, options) from None
    try:
        place.put_in_place(dst)
    except OSError as error:
        raise SetupError(
            f"the pack is whole, but {str(partial_of(dst))!r} can't be renamed to {dst.name!r}: "
            f"{error.strerror}; rename it yourself"
        ) from None
    marker = place.read_marker(dst)
    if marker is not None:
        describe(dst, marker, rate)


def _write(
    work: Work, plan: Plan, position: Position, stop: StopRequest
) -> Tuple[Dict[str, Any], float]:
    """Write all splits; returns the counts, and images/s."""
    names = list(plan.splits)
    done = _done(position, plan)
    meter = Meter(plan.num_records, done)
    with Bar("packing", plan.num_records, done) as bar:
        while position.split:
            after = names.index(position.split) + 1
            split = SplitWriting(
                work,
                _target(work.options, plan, work.partial, position.split),
                plan.splits[position.split],
                position,
                names[after] if after < len(names) else "",
            )
            try:
                following = split.run(bar, meter)
            finally:
                split.close()
            if following is None:
                assert stop.signum is not None
                raise Interrupted(
                    stop.signum,
                    f"stopped after {_done(split.position, plan)} of {plan.num_records} images; "
                    f"go on with:\n{work.options.command()}",
                )
            position = following
    return position.counts, meter.rate


def _complete(
    options: PackOptions, plan: Plan, partial: Partial, counts: Dict[str, Any], about: Dict
) -> None:
    """Add what stands beside the containers; the marker last, since it says that all is there."""
    folder = partial.path
    bad = folder / place.LEDGER
    if bad.is_file() and not bad.stat().st_size:
        bad.unlink()  # nothing to tell
    write_whole(folder / place.CLASSES, json.dumps(list(plan.classes)).encode() + b"\n")
    if options.container != "folder":
        _write_indexes(folder)
    marker = {
        "format": place.FORMAT,
        "version": place.VERSION,
        "made_by": f"wellfed {__version__}",
        "options": options.lasting(),
        "subsampling": options.subsampling,
        "records": {name: counts.get("records:" + name, 0) for name in plan.splits},
        "counts": counts,
        "about": about,
    }
    write_whole(folder / place.MARKER, json.dumps(marker, indent=1).encode() + b"\n")
    partial.remove_traces()


def _write_indexes(folder: Path) -> None:
    """Open it once: the indexes are written, and it is seen that it can be opened."""
    from train.data.sources.handles import close_all

    say("indexing")
    open_data(str(folder), trust=False)
    close_all()


def _is_whole(partial: Path, about: Dict[str, Any], anew: bool) -> bool:
    """Whether a process was killed between its last line and the renaming.

    Raises:
        SetupError: it was, but with other options, and `anew` is not set.
    """
    marker = place.read_marker(partial)
    if marker is None or (partial / JOURNAL).exists():
        return False
    if marker.get("about") == json.loads(json.dumps(about)):
        return True
    if not anew:
        raise SetupError(
            f"{str(partial)!r} is a pack of something else that was not yet renamed; rename it, or "
            "add --overwrite to begin anew"
        )
    place.refuse_foreign(partial)
    shutil.rmtree(partial)
    return False


def _target(options: PackOptions, plan: Plan, partial: Partial, split: str) -> Target:
    return Target(partial.path, split, plan.classes, options.shard_size * MB)


def _fits(position: Position, options: PackOptions, plan: Plan, partial: Partial) -> bool:
    """Whether the files hold what a line of the journal says."""
    most = len(plan.splits[position.split]) if position.split in plan.splits else 0
    if not 0 <= position.next <= most or (position.split and position.split not in plan.splits):
        return False
    for name, size in position.sizes.items():
        path = partial.path / name
        if not path.exists() or path.stat().st_size < size:
            return False
    if not position.split or position.writer is None:
        return True
    target = _target(options, plan, partial, position.split)
    return bool(writer_class(options.container).usable(target, position.writer))


def _done(position: Position, plan: Plan) -> int:
    """Records of the source that are behind a position."""
    names = list(plan.splits)
    before = names.index(position.split) if position.split else len(names)
    return sum(len(plan.splits[name]) for name in names[:before]) + position.next


def _disk_error(error: OSError, folder: Path, options: PackOptions) -> SetupError:
    try:
        info = os.statvfs(folder)
        free = f" ({bytes_text(info.f_bavail * info.f_frsize)} free)"
    except OSError:
        free = ""
    return SetupError(
        f"cannot write {str(error.filename or folder)!r}: {error.strerror or error}{free}; "
        "what was packed so far is intact: mend this, then go on with:\n" + options.command()
    )
