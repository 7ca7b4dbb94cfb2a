"""The faults: which ones, drawn from a seed, and how each of them is done to a run."""

import os
import random
import signal
import time
from typing import NamedTuple

from chaos_trace import digest_of

from train.checkpoint_file import is_sealed

WAYS = ("one", "two", "one", "moved", "two", "threads")
"""One rank, two ranks, two or one from start to start, one or two threads from start to start."""

KINDS = ("worker", "rank", "run", "main", "preempt", "damage", "litter", "disk")


class Fault(NamedTuple):
    """One fault, and how the start is begun that it ends.

    Attributes:
        kind: see `strike`.
        at: the share of the run's steps that must be done first.
        moment: what it waits for then: "start" (for nothing), "step", "save" (the next one stops in
            its middle, see `chaos_rank.Stops`), "epoch" (its last step).
        delay_s: from that moment on.
        call: of a save, before which it stops.
        minutes: run.checkpoint_minutes.
        size, threads, restarts: of a start, see `Life`.
        seed: of what else is drawn.
    """

    kind: str
    at: float
    moment: str
    delay_s: float
    call: int
    minutes: float
    size: int
    threads: int
    restarts: int
    seed: int


def plan(seed, number, most, with_disk):
    """The faults of one round -> (way, faults).

    Args:
        seed: of the campaign.
        number: of the round.
        most: faults.
        with_disk: whether a full disk can be made here.
    """
    draw = random.Random(f"chaos:{seed}:{number}")
    way = WAYS[number % len(WAYS)]
    kinds = [kind for kind in KINDS if way != "one" or kind != "rank"]
    if way == "threads":
        kinds.remove("rank")
    if way == "moved":  # what saves without a step can't be replayed, see chaos_round.py
        kinds.remove("main")
        kinds.remove("preempt")
    if not with_disk:
        kinds.remove("disk")
    count = draw.randint(4, 8)
    deck = draw.sample(kinds, len(kinds)) + draw.choices(kinds, k=count)
    faults = []
    for place in range(count):
        kind = deck[place]
        moment = draw.choice(("start", "step", "step", "save", "save", "epoch"))
        if moment == "start" and kind in ("worker", "rank", "damage", "disk"):
            moment = "step"  # there is nothing yet to do it to
        if moment == "save" and kind == "disk":
            moment = "step"  # it waits for a save itself
        longest = {"start": 6.0, "step": 0.1, "save": 0.0, "epoch": 0.5}[moment]
        often = draw.choice((0.001, 0.1, 0.3, 1.0)) / 60
        faults.append(
            Fault(
                kind,
                at=0.85 * (place + draw.random()) / count,
                moment=moment,
                delay_s=longest * draw.random(),
                call=draw.randint(1, 6),
                minutes=0.001 / 60 if kind in ("damage", "disk") else often,
                size={"two": 2, "moved": draw.choice((1, 2))}.get(way, 1),
                threads=draw.choice((1, 2)) if way == "threads" else 1,
                restarts=draw.choice((0, 3)) if way == "two" else 0,
                seed=draw.getrandbits(32),
            )
        )
    return way, faults[:most]


