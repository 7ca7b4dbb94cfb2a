"""A container with SSH, and a client for it."""

import subprocess

from runtime_box import free_port


def make_key(folder, name="key"):
    key = folder / name
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@test", "-f", str(key)],
        check=True,
    )
    return key


class Server:
    """A container with SSH, and the way in."""

    def __init__(self, box, folder, **settings):
        self.box, self.folder, self.port = box, folder, free_port()
        self.key = make_key(folder) if not (folder / "key").exists() else folder / "key"
        self.container = None
        self.settings = {"SERVICES": "ssh", "BIND": "127.0.0.1", "SSH_PORT": self.port, **settings}

    def start(self, user=None, **settings):
        public = self.key.with_suffix(".pub").read_text()
        settings = {"SSH_AUTHORIZED_KEYS": public, **self.settings, **settings}
        self.container = self.box.start(user=user, **settings)
        self.container.says("Server listening")
        return self

    def options(self, key=None, **more):
        options = {
            "IdentityFile": key or self.key,
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": self.folder / "known",
            "LogLevel": "ERROR",
            "ConnectTimeout": 10,
            **more,
        }
        return ["-F", "none", *(word for k, v in options.items() for word in ("-o", f"{k}={v}"))]

    def ssh(self, *words, tty=False, code=0, login="user", text="", options=()):
        flags = ["-tt"] if tty else ["-T"]
        flags += options or self.options()
        done = subprocess.run(
            ["ssh", *flags, "-p", str(self.port), f"{login}@127.0.0.1"]
            + list(words),
            input=text, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert done.returncode == code, (done.stdout, done.stderr, self.container.log)
        return done.stdout if code == 0 else done.stderr

    def stop(self):
        self.container.signal()
        assert self.container.wait() == 0, self.container.log
