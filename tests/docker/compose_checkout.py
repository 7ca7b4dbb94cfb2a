"""A checkout of its own for the tests of compose: own project, own ports."""

import os
import socket

import containers
from containers import run


def free_ports(count: int):
    """Ports that nobody has at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Checkout:
    """A copy of the checkout, with its own project name and ports."""

    def __init__(self, folder, image: str):
        self.folder = containers.copy_checkout(folder)
        ports = free_ports(3)
        make = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # of the make that runs these tests
        self.environ = {
            **{name: value for name, value in os.environ.items() if name not in make},
            "COMPOSE_PROJECT_NAME": f"wellfedtest{os.getpid()}",
            "IMAGE": image,
            "JUPYTER_PORT": str(ports[0]),
            "SSH_PORT": str(ports[1]),
            "TENSORBOARD_PORT": str(ports[2]),
            "ARGS": "",
        }
        self.port = ports[0]

    def image(self, word: str, **settings):
        script = str(self.folder / "scripts" / "image.sh")
        done = run(script, word, env={**self.environ, **settings}, seconds=180, code=None)
        return done.returncode, done.stdout + done.stderr

    def lab(self) -> str:
        """What `make lab` prints, where a container runs."""
        return run("make", "lab", cwd=self.folder, env=self.environ).stdout
