"""Every way into the container gives the same Python, the same torch and the same variables."""

import subprocess

import containers
import pytest
from containers import PRINT_PROBE, PROBE, docker, read_probe, run
from lab import Lab

pytestmark = pytest.mark.docker
COMMAND = ["python", "-c", PRINT_PROBE]
LINE = f"python -c '{PRINT_PROBE}'"


@pytest.fixture(scope="module")
def box(image, key):
    public = key.with_suffix(".pub").read_text()
    options = [
        "-e",
        f"PROBE={PROBE}",
        "-e",
        f"SSH_AUTHORIZED_KEYS={public}",
        "-e",
        "API_TOKEN=s3cret",
    ]
    options += ["-p", "127.0.0.1::8888", "-p", "127.0.0.1::2222"]
    with containers.container(image, options=options) as found:
        yield found


@pytest.fixture(scope="module")
def ssh(box, key):
    options = ["-i", str(key), "-p", str(box.port(2222)), "-o", "StrictHostKeyChecking=no"]
    options += ["-o", f"UserKnownHostsFile={key.parent}/known", "-o", "BatchMode=yes"]
    return ["ssh", *options, "-o", "LogLevel=ERROR", "user@127.0.0.1"]


@pytest.fixture(scope="module")
def expected(box):
    made = box.exec("cat", "/opt/env/wellfed.json")
    return ["/opt/env", made.split('"torch": "')[1].split('"')[0], PROBE]


def test_docker_run(image, expected):
    text = docker("run", "--rm", "-e", f"PROBE={PROBE}", image, *COMMAND)
    assert read_probe(text) == expected


def test_docker_run_gives_the_exit_code(image):
    assert run("docker", "run", "--rm", image, "sh", "-c", "exit 41", code=None).returncode == 41


@pytest.mark.parametrize("user", ["", "user"])
def test_docker_exec(box, expected, user):
    assert read_probe(box.exec(*COMMAND, user=user)) == expected


@pytest.mark.parametrize("shell", ["-c", "-lc", "-ic", "-lic"])
def test_docker_exec_bash(box, expected, shell):
    assert read_probe(box.exec("bash", shell, LINE, user="user")) == expected


def test_what_an_editor_asks_for(box, expected):
    """VS Code runs `bash -lic env` and takes what it prints."""
    text = box.exec("bash", "-lic", "env -0 | tr '\\0' '\\n'", user="user")
    assert f"PROBE={PROBE}" in text.splitlines()
    path = next(line for line in text.splitlines() if line.startswith("PATH="))
    assert path.startswith("PATH=/opt/env/bin:")


def test_ssh_command(ssh, expected):
    assert read_probe(run(*ssh, LINE).stdout) == expected


def test_ssh_command_of_an_editor(ssh):
    text = run(*ssh, "bash -lic env").stdout
    assert f"PROBE={PROBE}" in text.splitlines()


def test_ssh_login(ssh, expected):
    login = [*ssh[:1], "-tt", *ssh[1:]]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(login, text=True, **options) as process:
        text, _ = process.communicate(f"stty -echo; cd /tmp; {LINE}; exit\n", timeout=60)
    assert process.returncode == 0, text
    assert read_probe(text) == expected


def test_sftp(box, key, tmp_path):
    (tmp_path / "there.txt").write_text("to and fro")
    batch = tmp_path / "batch"
    batch.write_text(
        f"put {tmp_path}/there.txt /workspace/sent.txt\n"
        f"get /workspace/sent.txt {tmp_path}/back.txt\n"
    )
    options = ["-i", str(key), "-P", str(box.port(2222)), "-o", "StrictHostKeyChecking=no"]
    options += ["-o", f"UserKnownHostsFile={key.parent}/known", "-o", "BatchMode=yes"]
    run("sftp", "-q", *options, "-b", str(batch), "user@127.0.0.1")
    assert (tmp_path / "back.txt").read_text() == "to and fro"
    assert box.exec("stat", "-c", "%U", "/workspace/sent.txt") == "user"


def test_jupyter_kernel(box, expected):
    lab = Lab(box.port(8888), box.token())
    assert read_probe(lab.run_in_kernel(PRINT_PROBE)) == expected


def test_jupyter_terminal(box, expected):
    terminal = Lab(box.port(8888), box.token()).open_terminal()
    try:
        terminal.type("cat >/tmp/probe.py <<'END'\r" + PRINT_PROBE.replace("; ", "\r") + "\rEND")
        terminal.type("python /tmp/probe.py >/tmp/probe.txt; echo do''ne")
        terminal.wait_for("done")
    finally:
        terminal.close()
    assert read_probe(box.exec("cat", "/tmp/probe.txt")) == expected


def test_make(box, expected):
    """`make` in a checkout uses the image's environment and installs nothing."""
    text = box.exec("make", "-C", "/opt/wellfed", "env", user="user")
    assert "/opt/env is ready: wheels" in text
    makefile = "include /opt/wellfed/Makefile\n\nprobe: env\n\t@$(PY) /tmp/make.py\n"
    box.exec("sh", "-c", 'printf "%s" "$1" >"$2"', "-", makefile, "/tmp/Makefile", user="user")
    box.exec("sh", "-c", 'printf "%s" "$1" >"$2"', "-", PRINT_PROBE, "/tmp/make.py", user="user")
    rule = "make -C /opt/wellfed -f /tmp/Makefile probe"
    assert read_probe(box.exec("bash", "-c", rule, user="user")) == expected


def test_a_mounted_checkout_uses_the_environment_too(image, tmp_path):
    folder = containers.copy_checkout(tmp_path / "checkout")
    tmp_path.chmod(0o755)
    text = docker("run", "--rm", "-v", f"{folder}:/workspace", image, "make", "env")
    assert "/opt/env is ready: wheels" in text


def test_the_services_process_has_it_too(box):
    pid = box.exec("pgrep", "-of", "jupyterlab")
    text = box.exec("cat", f"/proc/{pid}/environ", user="user").split("\0")
    assert f"PROBE={PROBE}" in text


def test_secrets_stay_out_of_ssh(ssh, box):
    text = run(*ssh, "env").stdout
    assert "s3cret" not in text
    assert box.token() not in text
    assert "AUTHORIZED_KEYS" not in text
    # while what docker itself starts has them, as Docker promises
    assert "API_TOKEN=s3cret" in box.exec("env", user="user")
