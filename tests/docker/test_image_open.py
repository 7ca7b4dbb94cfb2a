"""What is open: ports, users, tokens; and what a container says of its machine."""

import re

import containers
import pytest
from containers import docker, free_port, run, wait_for
from lab import Lab

pytestmark = pytest.mark.docker
LISTEN = "0A"


def listening(text: str):
    """Address and port of every listener in /proc/net/tcp and tcp6."""
    found = set()
    for line in text.splitlines():
        part = line.split()
        if len(part) > 3 and part[3] == LISTEN:
            address, port = part[1].split(":")
            found.add((address, int(port, 16)))
    return found


@pytest.mark.parametrize(
    ("services", "with_key", "ports"),
    [
        ("", False, {8888}),
        ("jupyter", True, {8888, 2222}),
        ("tensorboard", False, {6006}),
        ("jupyter,tensorboard", True, {8888, 2222, 6006}),
    ],
)
def test_nothing_listens_beyond_what_was_asked(image, key, services, with_key, ports):
    options = ["-e", f"SERVICES={services}"] if services else []
    if with_key:
        options += ["-e", f"SSH_AUTHORIZED_KEYS={key.with_suffix('.pub').read_text()}"]
    with containers.container(image, options=options) as box:
        text = box.exec("cat", "/proc/net/tcp", "/proc/net/tcp6")
        assert {port for _, port in listening(text)} == ports
        users = docker("top", box.name, "-eo", "pid,uid,args").splitlines()[1:]
        assert users
        assert {line.split()[1] for line in users} == {"1000"}


def test_a_command_alone_opens_nothing(image):
    text = docker("run", "--rm", image, "cat", "/proc/net/tcp", "/proc/net/tcp6")
    assert listening(text) == set()


@pytest.mark.parametrize(("bind", "address"), [("", "0100007F"), ("0.0.0.0", "00000000")])
def test_on_the_hosts_network_only_this_machine_reaches_it(image, key, bind, address):
    port, ssh_port = free_port(), free_port()
    options = ["--network", "host", "-e", f"JUPYTER_PORT={port}", "-e", f"SSH_PORT={ssh_port}"]
    options += ["-e", f"SSH_AUTHORIZED_KEYS={key.with_suffix('.pub').read_text()}"]
    options += ["-e", f"BIND={bind}"] if bind else []
    with containers.container(image, options=options) as box:
        seen = listening(box.exec("cat", "/proc/net/tcp", "/proc/net/tcp6"))
        assert {pair for pair in seen if pair[1] in (port, ssh_port)} == {
            (address, port),
            (address, ssh_port),
        }


def test_jupyter_wants_its_token(image):
    with containers.container(image, options=["-p", "127.0.0.1::8888"]) as box:
        port = box.port(8888)
        assert Lab(port, box.token()).ask("/api/contents")[0] == 200
        for token in (None, "wrong", ""):
            assert Lab(port, token).ask("/api/contents")[0] == 403
        assert Lab(port, None).ask("/api/kernels", "POST", {"name": "python3"})[0] == 403
        # not in the words of a process, which everybody in the container can read
        assert box.token() not in box.exec("ps", "axww", "-o", "args")
        specs = Lab(port, box.token()).get("/api/kernelspecs")
        assert list(specs["kernelspecs"]) == ["python3"]
        path = box.exec("sh", "-c", "ls -l /home/user/.state/jupyter_token")
        assert path.startswith("-rw------- 1 user user")


def test_a_token_of_ones_own(image, tmp_path):
    file = tmp_path / "token"
    file.write_text("correct-horse-battery\n")
    options = ["-v", f"{file}:/run/secrets/jupyter_token:ro", "-p", "127.0.0.1::8888"]
    with containers.container(image, options=options) as box:
        assert Lab(box.port(8888), "correct-horse-battery").ask("/api/contents")[0] == 200
        assert "correct-horse-battery" not in box.logs()


