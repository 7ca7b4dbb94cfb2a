"""Run containers from tests: one way to start, ask, wait and clean up."""

import json
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List, Optional, Sequence

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60
PROBE = """a "b" 'c' $HOME #d \\e  two  blanks = *"""
"""A value that must come through every door as it is."""
PRINT_PROBE = (
    "import json, os, sys, torch; "
    'print("PROBE=" + json.dumps([sys.prefix, torch.__version__, os.environ.get("PROBE")]))'
)


def run(
    *command: str, code: Optional[int] = 0, seconds: float = 120, **options
) -> subprocess.CompletedProcess:
    """A command's result; standard error is kept apart, an unexpected exit code is a failure."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        **({} if "input" in options else {"stdin": subprocess.DEVNULL}),
        **options,
    )
    if code is not None:
        text = f"{command}\nexit {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        assert done.returncode == code, text
    return done


def docker(*command: str, **options) -> str:
    """What `docker ...` prints."""
    return run("docker", *command, **options).stdout.strip()


def wait_for(condition, what: str, seconds: float = WAIT_S):
    """The first true value of `condition`; a failure after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def read_probe(text: str) -> List[str]:
    """Prefix, torch and value out of what PRINT_PROBE has printed; the last one counts."""
    lines = [
        line for line in text.splitlines() if "PROBE=[" in line and line.rstrip().endswith("]")
    ]
    assert lines, text
    return json.loads(lines[-1][lines[-1].index("PROBE=[") + 6 :])


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Container:
    """A container of a test."""

    def __init__(self, name: str):
        self.name = name

    def exec(self, *command: str, user: str = "", options: Sequence[str] = (), **more) -> str:
        who = ["-u", user] if user else []
        return docker("exec", *who, *options, self.name, *command, **more)

    def logs(self) -> str:
        done = run("docker", "logs", self.name)
        return done.stdout + done.stderr

    def state(self, key: str) -> str:
        return docker("inspect", "--format", "{{" + key + "}}", self.name)

    def port(self, inside: int) -> int:
        return int(docker("port", self.name, str(inside)).splitlines()[0].rsplit(":", 1)[1])

    def token(self) -> str:
        def find() -> str:
            done = run("docker", "logs", self.name)
            text = done.stdout + done.stderr
            return text.split("token=")[1].split()[0] if "token=" in text else ""

        return wait_for(find, f"a token in the log of {self.name}")

    def wait_healthy(self, seconds: float = WAIT_S) -> None:
        """Until its own health check says that what was asked for answers."""

        def healthy() -> bool:
            assert self.state(".State.Running") == "true", self.logs()
            check = ["exec", self.name, "/opt/docker/healthcheck.sh"]
            return run("docker", *check, code=None).returncode == 0

        wait_for(healthy, f"a healthy {self.name}; its log: {self.logs()[-2000:]}", seconds)

    def stop(self, seconds: int = 60) -> float:
        """Stop it as a person does; returns how long that took."""
        begin = time.monotonic()
        docker("stop", "-t", str(seconds), self.name, seconds=seconds + 30)
        return time.monotonic() - begin


@contextmanager
def container(
    image: str, *command: str, options: Sequence[str] = (), ready: bool = True
) -> Iterator[Container]:
    """Start a container in the background; it is removed with its volumes at the end."""
    name = docker("run", "--detach", *options, image, *command)
    found = Container(name)
    try:
        if ready and not command:
            found.wait_healthy()
        yield found
    finally:
        run("docker", "rm", "--force", "--volumes", name, code=None)


def copy_checkout(target: Path) -> Path:
    """What git knows of this checkout, as files of their own."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT).stdout
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def build(folder: Path, name: str, base: str, way: str, **settings: str) -> str:
    """`scripts/image.sh build` in a checkout; returns what it prints."""
    done = run(
        str(folder / "scripts" / "image.sh"),
        "build",
        seconds=1200,
        env={
            **os.environ,
            "BASE_IMAGE": base,
            "ENV_FROM": way,
            "IMAGE_NAME": name,
            "ARGS": "--network host --progress plain",
            "TARGET": "runtime",
            **settings,
        },
    )
    return done.stdout
