"""A profile without py-spy: the run is asked by a signal where it stands, again and again."""

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Dict, List

EVERY_S = 0.5

_GROUP = re.compile(r"^(?:(Current thread|Thread) 0x\w+|(worker \d+) \(.*\):$)")
_CALL = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


def record(command: List[str], run: Path, seconds: float) -> int:
    """Run a command, ask it for its stacks meanwhile, and show where it stood.

    Args:
        command: a training run in the folder `run`, of profile_inside.py: SIGALRM stops it.
        run: where stacks.txt goes.
        seconds: after so many since its first step it is stopped.

    Returns:
        The command's exit code.
    """
    told = run.with_name(f".{run.name}.stacks")
    told.parent.mkdir(parents=True, exist_ok=True)
    looks, end = 0, 0.0
    try:
        with open(told, "w+", encoding="utf-8", errors="replace") as file:
            process = subprocess.Popen(command, stderr=file)
            try:
                while process.poll() is None:
                    time.sleep(EVERY_S)
                    if trainer(run) != process.pid:
                        continue  # its handler is there from its first step on
                    end = end or time.monotonic() + seconds
                    if time.monotonic() >= end:
                        process.send_signal(signal.SIGALRM)
                        break
                    process.send_signal(signal.SIGUSR2)
                    looks += 1
                process.wait()
            except KeyboardInterrupt:
                process.wait()
            file.seek(0)
            text = file.read()
        if not run.is_dir():
            sys.stderr.write(text)
            return process.returncode
        (run / "stacks.txt").write_text(text, encoding="utf-8")
        print("\n".join(table(count(text), looks)))
        print(f"stacks    {run / 'stacks.txt'}")
        return process.returncode
    finally:
        told.unlink(missing_ok=True)


def trainer(run: Path) -> int:
    """The process that trains in a folder and has done a step; 0: none."""
    try:
        return int(json.loads((run / "status.json").read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def count(text: str) -> Dict[str, "Counter[str]"]:
    """How often each innermost call was seen: in the training's main thread, in each worker.

    Of a process only its main thread counts, which is the one that the signal reaches.
    """
    found: Dict[str, Counter[str]] = {}
    name, last = "", ""
    for line in [*text.splitlines(), "Current thread 0x0"]:
        group, call = _GROUP.match(line), _CALL.match(line)
        if group:
            if last:
                found.setdefault(name, Counter())[last] += 1
            thread, worker = group.groups()
            name, last = worker or ("training" if thread == "Current thread" else ""), ""
        elif call and not last and name:
            path, number, function = call.groups()
            last = f"{function} ({'/'.join(path.split('/')[-2:])}:{number})"
    return found


def table(found: Dict[str, "Counter[str]"], looks: int) -> List[str]:
    """The calls that were seen most, for people."""
    if not found:
        return ["no stack was told: the run was too short"]
    lines = [f"where it stood, in {looks} looks:"]
    for name in sorted(found):
        total = sum(found[name].values())
        for call, times in found[name].most_common(4):
            lines.append(f"  {name:<10} {times / total:>4.0%}  {call}")
    return lines
