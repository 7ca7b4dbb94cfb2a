"""Asks each service that was started, as its users would. The standard library alone."""

import http.client
import json
import socket
import ssl
import sys
from pathlib import Path

TIMEOUT_S = 5
"""Docker gives the whole check 10 s; a service that needs more than this for one word hangs."""


def ask_jupyter(run: Path, port: int, pid: int) -> None:
    """Ask for its status with its token, under the address that it wrote down itself."""
    try:
        server = json.loads((run / "jupyter" / f"jpserver-{pid}.json").read_text())
    except OSError:
        raise OSError("is still starting") from None
    host, port = "127.0.0.1", server["port"]
    if server["secure"]:
        # Its certificate names another host, and this connection never leaves the container.
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    token = (run / "jupyter" / "token").read_text()
    expect_ok(connection, server["base_url"] + "api/status", {"Authorization": f"token {token}"})


def ask_tensorboard(run: Path, port: int, pid: int) -> None:
    """Ask for its first page."""
    expect_ok(http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S), "/", {})


def ask_ssh(run: Path, port: int, pid: int) -> None:
    """Wait for the line with which every SSH server begins."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        words = connection.recv(64)
    if not words.startswith(b"SSH-"):
        raise OSError(f"says {words[:20]!r}, which is no SSH server")


def expect_ok(connection: http.client.HTTPConnection, path: str, headers: dict) -> None:
    """Ask for a page and close.

    Raises:
        OSError: the answer is another one than 200.
    """
    try:
        connection.request("GET", path, headers=headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    if status != 200:
        raise OSError(f"answers {status} for {path}")


ASK = {"jupyter": ask_jupyter, "tensorboard": ask_tensorboard, "ssh": ask_ssh}


def main(run: Path) -> int:
    """Ask all, print one line, return 1 if any has no good answer.

    A container that runs a command alone has no services: it is healthy for as long as it lives.
    """
    told, bad = [], False
    for line in (run / "services").read_text().splitlines():
        name, port, pid = line.split()
        try:
            ASK[name](run, int(port), int(pid))
            told.append(f"{name} answers")
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            bad = True
            why = f"no answer within {TIMEOUT_S} s" if isinstance(error, socket.timeout) else error
            told.append(f"{name}: {why}")
    sys.stdout.write(("; ".join(told) or "the command runs") + "\n")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
