"""The image as it is built: its names, what is in it and what is not, how fast it goes again."""

import contextlib
import json
import os
import re
import shutil
import sys
import sysconfig
import time
from pathlib import Path

import containers
import pytest
from containers import docker, run

sys.path.insert(0, str(containers.ROOT / "tests" / "env"))
import conda_channel
import loopback

pytestmark = pytest.mark.docker
TORCH = '__version__ = "2.6.0+cu118"\n\n\nclass version:\n    cuda = "11.8"\n'


def inside(image: str, script: str) -> str:
    """What a shell in the image prints, as root and without our start-up."""
    return docker("run", "--rm", "--network", "none", "--entrypoint", "bash", image, "-c", script)


def test_it_says_how_to_run_it(built, image):
    name = re.search(r"docker run --gpus all -p 127\.0\.0\.1:8888:8888 (\S+)", built).group(1)
    assert re.fullmatch(r"wellfed-test:v2\.6-cu124-py3\d+", name)
    identity = docker("image", "inspect", "--format", "{{.Id}}", name)
    assert docker("image", "inspect", "--format", "{{.Id}}", image) == identity


def test_labels_are_true(image):
    labels = json.loads(docker("image", "inspect", "--format", "{{json .Config.Labels}}", image))
    made = json.loads(inside(image, "cat /opt/env/wellfed.json"))
    for key in ("way", "lock", "python", "torch", "cuda"):
        assert labels[f"wellfed.{key}"] == made[key]
    assert labels["org.opencontainers.image.version"] == "2.6.0"
    assert labels["org.opencontainers.image.revision"]
    assert made["way"] == "wheels"
    assert made["cuda"] == "12.4"


def test_sbom_lists_the_lock(image):
    sbom = json.loads(inside(image, "cat /opt/wellfed/sbom.json"))
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.5")
    installed = inside(image, "/opt/env/bin/python -m pip list --format json")
    normal = {
        re.sub(r"[-_.]+", "-", p["name"]).lower(): p["version"] for p in json.loads(installed)
    }
    normal.pop("wellfed", None)
    assert {part["name"]: part["version"] for part in sbom["components"]} == normal


def test_nothing_secret_and_nothing_left_over_is_in_it(image):
    found = inside(
        image,
        "find / -xdev \\( -path /proc -o -path /sys \\) -prune -o -type f \\( "
        "-name 'ssh_host_*key*' -o -name 'id_rsa*' -o -name 'id_ed25519*' -o -name '*_history' "
        "-o -name jupyter_token -o -name .netrc -o -name .git-credentials -o -name .pypirc "
        "-o -name '*.deb' -o -name '*.whl' -o -path '*/.cache/*' -o -path '/var/lib/apt/lists/*_*' "
        "-o -path '/opt/env/pkgs/*' -o -path '/run/secrets/*' -o -path '*/.git/*' \\) -print",
    )
    # ensurepip's wheels belong to Debian's python3-venv
    left = [line for line in found.splitlines() if not line.startswith("/usr/share/python-wheels/")]
    assert left == []
    history = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", image)
    assert not re.search(r"PIP_INDEX_URL|https?://[^/ ]*@|BEGIN [A-Z ]*PRIVATE", history)
    environment = docker("image", "inspect", "--format", "{{json .Config.Env}}", image)
    assert not re.search(r"TOKEN|SECRET|PASSWORD|DEBIAN_FRONTEND|LD_LIBRARY_PATH", environment)


def test_the_user_cannot_change_opt(image):
    writable = docker(
        "run",
        "--rm",
        image,
        "find",
        "/opt",
        "(",
        "-type",
        "f",
        "-o",
        "-type",
        "d",
        ")",
        "-writable",
    )
    assert writable == ""


def test_again_after_a_change_of_the_code_takes_seconds(base_image, built, tmp_path):
    folder = containers.copy_checkout(tmp_path / "checkout")
    with open(folder / "train" / "errors.py", "a", encoding="utf-8") as file:
        file.write(f"# changed {time.time()}\n")
    begin = time.monotonic()
    containers.build(folder, "wellfed-test-changed", base_image, "wheels")
    took = time.monotonic() - begin
    ids = docker("image", "ls", "-q", "wellfed-test-changed").split()
    docker("rmi", "-f", *set(ids))
    print(f"built again in {took:.1f} s")
    # what it may not do: install the packages again, which takes a minute at least
    assert took < 60


@contextlib.contextmanager
def portable_channel(folder: Path):
    """The small conda channel, with a Python that runs in a container.

    A Python that is built as a library looks for it where it was installed. conda's own means mends
    that: in the program the library's old folder is replaced by the prefix, so there it lies.
    """
    conda_channel.build(folder)
    files = loopback.python_files()
    old = sysconfig.get_config_var("LIBDIR")
    library = Path(old, sysconfig.get_config_var("INSTSONAME"))
    if library.suffix != ".a" and library.is_file():
        files[library.name] = library
    prefixes = {}
    for path, content in files.items():
        if path.startswith("bin/") and old.encode() in content.read_bytes():
            prefixes[path] = (old, "binary")
        elif "_sysconfigdata" in path:
            prefixes[path] = (sys.base_prefix, "text")
    version = "{}.{}.{}".format(*sys.version_info[:3])
    loopback.conda_package(folder, "python", version, "h1_0", files, prefixes=prefixes)
    with loopback.serve(folder) as server:
        yield conda_channel.Channel(folder, server)