def arrive(life, fault, steps):
    """Wait for the moment of a fault; False: the run ended before it.

    Args:
        life: the run.
        fault: the fault.
        steps: of the whole run, to an epoch's end and in all: (per epoch, in all).
    """
    begin = time.monotonic()
    if fault.moment == "start":
        life.wait(lambda: time.monotonic() - begin > fault.delay_s, "a moment")
        return not life.ended()
    per_epoch, total = steps
    target = max(1, int(fault.at * total))
    if fault.moment == "epoch":
        target = -(-target // per_epoch) * per_epoch

    def come():
        lines = life.lines()
        done = [n for n, line in enumerate(lines) if line.get("step", 0) >= target]
        if not done or len(life.ranks()) < life.size:
            return False
        # what is damaged must have one before it
        return fault.kind != "damage" or sum(line["at"] == "saved" for line in lines) >= 2

    if not life.wait(come, f"step {target}"):
        return False
    if fault.moment == "save":
        (life.traces / "stop").write_text(str(fault.call))
        if not life.wait(lambda: life.lines()[-1]["at"] == "stopped", "a save"):
            return False
    time.sleep(fault.delay_s)
    return not life.ended()


def strike(life, fault, run, disk):
    """Do it.

    - worker: kill -9 of one worker process.
    - rank: kill -9 of one rank; train.launch ends the others, and may start them again.
    - main: kill -9 of the process that was started, alone: training, or train.launch.
    - run: kill -9 of all its processes at once.
    - preempt: SIGTERM, and kill -9 of all soon after, as a scheduler does it.
    - damage: run, and then last.pt is cut, overwritten or emptied.
    - litter: run, and then other files of the run's folder are damaged.
    - disk: it is full until a save has failed; then run, or first there is room again.

    Args:
        life: the run.
        fault: the fault.
        run: its folder.
        disk: what its folder lies on; has fill() and empty().

    Returns:
        how many processes were killed, and a note for `chaos_trace.follow`, or None.
    """
    draw, note = random.Random(fault.seed), None
    if fault.kind == "worker":
        killed = life.kill(draw.choice(life.workers() or [life.process.pid]))
    elif fault.kind == "rank":
        killed = life.kill(draw.choice(list(life.ranks().values()) or [life.process.pid]))
    elif fault.kind == "main":
        killed = life.kill(life.process.pid)
    else:
        if fault.kind == "disk":
            _fill(life, disk, draw)
        elif fault.kind == "preempt":
            os.kill(life.process.pid, signal.SIGTERM)
            time.sleep(0.3 * draw.random() ** 2)
        killed = life.kill_all(draw)
        disk.empty()
        if fault.kind == "damage":
            note = _damage(run, draw)
        elif fault.kind == "litter":
            _litter(run, draw)
    (life.traces / "stop").unlink(missing_ok=True)
    for pid in life.ranks().values():  # the others may go on
        os.kill(pid, signal.SIGCONT)
    return int(killed), note


def _fill(life, disk, draw):
    def said(what, behind):
        return any(line["at"] == what for line in life.lines()[behind:])

    before = len(life.lines())
    disk.fill(draw.randrange(2 << 20))
    life.wait(lambda: said("unsaved", before), "a save that fails")
    if draw.random() < 0.5:
        disk.empty()
        behind = len(life.lines())
        life.wait(lambda: said("saved", behind), "a save again")
    time.sleep(0.1 * draw.random())


def _damage(run, draw):
    """Damage last.pt; both it and the one before it must have been whole."""
    last, previous = (run / "checkpoints" / f"{name}.pt" for name in ("last", "previous"))
    content = last.read_bytes()
    for path in (last, previous):
        assert is_sealed(path.read_bytes()), f"{path} is not whole"
    note = {"last": digest_of(content), "previous": digest_of(previous.read_bytes())}
    torn = bytearray(content)
    way = draw.choice(("cut", "cut", "bit", "block", "empty"))
    if way == "cut":
        del torn[draw.randrange(len(torn)) :]
    elif way == "bit":
        torn[draw.randrange(len(torn))] ^= 1 << draw.randrange(8)
    elif way == "block":  # as a disk loses one
        first = draw.randrange(len(torn))
        torn[first : first + 4096] = bytes(len(torn[first : first + 4096]))
        if torn == content:
            torn[first] ^= 1
    else:
        torn.clear()
    last.unlink()  # it may be best.pt or previous.pt as well
    last.write_bytes(torn)
    return note


def _litter(run, draw):
    """Damage what else lies there, as a crash of the whole machine could."""
    if not (run / "checkpoints").is_dir():
        return
    for name in ("metrics.jsonl", "bad_samples.jsonl"):
        if (run / name).exists():
            with open(run / name, "ab") as file:
                file.write(b'{"epoch": 0, "st')
    for name in ("status.json", "settings.json", "machine.json", "report.html"):
        if (run / name).exists() and draw.random() < 0.7:
            (run / name).write_bytes(draw.getrandbits(800).to_bytes(100, "little"))
    for path in (run / "tensorboard").glob("events*"):
        os.truncate(path, draw.randrange(path.stat().st_size + 1))
    (run / "checkpoints/.last.pt.1.part").write_bytes(b"half")
