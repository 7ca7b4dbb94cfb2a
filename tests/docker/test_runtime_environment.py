"""The pieces of the container's scripts, each alone; most need no root."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading

import pytest
from runtime_box import ROOT, Box, needs_namespaces

SCRIPTS = sorted((ROOT / "docker").glob("*.sh"))
SHELLS = [name for name in ("bash", "dash") if shutil.which(name)]
VALUES = {
    "BLANKS": "  a  b ",
    "QUOTES": 'it\'s "so" `id` $(id)',
    "SIGNS": "$HOME # & * ! ~ \\ \\n \\\\ ;|<>{}[]",
    "LINES": "one\n\ttwo\n\n",
    "EMPTY": "",
    "UMLAUT": "Größe 模型",
    "TOKENIZERS_PARALLELISM": "false",
    "KEYBOARD": "de",
    "GOOGLE_APPLICATION_CREDENTIALS": "/workspace/key.json",
}
KEPT_BACK = [
    "HF_TOKEN", "MY_SECRET", "WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "db_password", "PASSWD",
    "JUPYTER_TOKEN", "SSH_AUTHORIZED_KEYS", "LD_PRELOAD", "BASH_ENV", "HOME", "PWD", "TERM",
]  # fmt: skip


def shell(code, *words, **environment):
    """Run bash code with the scripts' functions."""
    sources = "".join(f'. "{ROOT}/docker/{name}.sh"\n' for name in words)
    done = subprocess.run(
        ["bash", "-euc", f'. "{ROOT}/docker/paths.sh"\n{sources}{code}'],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **environment},
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    return done


@pytest.fixture
def env_file(tmp_path):
    given = {**VALUES, **dict.fromkeys(KEPT_BACK, "kept-back"), "bad.name": "x"}
    given["PROXY_URL"] = "http://me:kept-back@proxy:80/"
    given["LD_PRELOAD"] = ""
    done = shell(f'write_environment "{tmp_path}/env.sh"', "environment", **given)
    assert done.returncode == 0, done.stderr
    return tmp_path / "env.sh"


@pytest.mark.parametrize("name", SHELLS)
def test_any_value_survives(env_file, name):
    code = f'. "{env_file}"; exec env -0'
    done = subprocess.run([name, "-c", code], env={}, capture_output=True, check=True)
    told = dict(pair.split("=", 1) for pair in done.stdout.decode().split("\0") if pair)
    assert {key: told.get(key) for key in VALUES} == VALUES
    assert "kept-back" not in done.stdout.decode()
    assert not set(told) & set(KEPT_BACK) - {"PWD"}
    assert env_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", SHELLS)
def test_what_a_session_has_already_stays(env_file, name):
    path = "/opt/env/bin:/mine"
    code = f'. "{env_file}"; printf "%s|%s" "$KEYBOARD" "$PATH"'
    environment = {"KEYBOARD": "us", "PATH": path}
    shell_path = shutil.which(name)
    done = subprocess.run(
        [shell_path, "-c", code], env=environment, capture_output=True, check=True
    )
    assert done.stdout.decode() == f"us|{path}"


@pytest.mark.parametrize("name", SHELLS)
def test_the_profile_restores_the_path_and_reads_only_our_own_file(env_file, tmp_path, name):
    code = f'. "{ROOT}/docker/profile.sh"; printf "%s|%s" "$PATH" "${{KEYBOARD-}}"'
    shell_path = shutil.which(name)

    def login(folder):
        environment = {"PATH": "/usr/bin:/bin", "WELLFED_RUN": str(folder)}
        done = subprocess.run(
            [shell_path, "-c", code], env=environment, capture_output=True, check=True
        )
        assert done.stderr == b""
        return done.stdout.decode()

    assert login(tmp_path) == f"{path_in(env_file)}|de"
    assert login(tmp_path / "none") == "/opt/env/bin:/usr/bin:/bin|"
    if os.geteuid() == 0:
        os.chown(env_file, 1234, 1234)
        assert login(tmp_path) == "/opt/env/bin:/usr/bin:/bin|", "root reads no file of a user"


def path_in(file):
    """The PATH that a session without the environment gets; the profile puts ours before it."""
    path = re.search(r"PATH='([^']*)'", file.read_text())[1]
    return path if ":/opt/env/bin:" in f":{path}:" else f"/opt/env/bin:{path}"


@pytest.mark.parametrize(
    ("interfaces", "bind", "expected"),
    [
        (["lo", "eth0"], "", "0.0.0.0"),
        (["lo", "eth0/device"], "", "127.0.0.1"),
        (["lo", "wlan0", "docker0"], "", "127.0.0.1"),
        (["lo", "eth0/device"], "0.0.0.0", "0.0.0.0"),
        (["lo"], "::1", "::1"),
    ],
)
def test_on_the_host_s_network_services_stay_local(tmp_path, interfaces, bind, expected):
    for name in interfaces:
        (tmp_path / name).mkdir(parents=True)
    settings = {"WELLFED_NETWORK": str(tmp_path), "BIND": bind}
    assert shell("bind_address", "network", **settings).stdout == expected
    said = shell("ADDRESS=$(bind_address); say_bind", "network", **settings).stderr
    assert ("network" in said) == ("eth0/device" in interfaces or "docker0" in interfaces)
    assert ("everybody" in said) == (bind == "0.0.0.0")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", "8888"), ("9999", "9999"), ("tcp://10.0.0.1:8888", "8888"), ("080", "80")],
)
def test_ports(value, expected):
    assert shell("a_port SOME 8888", SOME=value).stdout == expected


