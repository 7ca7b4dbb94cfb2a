"""Programs on a terminal of their own, and what then stands on its screen."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def shown_on_a_terminal(program, columns=80, stdout=None):
    """What a program writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "COLUMNS": str(columns),
        "TERM": "xterm",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
    }
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert child.wait(20) == 0, seen.decode()
    return seen.decode()


def lines_of(text):
    """The lines that stand on the screen at last: what was erased or written over is gone."""
    lines, row, column = [""], 0, 0
    for sign in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|.|\n", text):
        if sign == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif sign == "\r":
            column = 0
        elif re.fullmatch(r"\x1b\[\d*A", sign):
            row = max(0, row - int(sign[2:-1] or 1))
        elif sign == "\x1b[2K":
            lines[row] = ""
        elif not sign.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + sign + lines[row][column + 1 :]
            column += 1
    return lines
