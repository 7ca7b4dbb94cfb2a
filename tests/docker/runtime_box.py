"""Runs the container's scripts without Docker: as root in namespaces of their own."""

import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import processes
import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"PATH": f"/opt/env/bin:{os.environ['PATH']}", "LANG": "C.UTF-8"}
IS_ROOT = os.geteuid() == 0


@functools.cache
def can_unshare():
    """Whether this machine lets us make process and mount namespaces."""
    if not IS_ROOT or not shutil.which("unshare") or not shutil.which("nsenter"):
        return False
    words = ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "true"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(
    not can_unshare(), reason="NOT TESTED: needs root, and leave to make namespaces"
)

# A terminal device that users may open, and the box's own list of users, as a container has them.
SETUP = """
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts /dev/pts
mount --bind /dev/pts/ptmx /dev/ptmx
mount --bind "$BOX/etc/passwd" /etc/passwd
mount --bind "$BOX/etc/group" /etc/group
mount --bind "$BOX/etc/profile.d" /etc/profile.d
unset BOX
exec "$@"
"""


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Box:
    """A folder that stands for the file system of a container.

    Attributes:
        folder: holds workspace, home, etc, secrets, network and a copy of the scripts.
        started: what runs in it.
    """

    def __init__(self, prefix="/opt/env"):
        # not pytest's own folder: only its owner may look into that one
        self.folder = Path(tempfile.mkdtemp(prefix="box-", dir="/tmp"))
        self.folder.chmod(0o755)
        for name in ("workspace", "home", "etc/profile.d", "etc/wellfed", "secrets", "network"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "tmp").mkdir()
        (self.folder / "tmp").chmod(0o1777)
        self.scripts = self.folder / "docker"
        shutil.copytree(ROOT / "docker", self.scripts)
        self.prefix = prefix
        self.run = self.folder / "tmp" / "run"
        self.started = []
        self._users()
        profile = (self.scripts / "profile.sh").read_text()
        (self.folder / "etc/profile.d/wellfed.sh").write_text(f"WELLFED_RUN={self.run}\n{profile}")

    def _users(self):
        """Write the machine's users, and `user` as the image has it."""
        ours = f"user:x:1000:1000::{self.folder}/home:/bin/bash\n"
        for name, line in (("passwd", ours), ("group", "user:x:1000:\n")):
            kept = [
                other
                for other in Path("/etc", name).read_text().splitlines(keepends=True)
                if other.split(":")[0] != "user" and other.split(":")[2] not in ("1000", "1234")
            ]
            (self.folder / "etc" / name).write_text("".join(kept) + line)

    def owned_by(self, uid, gid=None):
        """Give workspace and home to a user, as a mount has them."""
        os.chown(self.folder / "workspace", uid, uid if gid is None else gid)
        return self

    def environment(self, **more):
        """The variables that move the scripts into this folder, and those of `docker run -e`."""
        inside = {
            "WELLFED_PREFIX": self.prefix,
            "WELLFED_WORKSPACE": self.folder / "workspace",
            "WELLFED_HOME": self.folder / "home",
            "WELLFED_ETC": self.folder / "etc",
            "WELLFED_SECRETS": self.folder / "secrets",
            "WELLFED_NETWORK": self.folder / "network",
            "WELLFED_RUN": self.run,
        }
        return {**ENVIRONMENT, **{k: str(v) for k, v in {**inside, **more}.items()}}

    def start(self, *command, user=None, without=None, **environment):
        """Start a container, as `docker run` does; with namespaces where that can be.

        Args:
            command: words after the image's name.
            user: the number of `--user`.
            without: capabilities that are dropped, as setpriv names them.
            environment: what stands behind `-e`.
        """
        words = [str(self.scripts / "entrypoint.sh"), *command]
        if user is not None:
            who = ["--reuid", str(user), "--regid", str(user), "--clear-groups"]
            words = ["setpriv", *who, *words]
        if without is not None:
            words = ["setpriv", f"--bounding-set={without}", *words]
        environment = self.environment(**environment)
        if can_unshare():
            spaces = ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child"]
            words = [*spaces, "bash", "-euc", SETUP, "bash", *words]
            environment["BOX"] = str(self.folder)
        container = Container(self, words, environment)
        self.started.append(container)
        return container

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """End what still runs and remove the folder."""
        for container in self.started:
            container.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Container:
    """One start of the scripts."""

    def __init__(self, box, words, environment):
        self.box, self.entered = box, []
        self.log_file = box.folder / f"log-{len(box.started)}"
        with open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=box.folder / "workspace",
                start_new_session=True,
            )

    @property
    def log(self):
        """What it has said so far."""
        return self.log_file.read_text(errors="replace")

    def pid(self):
        """Its first process, seen from outside."""
        if can_unshare():
            found = processes.children(self.process.pid)
            return found[0] if found else self.process.pid
        return self.process.pid

    def exec(self, *words, user=None, **options):
        """Run a command in it, as `docker exec` does: not a child of anything in there."""
        enter = ["nsenter", "--target", str(self.pid()), "--pid", "--mount", "--"]
        if user is not None:
            enter += ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        options.setdefault("env", self.box.environment())
        options.setdefault("stdout", subprocess.DEVNULL)
        process = subprocess.Popen([*enter, *words], stdin=subprocess.DEVNULL, **options)
        self.entered.append(process)
        return process

    def says(self, text, seconds=30):
        """Wait until a text stands in the log."""
        assert processes.wait_until(
            lambda: text in self.log or self.process.poll() is not None, seconds
        )
        assert text in self.log, self.log

    def signal(self, signum=signal.SIGTERM):
        """What `docker stop` sends."""
        os.kill(self.pid(), signum)

    def wait(self, seconds=30):
        """Its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still runs after {seconds} s; it said:\n{self.log}")

    def kill(self):
        """End it at once, with all that is in it."""
        first = self.pid()
        if self.process.poll() is None and first != self.process.pid:
            os.kill(first, signal.SIGKILL)  # and the kernel ends all that is in its namespace
        for process in (self.process, *self.entered):
            if process.poll() is None:
                process.kill()
            process.wait(10)
