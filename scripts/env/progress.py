"""Runs a command with a terminal for its words, so it draws progress; keeps those words in a log.

Usage: progress.py LOG COMMAND...; exits with the command's code.
"""

import contextlib
import fcntl
import os
import re
import subprocess
import sys
import termios

# colours and cursor moves, and lines that are no more than a moving bar
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
BARS = re.compile(rb"-{8}|[MKG]i?B/|\xe2[\x94-\x97\xa0-\xa3].")
# uv's list of all that it installed, a line each: for the log alone
LISTED = re.compile(rb" *[-+~] +\S+==")


def words(line: bytes) -> bytes:
    """What a line says in the end: no colours, and only what was drawn last."""
    return ESCAPES.sub(b"", line).rstrip(b"\r").split(b"\r")[-1]


def copy(source: int, log: str) -> None:
    """Shows what comes, at once; logs each whole line that isn't part of a progress bar."""
    rest, shown = b"", 0  # the line that is not whole yet, and how much of it was shown
    with open(log, "ab") as file:
        while True:
            try:
                part = os.read(source, 65536)
            except OSError:  # a terminal's other end says "input/output error" when it is closed
                part = b""
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                text = words(line)
                if shown or not LISTED.match(text):
                    show(line[shown:] + b"\n")
                shown = 0
                if text and not BARS.search(text):
                    file.write(text + b"\n")
            file.flush()
            # a line that begins as an item of the list waits until it can be told from a bar
            if b"\r" in rest or len(words(rest)) > 200 or not part:
                show(rest[shown:])
                shown = len(rest)
            if not part:
                break
        file.write(words(rest))


def show(part: bytes) -> None:
    """Writes to the real terminal; one that went away is no reason to stop."""
    with contextlib.suppress(OSError):
        os.write(2, part)


def main() -> int:
    """Starts the command with one end of a new terminal and reads the other."""
    ours, theirs = os.openpty()
    with contextlib.suppress(OSError, termios.error):
        size = fcntl.ioctl(2, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.OPOST  # the real terminal turns line ends, once is enough
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
    command = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    copy(ours, sys.argv[1])
    return command.wait()


sys.exit(main())