def test_an_empty_token_is_refused(image):
    done = run("docker", "run", "--rm", "-e", "JUPYTER_TOKEN=", image, code=2)
    assert "JUPYTER_TOKEN is empty" in done.stderr


def test_the_address_has_the_hosts_port(image):
    with containers.container(image, options=["-e", "JUPYTER_PORT_HOST=9999"]) as box:
        assert "http://127.0.0.1:9999/lab?token=" in box.logs()


def test_it_says_that_it_runs_on_the_cpu_and_that_shm_is_small(image):
    with containers.container(image) as box:
        assert "this runs on the CPU" in box.logs()
        assert "/dev/shm has 64 MiB free" in box.logs()
    with containers.container(image, options=["--shm-size", "2g"]) as box:
        assert "/dev/shm" not in box.logs()


def test_a_loader_fits_itself_to_64_mb_of_shm(image):
    """Four workers asked for, 64 MB of shared memory, more in batches: it works, and says how."""
    script = (
        "python /opt/wellfed/scripts/sample_data.py --train 200 --val 40 --out /tmp/data && "
        "train fit --data.path /tmp/data --data.workers 4 --data.image_size 224 "
        "--data.batch_size 64 --run.max_steps 2 --optim.epochs 2 --model.name shufflenet_v2_x0_5"
    )
    done = run("docker", "run", "--rm", image, "bash", "-c", script, seconds=300)
    said = (
        r"(?m)^data\.workers +4 +as asked for; .* outside /dev/shm.* \(64\.0 MiB of /dev/shm free\)"
    )
    assert re.search(said, done.stdout), done.stdout
    assert "stopped at run.max_steps=2" in done.stdout
    assert "bus error" not in (done.stdout + done.stderr).lower()


def test_verify_env_recomputes_every_package(image):
    text = docker("run", "--rm", "-w", "/opt/wellfed", image, "make", "verify-env")
    assert re.search(r"\d{3} packages, \d{5} files: all as locked, by wheels", text)


def test_verify_env_names_what_is_not_as_locked(image):
    """A changed, a missing and a stray file, and a package of another version."""
    site = "$(echo /opt/env/lib/python3*/site-packages)"
    script = (
        f"cd {site} && echo '# x' >>six.py && rm idna/core.py && echo >sitecustomize.py && "
        "mv packaging-*.dist-info packaging-1.0.dist-info && "
        "sed -i 's/^Version: .*/Version: 1.0/' packaging-1.0.dist-info/METADATA; "
        "/opt/env/bin/python /opt/wellfed/scripts/verify_env.py"
    )
    done = run("docker", "run", "--rm", "--entrypoint", "bash", image, "-c", script, code=2)
    for fault in (
        r"^changed: \S+/six\.py of six ",
        r"^missing: \S+/idna/core\.py of idna ",
        r"^extra: \S+/sitecustomize\.py belongs to no package",
        r"^changed: packaging is 1\.0, requirements\.lock says ",
    ):
        assert re.search(fault, done.stdout, re.MULTILINE), done.stdout


def test_tensorboard_answers(image, tmp_path):
    options = ["-e", "SERVICES=tensorboard", "-p", "127.0.0.1::6006"]
    with containers.container(image, options=options) as box:
        status, text = wait_for(lambda: Lab(box.port(6006), None).ask("/"), "TensorBoard")
        assert status == 200
        assert "TensorBoard" in text


def test_mistakes_end_the_container_with_one_message(image):
    for options, message in (
        (["-e", "SERVICES=jupiter"], "SERVICES names 'jupiter'"),
        (["-e", "HOST_UID=me"], "HOST_UID must be"),
        (["-e", "SSH_AUTHORIZED_KEYS=hello"], "no key that was given can be used"),
    ):
        done = run("docker", "run", "--rm", *options, image, code=2)
        assert message in done.stderr
        assert "Traceback" not in done.stderr
