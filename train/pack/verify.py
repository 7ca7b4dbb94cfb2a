"""`--verify`: read everything back, decode it, compare it, and write the list of what is bad.

A pack carries a checksum for each image with its name and label, so damage that came later is told
from an image that was bad from the start. With the source at hand each image is also made again and
compared; a lossless one must decode to the very pixels of the original.
"""

import os
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

from train.console import Bar, say
from train.data.coefficients.record import is_record
from train.data.sources import Source
from train.data.sources.skipped import describe_skipped
from train.errors import BadSample, DataError, Interrupted, SetupError
from train.pack import target as place
from train.pack.contents import Converted, convert, pixels_of
from train.pack.findings import Finding, allowed_bad, conclude, left_out
from train.pack.options import PackOptions
from train.pack.plan import Plan, make_plan, open_data, splits_of
from train.pack.pool import in_order
from train.pack.records import check_of
from train.pack.write import Meter, stopping


class Original(NamedTuple):
    """What a packed image is compared with.

    Attributes:
        source: where it came from.
        number: its index there.
        options: how it was made.
    """

    source: Source
    number: int
    options: PackOptions


def verify_existing(options: PackOptions, dst: Path, marker: Dict[str, Any], threads: int) -> None:
    """Compare a pack with its source, under the options that it was made with.

    Raises:
        SetupError: others were asked for.
        DataError: it holds something else than what was packed.
    """
    stored = marker["options"]
    changed = [name for name in options.asked() if stored.get(name) != getattr(options, name)]
    if changed:
        raise SetupError(
            f"{str(dst)!r} exists and was made with other options ("
            + "; ".join(f"{name}: {stored.get(name)!r}" for name in changed)
            + "); leave them out to verify it as it is, or add --overwrite to pack anew"
        )
    made_with = PackOptions(
        options.src,
        options.dst,
        stored["container"],
        stored["content"],
        stored["short_side"],
        stored["quality"],
        stored["shard_size"] or options.shard_size,
        options.workers,
        verify=True,
        trust=options.trust,
    )
    verify_pack(made_with, dst, make_plan(made_with), threads)


def verify_pack(options: PackOptions, dst: Path, plan: Plan, threads: int) -> None:
    """Read a pack back and compare it with its source.

    Raises:
        DataError: it holds something else than what was packed.
    """
    findings: List[Finding] = []
    gone_from = left_out(dst)
    packed = splits_of(open_data(str(dst), trust=False))
    for split, source in plan.splits.items():
        gone = gone_from.get(split, set())
        numbers = np.array([n for n in range(len(source)) if n not in gone], dtype=np.int64)
        there = packed.get(split)
        if there is None or len(there) != len(numbers):
            found = 0 if there is None else len(there)
            raise DataError(
                f"{str(dst)!r} has {found} images in {split}, expected {len(numbers)}; "
                "pack it again with --overwrite"
            )

        def original(index: int, source: Source = source, numbers: Any = numbers) -> Original:
            return Original(source, int(numbers[index]), options)

        findings += _look(there, split, _checks(dst, split), original, threads, options)
    conclude(dst, findings)


def verify_alone(options: PackOptions, threads: int) -> None:
    """Read any data set back: a pack by its checksums, anything else by decoding it.

    Raises:
        DataError: a pack is damaged, or more of a data set is bad than training allows.
    """
    path = Path(os.path.abspath(os.path.expanduser(options.src)))
    opened = open_data(options.src, options.trust)
    for line in opened.notes + describe_skipped(opened.skipped):
        say(line)
    findings: List[Finding] = []
    for split, source in splits_of(opened).items():
        checks = _checks(path, split)
        if checks is not None and len(checks) != len(source):
            raise DataError(
                f"{str(path)!r} has {len(source)} images in {split}, {len(checks)} were packed; "
                "copy it again from where it came, or pack it again"
            )
        findings += _look(source, split, checks, None, threads, options)
    conclude(path, findings)
    total = len(opened.train) + (len(opened.val) if opened.val is not None else 0)
    if len(findings) > allowed_bad(total):
        raise DataError(
            f"{len(findings)} of {total} images are bad, and training stops at more than "
            f"{allowed_bad(total)} (data.bad_budget): mend or remove them, or raise the budget"
        )


