"""Docker for the tests marked `docker`: the daemon that answers, or one of their own.

The latter as root with CI=true, where none answers. They run when asked for: make image-test.
The tests without the mark need no Docker.
"""

import os
import shutil
import tempfile
from pathlib import Path

import compose_checkout
import containers
import pytest

ROOT = containers.ROOT
DAEMON = ROOT / "scripts" / "image" / "daemon.sh"
STANDIN = "wellfed-standin"
NAME = "wellfed-test"
NEED_GB = 30
"""Two images of 6.5 GB, what was built for them, the packages they were built from, and the room
that the conda way asks for before it starts."""


def pytest_collection_modifyitems(config, items):
    """Building an image takes minutes: nobody gets that from a bare pytest."""
    if "docker" in (config.option.markexpr or ""):
        return
    for item in items:
        if item.get_closest_marker("docker"):
            item.add_marker(pytest.mark.skip(reason="needs Docker and minutes: make image-test"))


def _answers() -> bool:
    if not shutil.which("docker"):
        return False
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    return containers.run(*command, code=None).returncode == 0


def _install(*packages: str) -> None:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    # the package would start a daemon of its own; policy-rc.d says no, where there is none yet
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        containers.run("apt-get", "update", "-q", env=quiet, seconds=300)
        command = ["apt-get", "install", "-yq", "--no-install-recommends"]
        containers.run(*command, *packages, env=quiet, seconds=600)
    finally:
        if ours:
            policy.unlink()


@pytest.fixture(scope="session")
def daemon():
    """A Docker daemon; yields how it came to be. Without one everything here is skipped, loudly."""
    if _answers():
        yield "found running"
        return
    if os.environ.get("CI") != "true" or os.geteuid() != 0:
        pytest.skip(
            "THE IMAGE IS NOT TESTED: no Docker daemon answers (root with CI=true starts one)"
        )
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free / 1e9
    if free < NEED_GB:  # no skip: who asked for this test would take green for tested
        text = f"error: {place} has {free:.0f} GB free, the image's tests want {NEED_GB} GB"
        pytest.exit(f"{text}; free some, or name another disk with TMPDIR=DIR", returncode=2)
    missing = [
        package
        for package, program in (
            ("docker.io", "dockerd"),
            ("iproute2", "ip"),
            ("iptables", "iptables"),
            ("docker-compose", "docker-compose"),
        )
        if not shutil.which(program)
    ]
    if missing:
        _install(*missing)
    folder = tempfile.mkdtemp(prefix="wellfed-docker-")
    before = os.environ.get("DOCKER_HOST")
    try:
        started = containers.run(str(DAEMON), "start", folder, seconds=180)
        os.environ["DOCKER_HOST"] = started.stdout.strip()
        yield f"started in {folder}"
    finally:
        if before is None:
            os.environ.pop("DOCKER_HOST", None)
        else:
            os.environ["DOCKER_HOST"] = before
        containers.run(str(DAEMON), "stop", folder, seconds=600)  # 15 GB on a busy disk


@pytest.fixture(scope="session")
def base_image(daemon):
    """What images are built on: BASE_IMAGE, else a Debian from this machine's own mirror."""
    given = os.environ.get("BASE_IMAGE")
    if given:
        return given
    suite = "bookworm"
    name = f"{STANDIN}:{suite}"
    if containers.run("docker", "image", "inspect", name, code=None).returncode:
        if not shutil.which("mmdebstrap"):
            if os.environ.get("CI") != "true" or os.geteuid() != 0:
                pytest.skip("THE IMAGE IS NOT TESTED: no BASE_IMAGE, and no mmdebstrap to make one")
            _install("mmdebstrap")
        containers.run(str(DAEMON), "base", suite, name, seconds=300)
    return name


@pytest.fixture(scope="session")
def built(base_image):
    """The image by wheels with the real lock; yields what `make image` printed."""
    return containers.build(ROOT, NAME, base_image, "wheels")


@pytest.fixture(scope="session")
def image(built):
    """The image's name."""
    return f"{NAME}:local"


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """A new SSH key: the path of its private half."""
    path = tmp_path_factory.mktemp("key") / "id_ed25519"
    containers.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
    return path


@pytest.fixture(scope="session")
def has_compose():
    if shutil.which("docker-compose"):
        return
    if containers.run("docker", "compose", "version", code=None).returncode:
        pytest.skip("COMPOSE IS NOT TESTED: neither docker compose nor docker-compose is here")


@pytest.fixture
def checkout(image, tmp_path, has_compose):
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(0o755)
    found = compose_checkout.Checkout(tmp_path / "checkout", image)
    if os.geteuid() == 0:
        containers.run("chown", "-R", "1000:1000", str(found.folder))
    yield found
    (found.folder / ".env").write_text("")  # a wrong one would stop this, too
    command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    containers.run(*command, "down", "--volumes", cwd=found.folder, env=found.environ, code=None)
