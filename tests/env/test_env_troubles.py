"""What goes wrong while an environment is made: one clear line, and the next run mends it."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import checkout as checkouts
import loopback
import pytest


def check_trouble(checkout, result, *words):
    """One error line with these words, exit code 2, and nothing that passes for whole."""
    assert result.code == 2, result
    assert len(result.errors) == 1, result
    assert "Traceback" not in result.text
    assert result.text.count("\n") <= 6, result
    for word in words:
        assert word in result.errors[0], result
    assert checkout.marker().get("state") != "ready"


def check_repair(checkout, **settings):
    result = checkout.run(**settings)
    assert result.code == 0, result
    assert "half made" in result.text
    assert checkout.marker()["state"] == "ready"


def test_a_wrong_hash(checkout):
    checkout.write_lock("torch==2.6.0", spoil=True)
    check_trouble(checkout, checkout.run(), "torch==2.6.0", "locked hash", "env.log")
    checkout.write_lock("torch==2.6.0")
    check_repair(checkout)


def test_another_file_on_the_index(checkout):
    path = checkout.index / "files" / "torch-2.6.0-py3-none-any.whl"
    good = path.read_bytes()
    loopback.wheel(checkout.index / "files", "torch", "2.6.0", "print('not what was locked')\n")
    check_trouble(checkout, checkout.run(), "torch==2.6.0", "locked hash", "env.log")
    path.write_bytes(good)
    check_repair(checkout)


@pytest.mark.parametrize("what", ["files/torch-2.6.0-py3-none-any.whl", "simple/torch/index.html"])
def test_a_package_that_is_gone(checkout, what):
    path = checkout.index / what
    path.rename(path.with_name("hidden"))
    check_trouble(checkout, checkout.run(), "torch", "not on the package index", "env.log")
    path.with_name("hidden").rename(path)
    check_repair(checkout)


def test_no_network(checkout):
    with socket.socket() as closed:  # bound and never listening: connections are refused
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/simple"
        check_trouble(checkout, checkout.run(UV_DEFAULT_INDEX=address), "no network")
    check_repair(checkout)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("import no_such_library\n", "import torch fails: ModuleNotFoundError"),
        (checkouts.TORCH.replace("2.6.0", "2.5.0"), "torch is 2.5.0+cu124, the lock says 2.6.0"),
        (
            checkouts.TORCH.replace('cuda = "12.4"', "cuda = None"),
            "is built for CUDA None, not 12.4",
        ),
    ],
    ids=["no import", "other version", "other CUDA"],
)
def test_a_torch_that_is_not_the_locked_one(checkout, tmp_path, module, words):
    checkout.add_wheel("torch", "2.6.0", module)
    checkout.write_lock("torch==2.6.0")
    check_trouble(checkout, checkout.run(), words)
    checkout.add_wheel("torch", "2.6.0", checkouts.TORCH)
    checkout.write_lock("torch==2.6.0")
    check_repair(
        checkout, UV_CACHE_DIR=str(tmp_path / "other cache")
    )  # uv remembers an index's page


def test_too_little_space_is_said_beforehand(checkout):
    checkout.server.requests.clear()
    check_trouble(checkout, checkout.run(NEED_GB="1000000"), "takes about 1000000 GB", "VENV=DIR")
    assert checkout.server.requests == []


def test_a_disk_that_fills_up(checkout, tmp_path):
    small = tmp_path / "small disk"
    small.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)],
        capture_output=True,
        text=True,
        timeout=180,
    )
    if mount.returncode:
        pytest.skip(
            f"a full disk is NOT tested: no small disk can be mounted here ({mount.stderr.strip()})"
        )
    try:
        checkout.add_wheel("large", "1.0", "# " + os.urandom(1_000_000).hex() + "\n")
        checkout.write_lock("torch==2.6.0", "large==1.0")
        result = checkout.run(VENV=str(small / "venv"))
        check_trouble(checkout, result, "the disk is full", "run make env again")
        assert '"building"' in (small / "venv" / "wellfed.json").read_text()
        checkout.write_lock("torch==2.6.0")
        assert checkout.run(VENV=str(small / "venv")).code == 0
    finally:
        subprocess.run(["umount", str(small)], check=True, timeout=180)


def processes_of(folder: Path) -> list:
    """Command lines of running processes that name the folder."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_half_way(checkout, number, code):
    checkout.server.stalled.add("torch-2.6.0-py3-none-any.whl")
    process = checkout.start()
    checkout.wait_for("pip sync")
    process.send_signal(number)
    result = checkouts.finish(process)
    assert result.code == code, result
    assert result.text.count("interrupted") == 1
    assert "run make env again" in result.text
    assert checkout.marker()["state"] == "building"
    assert processes_of(checkout.folder) == []
    checkout.server.stalled.clear()
    checkout.server.released.set()
    check_repair(checkout)