def _look(
    source: Source,
    split: str,
    checks: Optional[np.ndarray],
    original: Optional[Callable[[int], Original]],
    threads: int,
    options: PackOptions,
) -> List[Finding]:
    """Look at all images of a split."""

    def look(index: int) -> Optional[Finding]:
        check = None if checks is None else int(checks[index])
        return _look_at(source, split, index, check, original(index) if original else None)

    found: List[Finding] = []
    meter = Meter(len(source), 0)
    with stopping() as stop, Bar(f"verifying {split}", len(source)) as bar:
        for finding in in_order(
            look, 0, len(source), threads, lambda _: 0, lambda: stop.signum is not None
        ):
            meter.count(bar)
            if finding is not None:
                found.append(finding)
    if stop.signum is not None and meter.now < len(source):
        raise Interrupted(
            stop.signum,
            f"verified {meter.now} of {len(source)} images of {split}; "
            f"it begins anew with:\n{options.command()}",
        )
    return found


def _look_at(
    source: Source, split: str, index: int, check: Optional[int], original: Optional[Original]
) -> Optional[Finding]:
    """Look at one image; None: all is well."""

    def finding(reason: str, damaged: bool) -> Finding:
        return Finding(split, source.key(index), index, reason, damaged)

    try:
        record = source[index]
    except BadSample as error:
        return finding(str(error), check is not None)
    except OSError as error:
        return finding(f"cannot be read: {error.strerror or error}", True)
    if check is not None and check_of(bytes(record.data), record.key, record.label) != check:
        return finding("the bytes, the name or the label are not those that were packed", True)
    made = None
    if original is not None:
        try:
            before = original.source[original.number].data
        except (BadSample, OSError) as error:
            return finding(f"the original can't be read any more: {error}", True)
        made = convert(before, original.options)
        if made.data != bytes(record.data):
            changed = "it is not what the original gives; has the source changed since?"
            return finding(changed, True)
    try:
        pixels = pixels_of(record.data)
    except BadSample as error:
        return finding(str(error), False)
    if made is not None and original is not None:
        reason = _unfaithful(made, pixels, before, original.options)
        if reason:
            return finding(reason, True)
    return None


def _unfaithful(made: Converted, pixels: np.ndarray, before: Any, options: PackOptions) -> str:
    """What was to be kept without loss, and was not; '': nothing."""
    if made.way == "coefficients" and not is_record(before):
        from train.data.coefficients.unpack import holds  # compiles at first use

        return "" if holds(made.data, bytes(before)) else "its coefficients are not the original's"
    scaled = options.short_side is not None
    if made.way == "windows" or (made.way == "raw" and not scaled):
        same = np.array_equal(pixels, pixels_of(before))
        return "" if same else "its pixels are not those of the original"
    return ""


def _checks(folder: Path, split: str) -> Optional[np.ndarray]:
    """Checksums of a pack, uint32 (N,); None where it is none of ours.

    Raises:
        DataError, SetupError: it is one of ours, and they are missing or damaged.
    """
    marker, path = place.read_marker(folder), folder / place.CHECKS
    if marker is None and not path.is_file():
        return None
    if marker is None:
        raise DataError(
            f"{str(folder / place.MARKER)!r} is missing or damaged, and it says what was packed; "
            "copy it again from where it came, or pack it again"
        )
    if marker.get("version") != place.VERSION:
        raise SetupError(
            f"{str(folder)!r} was made by {marker.get('made_by')!r}, in a format that this "
            "version does not know; verify it with that one"
        )
    try:
        values = np.frombuffer(path.read_bytes()[: path.stat().st_size & ~3], dtype="<u4")
        expected = 4 * sum(marker["records"].values())
        if path.stat().st_size != expected:
            raise DataError(
                f"{str(path)!r} has {path.stat().st_size} bytes, expected {expected}; copy it "
                "again from where it came, or pack it again"
            )
    except OSError as error:
        raise SetupError(
            f"cannot read {str(folder / place.CHECKS)!r}: {error.strerror}; without it the pack "
            "can't be verified"
        ) from None
    start = 0
    for name, count in marker["records"].items():
        if name == split:
            return values[start : start + count]
        start += count
    return values[:0]
