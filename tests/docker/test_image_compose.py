"""The compose files and the make targets on top of them."""

import os
import re
import shutil
import subprocess

import containers
import pytest
from containers import docker, run, wait_for
from lab import Lab

pytestmark = pytest.mark.docker


def test_up_url_down_up(checkout):
    code, text = checkout.image("up")
    assert code == 0, text
    assert "wrote .env" in text
    url = re.search(r"JupyterLab: http://127\.0\.0\.1:(\d+)/lab\?token=(\w+)", text)
    assert int(url.group(1)) == checkout.port
    lab = Lab(checkout.port, url.group(2))
    names = {entry["name"] for entry in lab.get("/api/contents")["content"]}
    assert {"train", "configs", "notebooks"} <= names  # the checkout is the workspace
    # the code is the checkout's: what is changed outside is what runs inside
    with open(checkout.folder / "train" / "errors.py", "a", encoding="utf-8") as file:
        file.write("CHANGED = 'outside'\n")
    assert "outside" in lab.run_in_kernel("import train.errors; print(train.errors.CHANGED)")
    shm = lab.run_in_kernel("import shutil; print(shutil.disk_usage('/dev/shm').total)")
    assert int(shm) == 8 * 1024**3
    files = lab.run_in_kernel("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))")
    assert "16384" in files
    assert checkout.lab().splitlines()[-1] == url.group(0)

    code, text = checkout.image("down")
    assert code == 0, text
    assert checkout.image("shell") == (
        2,
        "error: the container is not running; start it with make up\n",
    )
    code, text = checkout.image("up")
    assert code == 0, text
    assert "wrote .env" not in text
    assert url.group(2) in text  # volumes stay


def test_ports_are_this_machines_alone(checkout):
    assert checkout.image("up")[0] == 0
    name = docker("ps", "-q", "--filter", f"publish={checkout.port}")
    ports = docker("port", name).splitlines()
    assert len(ports) == 3
    for line in ports:
        assert " -> 127.0.0.1:" in line


def test_ssh_with_a_key_file_and_a_token_file(checkout, key, tmp_path):
    (tmp_path / "token").write_text("of-my-own-choice\n")
    given = {
        "AUTHORIZED_KEYS": str(key.with_suffix(".pub")),
        "JUPYTER_TOKEN_FILE": str(tmp_path / "token"),
    }
    code, text = checkout.image("up", **given)
    assert code == 0, text
    assert Lab(checkout.port, "of-my-own-choice").ask("/api/contents")[0] == 200
    options = (
        f"-i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes"
    )
    command = [str(checkout.folder / "scripts" / "image.sh"), "ssh"]
    done = run(*command, env={**checkout.environ, **given, "ARGS": options}, code=0)
    assert done.returncode == 0


def test_without_a_key_ssh_says_what_to_do(checkout):
    assert checkout.image("up")[0] == 0
    code, text = checkout.image("ssh")
    assert code == 2
    assert "set AUTHORIZED_KEYS=" in text


def test_a_missing_image_is_named(checkout):
    code, text = checkout.image("up", IMAGE="nosuch:image")
    assert code == 2
    assert "there is no image nosuch:image; build it with make image" in text


def test_dotenv_is_written_once(checkout):
    assert checkout.image("env")[0] == 0
    text = (checkout.folder / ".env").read_text()
    assert f"HOST_UID={os.getuid()}\n" in text
    assert f"HOST_GID={os.getgid()}\n" in text
    (checkout.folder / ".env").write_text("HOST_UID=7\n")
    assert checkout.image("env") == (0, "")
    assert (checkout.folder / ".env").read_text() == "HOST_UID=7\n"


def test_the_gpu_file_asks_for_gpus(has_compose):
    command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    files = ["-f", "docker-compose.yml"]
    plain = run(*command, *files, "config", cwd=containers.ROOT).stdout
    assert "nvidia" not in plain
    both = run(*command, *files, "-f", "compose.gpu.yml", "config", cwd=containers.ROOT).stdout
    assert re.search(r"driver: nvidia", both)
    assert re.search(r"- gpu", both)


@pytest.mark.parametrize(
    ("smi", "toolkit", "gpu", "with_gpu"),
    [
        ("echo 'GPU 0: X'", True, "", True),
        ("echo 'GPU 0: X'", False, "", False),
        ("exit 9", True, "", False),
        ("exit 9", False, "1", True),
        ("echo 'GPU 0: X'", True, "0", False),
    ],
)
def test_up_picks_the_gpu_where_there_is_one(daemon, tmp_path, smi, toolkit, gpu, with_gpu):
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {"nvidia-smi": smi}
    if toolkit:
        programs["nvidia-ctk"] = "exit 0"
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    script = f". {containers.ROOT}/scripts/image/docker.sh; find_docker; "
    script += "if wants_gpu; then echo yes; else echo no; fi"
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "GPU": gpu}
    done = subprocess.run(
        ["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ("yes" if with_gpu else "no")
    if not toolkit and not gpu:
        assert "install NVIDIA's Container Toolkit" in done.stderr


def test_stop_grace_is_longer_than_ours(checkout):
    """compose kills after its grace; the container's own must be over by then."""
    assert checkout.image("up")[0] == 0
    name = docker("ps", "-q", "--filter", f"publish={checkout.port}")
    box = containers.Container(name)
    assert int(box.state(".Config.StopTimeout")) == 60
    wait_for(lambda: box.state(".State.Running") == "true", "it runs")
