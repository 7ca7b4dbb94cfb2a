"""One round: a run that nobody disturbs, one under faults until its end, and the comparison."""

import collections
import json
import shutil

import chaos_trace
import small_run
import torch
from chaos_faults import arrive, plan, strike
from chaos_life import Hung, Life

IMAGES, EPOCHS, BATCH = 60, 4, 4
STEPS = {1: 15, 2: 8}
"""Of an epoch, by ranks."""

SAME = ("epoch", "step", "lr", "train_loss", "train_top1", "val_loss", "val_top1", "val_samples")
"""Of a row of metrics.jsonl, what a disturbed run must have as an undisturbed one."""

CLOSE = 1e-5
"""How far losses may be apart where the world size or the threads changed on the way."""


def make_data(folder):
    """60 and 15 pictures of three classes; two of them are damaged from the beginning on."""
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        small_run.make_images(folder / "images", train=IMAGES // 3, val=5, size=72)
        for name in ("train/cat/03", "val/dog/01"):
            path = folder / f"images/{name}.png"
            path.write_bytes(path.read_bytes()[:300])
        (folder / "done").touch()
    return folder / "images"


def new_words(data, run, way, minutes=None):
    """Arguments of a new run."""
    # Dropout: a generator of each rank's must come back. Batch normalisation: so must its
    # statistics; and there the generators don't count, which a change of the world size draws anew.
    normed = way == "moved"
    return small_run.arguments(
        data,
        run,
        model__name="shufflenet_v2_x0_5" if normed else "squeezenet1_1",
        data__image_size=32 if normed else 64,
        data__batch_size=BATCH,
        data__workers=2 if way in ("one", "threads") else 1,
        data__prefetch=2,
        data__workers_kind="process",
        data__bad_budget=0.1,
        optim__epochs=EPOCHS,
        run__checkpoint_minutes=minutes or "null",
    )


def next_words(data, run, way, minutes=None, max_steps=None):
    """Arguments of the next start: of a new run, until something was saved."""
    if not any((run / "checkpoints" / name).exists() for name in ("last.pt", "previous.pt")):
        words = new_words(data, run, way, minutes)
    else:
        words = ["fit", f"--run.resume={run}", f"--run.checkpoint_minutes={minutes or 'null'}"]
    return [*words, f"--run.max_steps={max_steps or 'null'}"]


def reference(folder, data, way, parts):
    """Train undisturbed, once -> the run's folder.

    Args:
        folder: for it; what is there already is used.
        data: the pictures.
        way: see `chaos_faults.WAYS`.
        parts: [(ranks, last step or None)]: where the world size changes.
    """
    run = folder / "run"
    if (folder / "done").exists():
        return run
    shutil.rmtree(folder, ignore_errors=True)
    for number, (size, last) in enumerate(parts):
        words = next_words(data, run, way, max_steps=last)
        with Life(number, words, folder, size) as life:
            if life.end() != 0:
                raise Hung(f"the undisturbed run failed: {life.tail()}")
    history = chaos_trace.follow(chaos_trace.read(folder / "traces"))
    problems = history.problems + chaos_trace.wrong(history.steps, IMAGES, EPOCHS)
    if problems:
        raise Hung(f"the undisturbed run: {problems}")
    (folder / "done").touch()
    return run


class Round:
    """One round.

    Args:
        folder: of the campaign.
        number: of the round.
        seed: of the campaign.
        most: faults.
        disk: mounted; the run's folder lies on it.
    """

    def __init__(self, folder, number, seed, most, disk):
        self.folder, self.place, self.disk = folder, folder / f"round-{number}", disk
        self.run = disk.folder / "run"
        self.data = make_data(folder / "data")
        self.way, self.faults = plan(seed, number, most, disk.small)
        self.result = {
            "round": number,
            "way": self.way,
            "kills": collections.Counter(),
            "moments": collections.Counter(),
            "counts": {},
            "equal": 0,
            "problems": [],
        }
        self._life, self._number, self._notes = None, 0, {}

    def go(self):
        """Do it -> what came out; "problems" must be empty."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.rmtree(self.run, ignore_errors=True)
        try:
            self._disturb()
            self._compare()
        except Hung as error:
            self.result["problems"].append(str(error))
        finally:
            if self._life is not None:
                self._life.__exit__()
        if self.result["problems"]:
            shutil.copytree(self.run, self.place / "run", dirs_exist_ok=True)
        else:
            shutil.rmtree(self.place)
        return self.result

    def _start(self, size, threads, minutes, restarts):
        self._number += 1
        words = next_words(self.data, self.run, self.way, minutes)
        self._life = Life(self._number, words, self.place, size, threads, restarts)
        return self._life

    def _disturb(self):
        for fault in self.faults:
            life = self._life
            if life is None or life.ended():
                life = self._start(fault.size, fault.threads, fault.minutes, fault.restarts)
            per_epoch = STEPS[life.size]
            if not arrive(life, fault, (per_epoch, per_epoch * EPOCHS)):
                if life.end() != 0:
                    raise Hung(f"start {life.number} failed by itself: {life.tail()}")
                break
            attempt = life.attempt()
            killed, note = strike(life, fault, self.run, self.disk)
            if killed:
                self.result["kills"][fault.kind] += 1
                self.result["moments"][fault.moment] += 1
            self._settle(life, fault, attempt)
            if note is not None:
                self._notes[f"{life.number}-{life.attempt()}"] = note
        life = self._life
        if life is None or (life.ended() and life.end() != 0):
            life = self._start(2 if self.way == "two" else 1, 1, 0.3 / 60, 0)
        if life.end() != 0:
            raise Hung(f"start {life.number} failed by itself: {life.tail()}")

    def _settle(self, life, fault, attempt):
        """Wait for what a fault leads to: an end, or ranks that train.launch started again."""

        def again():
            return life.attempt() > attempt and len(life.ranks()) == life.size

        if not life.wait(again, "the end after a fault"):
            code = life.end()
            # killed; or another process of it was, which is told; or SIGTERM came first, perhaps
            # before Python had heard of it
            if code not in (-15, -9, 2, 137, 143, 0):
                raise Hung(f"start {life.number}, {fault.kind}: exit code {code}: {life.tail()}")
        if "Traceback (most recent call last)" in life.log.read_text(errors="replace"):
            self.result["problems"].append(
                f"start {life.number}, {fault.kind}: a traceback: {life.tail()}"
            )

    def _compare(self):
        history = chaos_trace.follow(chaos_trace.read(self.place / "traces"), self._notes)
        problems = self.result["problems"]
        problems += history.problems + chaos_trace.wrong(history.steps, IMAGES, EPOCHS)
        self.result["counts"] = {**history.counts, "kept": len(history.steps)}
        last = (self.run / "checkpoints/last.pt").read_bytes()
        if chaos_trace.digest_of(last) != history.final:
            problems.append("last.pt at the end is not what was saved last")
        left = {path.name for path in (self.run / "checkpoints").iterdir()}
        if left != {"best.pt", "last.pt", "previous.pt"}:
            problems.append(f"in the folder of checkpoints: {sorted(left)}")
        if problems:
            return
        name = {"moved": self.place / "reference", "two": self.folder / "reference-two"}
        parts = [(2 if self.way == "two" else 1, None)]
        if self.way == "moved":
            parts = chaos_trace.sizes(history.steps)
            parts[-1] = (parts[-1][0], None)
        place = name.get(self.way, self.folder / "reference-one")
        whole = reference(place, self.data, self.way, parts)
        found = different(self.run, whole)
        self.result["equal"] = int(not found)
        if self.way in ("one", "two"):
            problems += found
        problems += apart(self.run, whole)


def different(run, whole):
    """In what two finished runs differ, bit by bit: [] when nothing that is computed does."""
    one, other = (_load(folder, "last") for folder in (run, whole))
    keys = ("model", "optimizer", "step", "skipped_steps", "schedule_shift", "loader", "best_top1")
    found = [key for key in keys if not _equal(one[key], other[key])]
    # Dropout draws from torch's generator. Python's and NumPy's begin anywhere, and nothing of ours
    # draws from them here.
    drawn = [[rank["rng"]["torch"] for rank in state["ranks"]] for state in (one, other)]
    if not _equal(*drawn):
        found.append("torch's generators")
    if not _equal(_load(run, "best")["model"], _load(whole, "best")["model"]):
        found.append("best.pt")
    rows = [[{key: row[key] for key in SAME} for row in _rows(folder)] for folder in (run, whole)]
    if rows[0] != rows[1]:
        found.append(f"metrics.jsonl: {rows[0]} and {rows[1]}")
    return [f"it is not what the undisturbed run has: {what}" for what in found]


def apart(run, whole):
    """Where the losses of two runs are more than `CLOSE` apart, or counts differ."""
    found = []
    one, other = _rows(run), _rows(whole)
    if [row["epoch"] for row in one] != list(range(EPOCHS)):
        found.append(f"rows of metrics.jsonl are lost: {[row['epoch'] for row in one]}")
    for mine, theirs in zip(one, other):
        for key in ("train_loss", "val_loss"):
            if not abs(mine[key] - theirs[key]) <= CLOSE:
                found.append(f"epoch {mine['epoch']}, {key}: {mine[key]}, not {theirs[key]}")
        for key in ("step", "val_samples", "bad_samples"):
            if mine[key] != theirs[key]:
                found.append(f"epoch {mine['epoch']}, {key}: {mine[key]}, not {theirs[key]}")
    return found


def _load(folder, name):
    return torch.load(folder / "checkpoints" / f"{name}.pt", weights_only=True)


def _rows(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def _equal(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_equal, one, other))
    return one == other
