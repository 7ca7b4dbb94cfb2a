"""What an arm needs before it can run: its environment, and the pictures in its own form."""

import contextlib
import shutil
import sys
from pathlib import Path
from typing import List, NamedTuple

from race import data as race_data
from race import rounds
from race.arms import LIMIT, OURS, Arm
from race.environments import PEER_OF, ROOT, Unavailable, python_of

PACK_S = 1800

# `python -m train`, found in the checkout wherever the process starts.
_TRAIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from train.__main__ import main; "
_TRAIN += "sys.exit(main())"


class NotPacked(Unavailable):
    """The pictures could not be written in this form; the message says why."""


class Ready(NamedTuple):
    """An arm that can run.

    Attributes:
        arm: the row.
        command: how it is started, without the seconds.
        bytes_an_image: what it reads, on disk.
    """

    arm: Arm
    command: List[str]
    bytes_an_image: float


def pack_command(source, target, container, content) -> List[str]:
    """The command that packs a folder as a user would: `train pack`."""
    command = [sys.executable, "-c", _TRAIN, str(ROOT), "pack", str(source), str(target)]
    return [*command, "--container", container, "--content", content]


def ensure_packed(target, command, say) -> None:
    """Run a command that writes `target`, unless an earlier one did.

    Raises:
        NotPacked: it failed.
    """
    target = Path(target)
    done = target.with_name(target.name + ".done")
    if done.exists():
        return
    shutil.rmtree(target, ignore_errors=True)
    with contextlib.suppress(OSError):
        target.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"writing {target.name} ...")
    _, why = rounds.run(command, PACK_S)
    if why is None and not target.exists():
        why = "nothing was written"
    if why:
        raise NotPacked(f"its data could not be written: {why}")
    done.touch()


def _script(arm):
    if arm.kind == LIMIT:
        return ROOT / "benchmarks" / "limit.py"
    if arm.kind == OURS:
        return Path(__file__).with_name("ours.py")
    return PEER_OF[arm.environment].script


def prepare(arm, folder, described, workers, say) -> Ready:
    """Make an arm's environment and what it reads, once.

    Args:
        arm: see arms.py.
        folder: of the data, see data.py.
        described: what the data is, by set.
        workers: processes or threads.
        say: called with a line for people when something takes long.

    Raises:
        Unavailable: with the reason.
    """
    python = python_of(PEER_OF[arm.environment], say) if arm.environment else sys.executable
    script = str(_script(arm))
    common = ["--data", str(folder / arm.data / "train"), "--workers", str(workers)]
    bytes_an_image = float(described[arm.data]["bytes"])
    if arm.form:
        target = folder / "packed" / f"{arm.data}-{arm.environment or 'ours'}-{arm.form}"
        common += ["--packed", str(target)]
        command = [python, script, "pack", arm.form, *common]
        if arm.kind == OURS:
            command = pack_command(folder / arm.data, target, *arm.form.split("-"))
        ensure_packed(target, command, say)
        bytes_an_image = race_data.bytes_of(target) / described[arm.data]["files"]
    return Ready(arm, [python, script, "arm", arm.entry, *common], bytes_an_image)