@pytest.mark.parametrize("value", ["0", "65536", "eight", "-1", "8888 "])
def test_what_is_no_port(value):
    done = shell("a_port SOME 8888", SOME=value)
    assert done.returncode == 2
    assert done.stderr == f"error: SOME must be a port from 1 to 65535, got '{value}'\n"


def fake(folder, name, code):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{code}\n")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_small_shared_memory_is_said(tmp_path):
    for free, said in ((65536, "note: /dev/shm has 64 MiB free"), (1048576, "")):
        path = fake(tmp_path / "bin", "df", f"echo Avail; echo {free}")
        done = shell("say_shm", "banner", PATH=path)
        assert (said in done.stderr) if said else (done.stderr == "")
        assert ("--shm-size=8g" in done.stderr) == bool(said)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("echo NVIDIA A100; echo NVIDIA A100", "GPU: 2 x NVIDIA A100\n"),
        ("echo NVIDIA T4", "GPU: 1 x NVIDIA T4\n"),
        ("echo 'Failed to initialize NVML: Unknown Error'; exit 255", "(Failed to initialize NVML"),
    ],
)
def test_the_gpu_is_said(tmp_path, code, expected):
    path = fake(tmp_path / "bin", "nvidia-smi", code)
    assert expected in shell("say_gpu", "banner", PATH=path).stderr


def test_what_the_image_holds_is_said(tmp_path):
    told = {"way": "conda", "python": "3.9.23", "torch": "2.6.0+cu118", "cuda": "11.8"}
    (tmp_path / "wellfed.json").write_text(json.dumps({"format": 1, **told}))
    done = shell("USER=user; say_contents", "banner", WELLFED_PREFIX=str(tmp_path))
    assert (
        "Python 3.9.23, torch 2.6.0+cu118, CUDA 11.8, installed by conda; user user ("
        in done.stderr
    )


@needs_namespaces
def test_init_may_stand_before_the_scripts():
    with Box() as box:
        box.owned_by(1234)
        entry = box.scripts / "entrypoint.sh"
        entry.rename(box.scripts / "entry.sh")
        entry.write_text(f'#!/bin/bash\nexec tini -- "{box.scripts}/entry.sh" "$@"\n')
        entry.chmod(0o755)
        container = box.start("bash", "-c", "pgrep -c tini; id -u; exec sleep 600")
        container.says("\n1\n1234\n")
        container.signal()
        assert container.wait() == 143


def test_health_of_ssh_and_of_a_command(tmp_path):
    words = [sys.executable, "-I", str(ROOT / "docker" / "healthcheck.py"), str(tmp_path)]

    def health():
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)

    services = tmp_path / "services"
    services.write_text("")
    assert (health().returncode, health().stdout) == (0, "the command runs\n")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        services.write_text(f"ssh {server.getsockname()[1]} 1\n")
        for banner, code in ((b"SSH-2.0-x\r\n", 0), (b"HTTP/1.1 400", 1)):
            answering = threading.Thread(target=answer, args=(server, banner))
            answering.start()
            assert health().returncode == code
            answering.join(10)
    assert health().returncode == 1
    assert "ssh: " in health().stdout


def answer(server, words):
    server.settimeout(10)
    connection, _ = server.accept()
    with connection:
        connection.sendall(words)


def test_the_scripts_are_clean():
    if not shutil.which("shellcheck"):
        pytest.skip("NOT TESTED: shellcheck is not installed")
    for script in SCRIPTS:
        done = subprocess.run(["shellcheck", "-x", str(script)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_what_is_started_can_be_started():
    for name in ("entrypoint.sh", "start.sh", "ssh_session.sh", "healthcheck.sh"):
        assert os.access(ROOT / "docker" / name, os.X_OK), name
    for path in SCRIPTS:
        assert len(path.read_text().splitlines()) <= 250, path


def test_sshd_accepts_its_settings():
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    if not sshd:
        pytest.skip("NOT TESTED: needs openssh-server")
    with Box() as box:
        key = box.folder / "key"
        subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", str(key)], check=True)
        words = [sshd, "-T", "-f", str(box.scripts / "sshd_config"), "-o", f"HostKey={key}"]
        if os.geteuid() == 0:  # a root's sshd wants folders of the system
            os.chown(key, 65534, 65534)
            who = ["--reuid", "65534", "--regid", "65534", "--clear-groups"]
            words = ["setpriv", *who, *words]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in (
        "passwordauthentication no",
        "kbdinteractiveauthentication no",
        "permitrootlogin no",
        "authenticationmethods publickey",
        "allowtcpforwarding local",
        "permituserenvironment no",
        "gatewayports no",
        "x11forwarding no",
    ):
        assert f"\n{line}\n" in f"\n{done.stdout}", line
