"""Many inputs, by children that may die: the parent only counts, and never reads one itself.

A child is forked for a block of numbers of one target and leaves a byte for each in shared memory;
so when it dies, the parent knows at which input, writes it down and goes on behind it.
"""

import ctypes
import faulthandler
import json
import mmap
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from typing import NamedTuple

import fuzz_bounds
import fuzz_targets

BLOCK = 400
SILENCE_S = 120.0
"""An input that takes so long, by the clock on the wall, waits for what never comes."""

MEMORY_MIB = 2048
_PR_SET_PDEATHSIG = 1  # Linux, sys/prctl.h
OUTCOMES = ("", fuzz_bounds.READ, fuzz_bounds.REFUSED, fuzz_bounds.FAILED, "contained")


class Finding(NamedTuple):
    """An input that did what none may do."""

    target: str
    number: int
    why: str


class Block(NamedTuple):
    """What a child reads."""

    target: str
    first: int
    count: int


class _Child:
    """A process that reads one block."""

    def __init__(self, block, scratch):
        self.block, self.scratch = block, tempfile.mkdtemp(dir=scratch)  # it may leave files
        self.marks = mmap.mmap(-1, block.count)
        self.said = b""
        self.done, self.since = 0, time.monotonic()
        self.pipe, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self.pipe)
                self._read(write)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(write)

    def _read(self, write):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _die_with_parent()
        fuzz_bounds.prepare()
        fuzz_bounds.limit_memory(MEMORY_MIB)
        for at in range(self.block.count):
            number = self.block.first + at
            outcome, why = fuzz_bounds.attempt(self.block.target, number, self.scratch)
            if outcome == fuzz_bounds.FAILED:
                os.write(write, json.dumps([number, why]).encode() + b"\n")
            self.marks[at] = OUTCOMES.index(outcome)

    def silent_s(self):
        """For how long no input was finished."""
        done = self.marks[:].rstrip(b"\0")
        if len(done) != self.done:
            self.done, self.since = len(done), time.monotonic()
        return time.monotonic() - self.since

    def end(self):
        """Reap it -> (counts by outcome, findings, number of the input that killed it or None)."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        shutil.rmtree(self.scratch, ignore_errors=True)
        marks = self.marks[:]
        counts = {name: marks.count(code) for code, name in enumerate(OUTCOMES) if code}
        found = [Finding(self.block.target, *json.loads(x)) for x in self.said.splitlines()]
        if 0 not in marks:
            return counts, found, None
        killed = self.block.first + marks.index(0)
        if os.WIFSIGNALED(status):
            why = f"it killed the process: {signal.strsignal(os.WTERMSIG(status))}"
            if os.WTERMSIG(status) == signal.SIGKILL:
                why = f"no end within {SILENCE_S:.0f} s, or the system ended it for its memory"
        else:
            why = f"the process ended with exit code {os.WEXITSTATUS(status)}"
        return counts, found, Finding(self.block.target, killed, why)


def run(blocks, scratch, finished, procs=1):
    """Read blocks.

    Args:
        blocks: an iterator of Block.
        scratch: folder for files.
        finished: called after each block with it, counts by outcome, and findings.
        procs: children at a time.
    """
    blocks, running, waiting = iter(blocks), {}, []
    try:
        while True:
            while len(running) < procs:
                block = waiting.pop() if waiting else next(blocks, None)
                if block is None:
                    break
                child = _Child(block, scratch)
                running[child.pipe] = child
            if not running:
                return
            for pipe in select.select(list(running), [], [], 1.0)[0]:
                said = os.read(pipe, 1 << 16)
                running[pipe].said += said
                if not said:
                    child = running.pop(pipe)
                    _finish(child, scratch, finished, waiting)
            for child in running.values():
                if child.silent_s() > SILENCE_S:
                    os.kill(child.pid, signal.SIGKILL)
    finally:
        for child in running.values():
            os.kill(child.pid, signal.SIGKILL)
            child.end()


def _finish(child, scratch, finished, waiting):
    counts, found, killed = child.end()
    block, done = child.block, child.block
    if killed is not None:
        behind = killed.number + 1
        done = block._replace(count=behind - block.first)
        if block.count > done.count:
            waiting.append(Block(block.target, behind, block.first + block.count - behind))
        contained = fuzz_targets.TARGETS[block.target].contained
        problem = killed.why if contained is None else _contained(contained, killed, scratch)
        if problem:
            found.append(killed._replace(why=problem))
        counts[fuzz_bounds.FAILED if problem else "contained"] += 1
    finished(done, counts, found)


def _contained(contained, killed, scratch):
    """Read it as the product does, in a child of a child; '' where that ends as it should."""
    with fuzz_bounds.scratch(scratch) as place:
        said = _said_by_child(contained, killed, place)
    if said == b"ok":
        return ""
    return f"{killed.why}; and as the product reads it: {said.decode() or 'died as well'}"


def _said_by_child(contained, killed, place):
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(receive)
            _die_with_parent()
            faulthandler.disable()
            data, _ = fuzz_targets.mutant(killed.target, killed.number)
            contained(data, place)
            os.write(send, b"ok")
        except fuzz_targets.FAMILY:
            os.write(send, b"ok")
        except BaseException:
            os.write(send, traceback.format_exc()[-3000:].encode())
        finally:
            os._exit(0)
    os.close(send)
    said = b""
    while True:
        piece = os.read(receive, 1 << 16)
        if not piece:
            break
        said += piece
    os.close(receive)
    os.waitpid(pid, 0)
    return said


def _die_with_parent():
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
