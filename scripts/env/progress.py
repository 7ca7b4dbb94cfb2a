"""Runs a command with a terminal for its errors, so it draws progress; keeps its words in a log.

Usage: progress.py LOG COMMAND...; exits with the command's code.
"""

import contextlib
import os
import re
import subprocess
import sys

# colours and cursor moves, and lines that are no more than a moving bar
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
# uv's list of all that it installed, a line each: for the log alone
LISTS = re.compile(
    rb"^(\x1b\[[0-9;]*m)* ?(\x1b\[[0-9;]*m)*[-+~](\x1b\[[0-9;]*m)* .*==.*\n", re.MULTILINE
)
BARS = re.compile(rb"-{8}|[MKG]i?B/|\xe2[\xa0-\xa3].")


def copy(source: int, log: str) -> None:
    """Shows all that comes, at once; logs each whole line that isn't part of a progress bar."""
    rest = b""
    with open(log, "ab") as file:
        while True:
            try:
                part = os.read(source, 65536)
            except OSError:  # a terminal's other end says "input/output error" when it is closed
                part = b""
            if not part:
                break
            with contextlib.suppress(OSError):
                os.write(2, LISTS.sub(b"", part))
            *lines, rest = (rest + part).split(b"\n")
            for line in [*lines, b""][:-1]:
                text = ESCAPES.sub(b"", line).rstrip(b"\r").split(b"\r")[-1]
                if text and not BARS.search(text):
                    file.write(text + b"\n")
            file.flush()
        if rest:
            file.write(ESCAPES.sub(b"", rest).split(b"\r")[-1] + b"\n")


def main() -> int:
    """Starts the command with one end of a new terminal and reads the other."""
    ours, theirs = os.openpty()
    with contextlib.suppress(OSError, ImportError):
        import fcntl
        import termios

        size = fcntl.ioctl(2, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    command = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    copy(ours, sys.argv[1])
    return command.wait()


sys.exit(main())