@pytest.fixture(scope="module")
def conda_image(base_image, tmp_path_factory):
    """The conda way, on a small channel and index of this machine, in a checkout of its own."""
    if not loopback.tools_python().exists():
        pytest.skip("no .tools: the conda image is NOT tested; run scripts/env.sh tools")
    folder = containers.copy_checkout(tmp_path_factory.mktemp("conda") / "checkout")
    index = tmp_path_factory.mktemp("index")
    digest = loopback.wheel(index / "files", "torch", "2.6.0+cu118", TORCH)
    loopback.simple_index(index)
    channel_folder = tmp_path_factory.mktemp("channel")
    with portable_channel(channel_folder) as channel, loopback.serve(index) as server:
        (folder / "conda-lock.yml").write_text(channel.lock)
        pin = f"--index-url {server.url}/simple\ntorch==2.6.0+cu118 --hash=sha256:{digest}\n"
        (folder / "locks" / "conda-pip.lock").write_text(pin)
        text = containers.build(folder, "wellfed-test-conda", base_image, "conda")
    yield text
    ids = docker("image", "ls", "-q", "wellfed-test-conda").split()
    docker("rmi", "-f", *set(ids))


def test_the_conda_way_builds_too(conda_image):
    python = ".".join(map(str, sys.version_info[:2])).replace(".", "")
    for tag in ("v2.6", f"v2.6-cu118-py{python}", "local"):
        assert f"wellfed-test-conda:{tag}" in conda_image
    seen = docker(
        "run", "--rm", "wellfed-test-conda:v2.6", "python", "-c",
        "import sys, torch; print(sys.prefix, torch.__version__, torch.version.cuda)",
    )  # fmt: skip
    assert seen.split() == ["/opt/env", "2.6.0+cu118", "11.8"]
    verify = ["python", "/opt/wellfed/scripts/verify_env.py"]
    assert "all as locked, by conda" in docker("run", "--rm", "wellfed-test-conda:v2.6", *verify)
    # the system has no Python of its own there
    assert not inside("wellfed-test-conda:v2.6", "command -v /usr/bin/python3 || true")


def test_a_build_without_cuda_is_refused(base_image, tmp_path):
    """The last step looks at torch itself: a CPU build never becomes an image."""
    folder = containers.copy_checkout(tmp_path / "checkout")
    index, channel_folder = tmp_path / "index", tmp_path / "channel"
    digest = loopback.wheel(
        index / "files",
        "torch",
        "2.6.0",
        '__version__ = "2.6.0"\n\n\nclass version:\n    cuda = None\n',
    )
    loopback.simple_index(index)
    with portable_channel(channel_folder) as channel, loopback.serve(index) as server:
        (folder / "conda-lock.yml").write_text(channel.lock)
        pin = f"--index-url {server.url}/simple\ntorch==2.6.0 --hash=sha256:{digest}\n"
        (folder / "locks" / "conda-pip.lock").write_text(pin)
        done = run(
            str(folder / "scripts" / "image.sh"), "build", code=2, seconds=600,
            env={
                **os.environ, "BASE_IMAGE": base_image, "ENV_FROM": "conda",
                "IMAGE_NAME": "wellfed-test-cpu", "ARGS": "--network host --progress plain",
                "TARGET": "runtime",
            },
        )  # fmt: skip
    assert "is a build without CUDA" in done.stdout + done.stderr
    assert not docker("image", "ls", "-q", "wellfed-test-cpu")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"ENV_FROM": "poetry"},
            "ENV_FROM=poetry is not known; expected conda, channels or wheels",
        ),
        ({"TARGET": "prod"}, "TARGET=prod is not known; expected runtime or dev"),
        ({"DOCKER": "/nonexistent/docker"}, "DOCKER=/nonexistent/docker is no program"),
        ({"DOCKER_HOST": "unix:///nonexistent"}, "Docker's daemon does not answer; start it"),
    ],
)
def test_mistakes_are_named(daemon, settings, message):
    script = containers.ROOT / "scripts" / "image.sh"
    done = run(str(script), "build", code=2, env={**os.environ, **settings})
    assert message in done.stderr
    assert done.stderr.count("error:") == 1


def test_no_docker_is_named(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("bash", "dirname", "env"):
        (folder / program).symlink_to(shutil.which(program))
    script = containers.ROOT / "scripts" / "image.sh"
    done = run(str(script), "build", code=2, env={"PATH": str(folder)})
    assert "docker is not installed" in done.stderr
