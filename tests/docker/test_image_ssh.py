"""SSH, with a real client: who gets in, who doesn't, and what a session can do."""

import os
import subprocess

import containers
import pytest
from containers import docker, run, wait_for
from lab import Lab

pytestmark = pytest.mark.docker
PORTS = ["-p", "127.0.0.1::8888", "-p", "127.0.0.1::2222"]


def client(box, key, *options: str, user: str = "user"):
    """The ssh command up to the host's name."""
    common = ["-i", str(key), "-p", str(box.port(2222)), "-o", "StrictHostKeyChecking=no"]
    common += ["-o", "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes"]
    common += ["-o", "LogLevel=ERROR", "-o", "ConnectTimeout=10", *options]
    return ["ssh", *common, f"{user}@127.0.0.1"]


def host_key(box) -> str:
    done = run("ssh-keyscan", "-p", str(box.port(2222)), "-t", "ed25519", "127.0.0.1")
    return done.stdout.split()[-1]


@pytest.fixture(scope="module")
def public(key):
    return key.with_suffix(".pub").read_text().strip()


@pytest.fixture(scope="module")
def box(image, public):
    with containers.container(
        image, options=["-e", f"SSH_AUTHORIZED_KEYS={public}", *PORTS]
    ) as found:
        yield found


def test_a_key_logs_in(box, key):
    assert run(*client(box, key, "-o", "BatchMode=yes"), "id -un").stdout.strip() == "user"


def test_another_key_does_not(box, tmp_path):
    other = tmp_path / "other"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other))
    done = run(*client(box, other, "-o", "BatchMode=yes"), "true", code=255)
    assert "Permission denied (publickey)" in done.stderr


def test_root_does_not(box, key):
    run(*client(box, key, "-o", "BatchMode=yes", user="root"), "true", code=255)


def test_a_password_is_not_even_asked_for(box, key):
    options = ["-o", "PreferredAuthentications=password,keyboard-interactive", "-o", "BatchMode=no"]
    asked = {**os.environ, "SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force"}
    done = run(*client(box, "/nonexistent", *options), "true", code=255, env=asked)
    assert "Permission denied (publickey)" in done.stderr


def test_no_key_no_server(image):
    with containers.container(image, options=PORTS) as box:
        assert run("docker", "exec", box.name, "pgrep", "sshd", code=1).stdout == ""
        listening = box.exec("cat", "/proc/net/tcp", "/proc/net/tcp6")
        assert f":{2222:04X} " not in listening


def test_host_keys_are_the_containers_own_and_stay(image, public, box):
    with containers.container(
        image, options=["-e", f"SSH_AUTHORIZED_KEYS={public}", *PORTS]
    ) as other:
        before = host_key(other)
        assert before != host_key(box)
        docker("restart", "-t", "20", other.name)
        other.wait_healthy()
        assert host_key(other) == before
        assert "SHA256:" in other.logs()


def test_host_keys_outlive_the_container_in_a_volume(image, public):
    volume = docker("volume", "create")
    try:
        options = [
            "-e",
            f"SSH_AUTHORIZED_KEYS={public}",
            "-v",
            f"{volume}:/home/user/.state",
            *PORTS,
        ]
        seen = set()
        for _ in range(2):
            with containers.container(image, options=options) as box:
                seen.add((host_key(box), box.token()))
        assert len(seen) == 1
    finally:
        docker("volume", "rm", volume)


def test_a_removed_key_no_longer_logs_in(image, key, public, tmp_path):
    other = tmp_path / "other"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other))
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o755)
    listed = folder / "authorized_keys"
    listed.write_text(public + "\n" + other.with_suffix(".pub").read_text())
    listed.chmod(0o664)
    if os.geteuid() == 0:
        os.chown(listed, 1001, 1001)
    options = ["-v", f"{folder}:/etc/wellfed:ro", *PORTS]
    with containers.container(image, options=options) as box:
        for each in (key, other):
            run(*client(box, each, "-o", "BatchMode=yes"), "true")
        listed.write_text(public + "\n")
        docker("restart", "-t", "20", box.name)
        box.wait_healthy()
        run(*client(box, key, "-o", "BatchMode=yes"), "true")
        run(*client(box, other, "-o", "BatchMode=yes"), "true", code=255)


def test_a_port_of_the_container_can_be_brought_here(box, key):
    free = containers.free_port()
    command = client(box, key, "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes", "-N")
    command[-1:-1] = ["-L", f"127.0.0.1:{free}:127.0.0.1:8888"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            lab = Lab(free, box.token())

            def answers():
                try:
                    return lab.ask("/api/status")[0] == 200
                except OSError:
                    return False

            wait_for(answers, "Jupyter through ssh", 20)
        finally:
            process.terminate()


def test_a_port_of_here_is_not_brought_there(box, key):
    command = client(box, key, "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes")
    command[-1:-1] = ["-R", "19999:127.0.0.1:22"]
    run(*command, "true", code=255)


def test_with_user_4242(image, key, public):
    options = ["--user", "4242", "-e", f"SSH_AUTHORIZED_KEYS={public}", *PORTS]
    with containers.container(image, options=options) as box:
        text = run(
            *client(box, key, "-o", "BatchMode=yes"), "id -u; python -c 'import torch'"
        ).stdout
        assert text.split() == ["4242"]
