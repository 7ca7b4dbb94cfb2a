"""What a disturbed run really did, from its traces: the history that counts, and what was lost.

A checkpoint is known by the digest of its bytes. The history of one is the history of the one that
its process began from, and the steps since. So what was trained after the last checkpoint and was
lost counts nowhere, and what counts is what led to the weights at the end.
"""

import collections
import hashlib
import json
from typing import Any, Dict, List, NamedTuple, Tuple


class Step(NamedTuple):
    """One optimizer step.

    Attributes:
        step: its number, from 1.
        epoch: from 0.
        seen: samples of that epoch, once it is done, as the run counts them.
        samples: indices that counted, of each rank.
    """

    step: int
    epoch: int
    seen: int
    samples: Tuple[Tuple[int, ...], ...]


class History(NamedTuple):
    """What led to a checkpoint.

    Attributes:
        steps: all of them, in their order.
        final: digest of the checkpoint.
        problems: what may not be: a lost checkpoint, one that nobody wrote.
        counts: begun, loaded, fallback, saved, unsaved, cut (killed while saving), trained steps.
    """

    steps: List[Step]
    final: str
    problems: List[str]
    counts: Dict[str, int]


def digest_of(content):
    """What tells the bytes of two checkpoints apart."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def read(folder):
    """All traces of a round, in the order of its lives and attempts -> [(name, lines by rank)]."""
    found: Dict[Tuple[int, int], Dict[int, List[Any]]] = collections.defaultdict(dict)
    for path in folder.glob("*-*-*.jsonl"):
        life, attempt, rank = (int(part) for part in path.stem.split("-"))
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[life, attempt][rank] = lines
    return [(f"{key[0]}-{key[1]}", found[key]) for key in sorted(found)]


class _Kept:
    """What must lie on the disk, from what was written and what was done to it."""

    def __init__(self):
        self.newest = self.older = self.pending = None
        self.damaged = False

    def saved(self, digest):
        if not self.damaged:  # only a good one takes the place of a good one
            self.older = self.newest
        self.newest, self.pending, self.damaged = digest, None, False

    def found(self, digest):
        """The last one, whole; False: it is another one than it must be."""
        if digest == self.pending is not None:
            self.saved(digest)
        self.pending = None
        return digest == self.newest


def follow(attempts, notes=None):
    """Follow a run from its first life to its end.

    Args:
        attempts: as `read` gives them.
        notes: by the name of an attempt: what was done when it had ended: {"last": digest,
            "previous": digest} as they were found, and the last one was damaged then.

    Returns:
        the history of the last checkpoint that was written.
    """
    kept, problems, counts = _Kept(), [], collections.Counter()
    paths: Dict[str, List[Step]] = {}
    for name, ranks in attempts:
        path: List[Step] = []
        counts["begun"] += 1
        # Rank 0 alone reads and writes; the others have taken as many steps when it saves.
        parts = {r: [x for x in lines if x["at"] == "step"] for r, lines in ranks.items()}
        number, begun = 0, False
        for line in ranks.get(0, []):
            at, digest = line["at"], line.get("digest")
            if at == "loaded":
                counts["loaded"] += 1
                begun = True
                if kept.damaged:
                    counts["fallback"] += 1
                    right = digest == kept.older
                else:
                    counts["cut"] += kept.pending is not None
                    right = kept.found(digest)
                if not right:
                    problems.append(f"{name}: went on from another checkpoint than the newest")
                if digest not in paths:
                    problems.append(f"{name}: went on from a checkpoint that nobody wrote")
                path = list(paths.get(digest, []))
            elif at == "step":
                counts["trained"] += 1
                if not begun and kept.newest is not None:
                    problems.append(f"{name}: began anew, though a checkpoint had been saved")
                begun = True
                path.append(_step(line, [parts[r][number : number + 1] for r in sorted(parts)]))
                number += 1
            elif at == "saving":
                kept.pending = digest
                paths[digest] = list(path)
            elif at == "saved":
                counts["saved"] += 1
                kept.saved(digest)
            elif at == "unsaved":
                counts["unsaved"] += 1
                kept.pending = None
        if notes and name in notes:
            counts["cut"] += kept.pending is not None
            _note(kept, notes[name], name, problems)
    final = kept.newest or ""
    return History(paths.get(final, []), final, problems, dict(counts))


def _step(line, parts):
    # A rank that was killed before it had written its line never saved this step either.
    samples = tuple(tuple(part[0]["samples"]) if part else () for part in parts)
    return Step(line["step"], line["epoch"], line["seen"], samples)


def _note(kept, note, name, problems):
    if not kept.found(note["last"]):
        problems.append(f"{name}: last.pt is not the one that was saved last")
    if note["previous"] not in (kept.older, kept.newest):
        problems.append(f"{name}: previous.pt is not the one before the last")
    kept.older, kept.damaged = note["previous"], True


def wrong(steps, samples, epochs):
    """What is wrong with a history: [] when each sample was seen exactly once in each epoch."""
    problems = []
    numbers = [step.step for step in steps]
    if numbers != list(range(1, len(numbers) + 1)):
        problems.append(f"steps are lost or repeated: {numbers}")
    for epoch in range(epochs):
        seen = collections.Counter(
            index
            for step in steps
            if step.epoch == epoch
            for rank in step.samples
            for index in rank
        )
        lost = sorted(set(range(samples)) - set(seen))
        again = sorted(index for index, count in seen.items() if count > 1)
        if lost or again or len(seen) != samples:
            problems.append(f"epoch {epoch + 1}: lost {lost}, repeated {again}")
        count = 0
        for step in steps:
            if step.epoch == epoch:
                count += sum(map(len, step.samples))
                if count != step.seen:
                    problems.append(f"step {step.step}: {count} samples, but {step.seen} counted")
                    break
    if {step.epoch for step in steps} - set(range(epochs)):
        problems.append("there are more epochs than asked for")
    return problems


def sizes(steps):
    """At which world sizes a history was trained -> [(ranks, last step)]."""
    found: List[Tuple[int, int]] = []
    for step in steps:
        if found and found[-1][0] == len(step.samples):
            found[-1] = (found[-1][0], step.step)
        else:
            found.append((len(step.samples), step.step))
    return found
