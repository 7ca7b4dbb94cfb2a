"""Whose files the container writes, and where it can't write at all."""

import os
from pathlib import Path

import containers
import pytest
from containers import docker, run

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to other users: needs root"),
]
WRITE = "mkdir -p runs/a && echo x >runs/a/file && id -u && id -g"


@pytest.fixture
def workspace(tmp_path):
    """A folder that others can reach; pytest's own are closed to them."""
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(0o755)
    path = tmp_path / "work"
    path.mkdir()
    return path


def owner(path: Path):
    found = path.stat()
    return found.st_uid, found.st_gid


@pytest.mark.parametrize(
    ("folder_owner", "options", "expected"),
    [
        ((1000, 1000), [], (1000, 1000)),
        ((1234, 2345), [], (1234, 2345)),
        ((1000, 1000), ["-e", "HOST_UID=1234", "-e", "HOST_GID=1234"], None),
        ((1234, 1234), ["-e", "HOST_UID=1234", "-e", "HOST_GID=2345"], (1234, 2345)),
        ((4242, 4242), ["--user", "4242:4242"], (4242, 4242)),
        ((4242, 0), ["--user", "4242"], (4242, 0)),
    ],
)
def test_files_belong_to_the_hosts_user(image, workspace, folder_owner, options, expected):
    os.chown(workspace, *folder_owner)
    if expected is None:  # HOST_UID wins over the folder's owner: then the folder must let it write
        workspace.chmod(0o777)
        expected = (1234, 1234)
    command = ["run", "--rm", "-v", f"{workspace}:/workspace", *options, image]
    text = docker(*command, "bash", "-c", WRITE)
    assert text.split() == [str(number) for number in expected]
    for path in (workspace / "runs", workspace / "runs/a", workspace / "runs/a/file"):
        assert owner(path) == expected
    assert owner(workspace) == folder_owner


def test_a_folder_of_root_stays_roots_and_the_log_says_what_to_do(image, workspace):
    done = run(
        "docker", "run", "--rm", "-v", f"{workspace}:/workspace", image, "id", "-u"
    )  # fmt: skip
    assert done.stdout.strip() == "1000"
    assert "belongs to root" in done.stderr
    assert "chown" in done.stderr
    assert owner(workspace) == (0, 0)
    assert list(workspace.iterdir()) == []


def test_root_is_not_to_be_had(image, workspace):
    command = ["docker", "run", "--rm", "-e", "RUN_AS_ROOT=1", "-v", f"{workspace}:/workspace"]
    done = run(*command, image, "id", "-u", code=2)
    assert "rootless Docker alone" in done.stderr


@pytest.mark.parametrize("options", [[], ["--user", "4242"], ["-e", "HOST_UID=1234"]])
def test_nothing_outside_workspace_and_home_can_be_written(image, options):
    found = docker(
        "run", "--rm", *options, image, "find", "/", "-xdev",
        "(", "-path", "/proc", "-o", "-path", "/sys", "-o", "-path", "/dev",
        "-o", "-path", "/workspace", "-o", "-path", "/home/user", ")", "-prune",
        "-o", "(", "-type", "f", "-o", "-type", "d", ")", "-writable", "-print", code=None,
    )  # fmt: skip
    free = ("/tmp", "/var/tmp", "/run/lock", "/var/lock")
    left = [line for line in found.splitlines() if not line.startswith(free)]
    assert left == []


@pytest.mark.parametrize(
    "options",
    [
        ["--user", "4242"],
        ["--read-only", "--tmpfs", "/tmp", "--tmpfs", "/home/user"],
        ["--read-only", "--tmpfs", "/tmp", "--network", "none"],
        ["--cap-drop", "ALL", "--user", "1000:1000", "--security-opt", "no-new-privileges"],
    ],
)
def test_the_services_start_in_narrow_places(image, options, key):
    public = key.with_suffix(".pub").read_text()
    with containers.container(
        image, options=[*options, "-e", f"SSH_AUTHORIZED_KEYS={public}"]
    ) as box:
        # in a home that can be written, caches have a place
        text = box.exec("sh", "-c", "pgrep -a sshd; cat /proc/1/status")
        assert "sshd" in text
        assert "\nUid:\t0" not in text


@pytest.mark.parametrize("options", [[], ["--user", "4242"], ["-e", "HOST_UID=1234"]])
def test_numba_and_matplotlib_have_a_place_for_their_caches(image, options):
    script = (
        "import os, matplotlib, numba\n"
        "@numba.njit(cache=True)\ndef f(): return 1\n"
        "print(matplotlib.get_cachedir(), os.environ['NUMBA_CACHE_DIR'])"
    )
    command = [*options, image, "bash", "-c", 'echo "$1" >/tmp/m.py; python /tmp/m.py', "-", script]
    done = run("docker", "run", "--rm", *command)
    for path in done.stdout.split():
        assert "/.state/" in path
    assert "cache" not in done.stderr  # matplotlib says when it has to make a temporary one


def test_git_works_in_a_checkout_of_another_owner(image, workspace):
    run("git", "init", "-q", str(workspace))
    os.chown(workspace, 1234, 1234)
    docker("run", "--rm", "--user", "4242", "-v", f"{workspace}:/workspace", image, "git", "status")
