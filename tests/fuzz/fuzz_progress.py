"""How far a campaign is: which numbers of which targets, and what was found. A file keeps it."""

import json
import os
from pathlib import Path

import fuzz_campaign
import fuzz_targets
from fuzz_campaign import Block

FILE = "progress.json"


def shares(count, names):
    """So many inputs, dealt out to targets by their share: at least one each."""
    whole = sum(fuzz_targets.TARGETS[name].share for name in names)
    dealt = {n: max(1, int(count * fuzz_targets.TARGETS[n].share / whole)) for n in names}
    most = max(dealt, key=dealt.__getitem__)
    dealt[most] = max(1, dealt[most] + count - sum(dealt.values()))
    return dealt


class Progress:
    """A campaign's state.

    Args:
        folder: where it is kept; what it holds is gone on with.
        count: inputs in all.
        names: of the targets.
    """

    def __init__(self, folder, count, names):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.wanted = shares(count, names)
        self.parts = {}  # by target: the numbers that were read, as [first, behind the last]
        self.counts = {}
        self.findings = []
        self.before_s = 0.0
        path = self.folder / FILE
        if path.exists():
            state = json.loads(path.read_text())
            self.parts, self.counts = state["parts"], state["counts"]
            self.findings, self.before_s = state["findings"], state["seconds"]

    def blocks(self):
        """What is still to be read; targets take turns, so that all are about as far."""
        waiting = {name: list(self._missing(name))[::-1] for name in self.wanted}
        while True:
            waiting = {name: blocks for name, blocks in waiting.items() if blocks}
            if not waiting:
                return
            name = min(waiting, key=lambda name: waiting[name][-1].first / self.wanted[name])
            yield waiting[name].pop()

    def _missing(self, name):
        """What lies between the parts that were read, in blocks."""
        first = 0
        for begin, end in [*self.parts.get(name, []), [self.wanted[name]] * 2]:
            for at in range(first, min(begin, self.wanted[name]), fuzz_campaign.BLOCK):
                yield Block(name, at, min(fuzz_campaign.BLOCK, begin - at))
            first = end

    def done(self):
        """Inputs read, of all that are wanted: (done, wanted)."""
        left = sum(block.count for name in self.wanted for block in self._missing(name))
        wanted = sum(self.wanted.values())
        return wanted - left, wanted

    def finished(self, block, counts, found):
        """Count a block."""
        name, total = block.target, self.counts.setdefault(block.target, {})
        for outcome, number in counts.items():
            total[outcome] = total.get(outcome, 0) + number
        for finding in found:
            self.findings.append(list(finding))
            self._keep(finding)
        merged = []
        for begin, end in sorted([*self.parts.get(name, []), [block.first, block[1] + block[2]]]):
            if merged and merged[-1][1] >= begin:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        self.parts[name] = merged

    def save(self, seconds):
        """Keep it, whole or not at all."""
        state = {"parts": self.parts, "counts": self.counts, "findings": self.findings}
        state["seconds"] = round(self.before_s + seconds, 1)
        beside = self.folder / (FILE + ".part")
        beside.write_text(json.dumps(state, indent=1))
        os.replace(beside, self.folder / FILE)

    def _keep(self, finding):
        """The input itself, and why it is here with the command that reads it again."""
        path = self.folder / f"{finding.target}-{finding.number}"
        data, _ = fuzz_targets.mutant(finding.target, finding.number)
        path.with_suffix(path.suffix + ".bin").write_bytes(data)
        again = f"python tests/fuzz/run.py --replay {finding.target}:{finding.number}"
        path.with_suffix(path.suffix + ".txt").write_text(f"{finding.why}\n\n{again}\n")