def test_killed_half_way(checkout):
    checkout.server.stalled.add("torch-2.6.0-py3-none-any.whl")
    process = checkout.start()
    checkout.wait_for("pip sync")
    process.kill()
    checkout.server.stalled.clear()
    checkout.server.released.set()  # what it started goes on to its end; the next one waits
    process.wait(timeout=180)
    process.stdout.close()
    check_repair(checkout)


def test_two_at_once(checkout):
    checkout.server.stalled.add("torch-2.6.0-py3-none-any.whl")
    first = checkout.start()
    checkout.wait_for("pip sync")
    late = checkout.run(ENV_WAIT="1")
    assert late.code == 2, late
    assert f"process {first.pid}" in late.errors[0]
    second = checkout.start()
    said = second.stdout.readline()
    assert "another make env is at work" in said
    assert f"process {first.pid}" in said
    checkout.server.stalled.clear()
    first.send_signal(signal.SIGINT)
    assert checkouts.finish(first).code == 130
    result = checkouts.finish(second)  # what the first left behind, the second makes whole
    assert result.code == 0, result
    assert checkout.marker()["state"] == "ready"


def test_the_second_finds_it_ready(checkout):
    assert checkout.run().code == 0
    marker = checkout.folder / ".venv" / "wellfed.json"
    whole = marker.read_text()
    marker.write_text(whole.replace('"ready"', '"building"'))
    lock = checkout.folder / ".cache" / "env.lock"
    holder = subprocess.Popen(
        ["flock", str(lock), "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )  # stands for a make env that ends when we say so
    try:
        holder.stdin.write(b"started\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == b"started\n"
        second = checkout.start()
        assert "another make env is at work" in second.stdout.readline()
        marker.write_text(whole)
    finally:
        holder.communicate(timeout=180)
    result = checkouts.finish(second)
    assert result.code == 0, result
    assert "is ready: wheels" in result.text


def test_a_half_made_one_keeps_its_way_and_the_reason(checkout):
    checkout.write_lock("torch==2.6.0", spoil=True)
    away = checkout.server.url + "/gone"
    assert checkout.run(PYTHON="", ENV_PROBE=away).code == 2
    reason = checkout.marker()["reason"]
    assert "does not answer" in reason
    checkout.write_lock("torch==2.6.0")
    assert checkout.run(PYTHON="", ENV_PROBE=checkout.server.url).code == 0
    assert (checkout.marker()["way"], checkout.marker()["reason"]) == ("wheels", reason)


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_foreign_environment_is_left_alone(checkout, kind):
    path = checkout.folder / ".venv"
    if kind == "folder":
        path.mkdir()
        path = path / "pyvenv.cfg"
    path.write_text("mine")
    result = checkout.run()
    assert result.code == 2
    assert "VENV=DIR" in result.errors[0]
    assert path.read_text() == "mine"


def test_the_venv_module_is_missing(checkout, tmp_path):
    python = 'echo "3.11 3.11.2 novenv $0"'
    path = checkouts.bare_path(tmp_path / "bin", python)
    result = checkout.run("tools", PATH=path, TOOLS="", PYTHON="")
    assert result.code == 2, result
    assert "python3 (3.11.2) lacks the venv module" in result.errors[0]
    assert "python3-venv" in result.errors[0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"PYTHON": "3.12"}, "no Python 3.12 found"),
        ({"PYTHON": ""}, "no Python 3.9 to 3.12 found"),
        ({"PYTHON": "3.8"}, "PYTHON=3.8 is not supported"),
        ({"PYTHON": "3.13", "PIP_LOCK": ""}, "PYTHON=3.13 does not suit the lock; expected 3.9 to"),
        (
            {"TORCH": "current", "PYTHON": "3.9", "PIP_LOCK": ""},
            "PYTHON=3.9 does not suit TORCH=current; expected 3.12 or 3.13",
        ),
        ({"PYTHON": "/nonexistent/python"}, "PYTHON=/nonexistent/python does not run"),
        ({"ENV_FROM": "pip"}, "ENV_FROM=pip is not known"),
        ({"TORCH": "2.1"}, "TORCH=2.1 is not known"),
        ({"ENV_FROM": "conda", "PYTHON": "3.9"}, "leave one out"),
        ({"PIP_LOCK": "/nonexistent.lock"}, "cannot read the lock /nonexistent.lock"),
    ],
)
def test_a_setting_that_cannot_be(checkout, tmp_path, settings, words):
    given = {"ENV_FROM": "wheels", "PATH": checkouts.bare_path(tmp_path / "bin"), **settings}
    check_trouble(checkout, checkout.run(**given), words)
    assert not (checkout.folder / ".venv").exists()
