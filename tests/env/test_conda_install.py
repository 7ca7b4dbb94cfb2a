"""`scripts/conda_install.py` against a channel on loopback: what it makes, refuses and repairs."""

import json
import re
import shutil
import signal
import stat
import subprocess
import sys
import time

import conda_channel
import loopback
import pytest

sys.path.insert(0, str(loopback.ROOT / "scripts"))
from conda_errors import explain  # pure Python: needs no py-rattler

# prints what `conda activate` would set, by rattler's own activation; run with py-rattler's Python
ACTIVATION = """
import sys
from pathlib import Path
from rattler.shell import ActivationVariables, Shell, activate
variables = ActivationVariables(None, ["/usr/bin", "/bin"])
print(activate(Path(sys.argv[1]), variables, Shell.bash).script)
"""


@pytest.fixture(scope="module")
def channel(tmp_path_factory):
    with conda_channel.served(tmp_path_factory.mktemp("channel")) as channel:
        yield channel


@pytest.fixture
def place(tmp_path, channel):
    channel.server.stalled.clear()
    channel.server.requests.clear()
    return conda_channel.Place(tmp_path, channel)


@pytest.fixture(scope="module")
def installed(tmp_path_factory, channel):
    place = conda_channel.Place(tmp_path_factory.mktemp("installed"), channel)
    done = place.install(channel.lock)
    assert done.returncode == 0, done.stderr
    return place


def test_what_is_installed_runs(installed):
    prefix = installed.prefix
    assert installed.run("python", "-c", "import sys; print(sys.prefix)") == str(prefix)
    assert installed.run("hello").startswith(f"hello from {prefix}/lib/")
    assert str(prefix) in installed.run("pip", "--version")


def test_prefixes_are_replaced(installed):
    prefix = str(installed.prefix)
    assert (installed.prefix / "etc/native.conf").read_text() == f"root={prefix}/share\n"
    binary = (installed.prefix / "lib/native.bin").read_bytes()
    before = b"\0\1" + conda_channel.PLACEHOLDER.encode() + b"/lib\0tail"
    assert len(binary) == len(before)
    assert f"{prefix}/lib\0".encode() in binary
    assert binary.endswith(b"\0tail")
    code = "import sysconfig; print(sysconfig.get_config_var('prefix'))"
    assert installed.run("python", "-c", code) == prefix


def test_it_is_a_conda_environment(installed, channel):
    notes = sorted((installed.prefix / "conda-meta").glob("*.json"))
    assert [json.loads(note.read_text())["name"] for note in notes] == sorted(conda_channel.NAMES)
    for note in notes:
        data = json.loads(note.read_text())
        assert data["sha256"] in channel.lock
        assert data["url"] in channel.lock
        assert stat.S_IMODE(note.stat().st_mode) == 0o644
    history = (installed.prefix / "conda-meta" / "history").read_text()
    assert history.startswith("==> ")
    assert re.search(r"^\+http\S+/noarch::hello-1\.0-py_0$", history, flags=re.M)


def test_it_can_be_activated(installed):
    script = subprocess.run(
        [str(loopback.tools_python()), "-c", ACTIVATION, str(installed.prefix)],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    ).stdout
    asked = "command -v hello; hello; echo $CONDA_PREFIX; echo $NATIVE_WAS_ACTIVATED"
    shell = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{asked}"],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    prefix = str(installed.prefix)
    program, greeting, conda_prefix, from_script = shell.stdout.splitlines()
    assert program == f"{prefix}/bin/hello"
    assert greeting.startswith("hello from ")
    assert conda_prefix == from_script == prefix


def test_a_second_time_fetches_nothing(installed, channel):
    channel.server.requests.clear()
    done = installed.install(channel.lock)
    assert done.returncode == 0
    assert channel.server.requests == []


DAMAGES = {
    "a file is gone": lambda p: (p / "bin/hello").unlink(),
    "a package's files and note are gone": lambda p: (
        (p / "etc/native.conf").unlink(),
        (p / "conda-meta/native-2.1-h2_3.json").unlink(),
    ),
    "a note is cut off": lambda p: (p / "conda-meta/native-2.1-h2_3.json").write_text('{"na'),
    "files without a note stand in the way": lambda p: (
        (p / "etc/native.conf").write_text("half"),
        (p / "conda-meta/native-2.1-h2_3.json").unlink(),
    ),
    "no note at all": lambda p: shutil.rmtree(p / "conda-meta"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_environment_is_repaired(place, channel, name):
    assert place.install(channel.lock).returncode == 0
    DAMAGES[name](place.prefix)
    done = place.install(channel.lock)
    assert done.returncode == 0, done.stderr
    assert place.run("hello").startswith("hello from ")
    assert (place.prefix / "etc/native.conf").read_text() == f"root={place.prefix}/share\n"
    assert len(list((place.prefix / "conda-meta").glob("*.json"))) == len(conda_channel.NAMES)


def test_a_package_that_left_the_lock_is_removed(place, channel):
    assert place.install(channel.lock).returncode == 0
    assert place.install(channel.spoiled("hello", r"(?s).*", "")).returncode == 0
    assert not (place.prefix / "bin/hello").exists()


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_wrong_hash_is_refused_every_time(place, channel, kind):
    # the right content is in the cache and in the prefix: neither may pass for the locked one
    assert place.install(channel.lock).returncode == 0
    lock = channel.lock
    if kind == "md5":  # as in the channels' lock, where two packages have no sha256
        lock = re.sub(r"\n +sha256: \S+", "", lock)
    spoiled = re.sub(rf"({kind}: )....", r"\1dead", lock)
    for _ in range(2):
        message = place.fails(spoiled)
        assert re.search(
            r"wrong hash: \w+-[\d.]+-\w+ has [0-9a-f]+, the lock expects dead", message
        )
    assert place.install(lock).returncode == 0
    assert place.run("hello").startswith("hello from ")


def test_a_package_that_is_gone(place, channel):
    file = channel.file_of("native")
    lock = channel.lock.replace(file, file.replace("h2_3", "h2_4"))
    message = place.fails(lock)
    assert re.search(r"package gone: http://\S+/native-2\.1-h2_4\.tar\.bz2 answers 404", message)
    assert place.install(channel.lock).returncode == 0


def test_no_network(place, channel):
    message = place.fails(channel.lock.replace(channel.server.url, "http://127.0.0.1:9"))
    assert "no network: cannot fetch" in message
    assert "127.0.0.1:9" in message


def test_a_server_that_falls_silent(place, channel):
    channel.server.stalled.add(channel.file_of("native"))
    message = place.fails(channel.lock, "--stall", "0.5")
    assert "cannot fetch native" in message
    assert "no data for 0.5 s" in message


def test_a_full_disk(place, channel):
    small = place.folder / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small disk here; the message alone is tested")
    try:
        place.prefix = small / "env"
        message = place.fails(channel.lock)
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert re.search(r"the disk is full at \S+: \d+ MiB free in .* 0 MiB free in ", message)
    need = re.search(r"the \d packages that are missing take at least (\d+) MiB more", message)
    assert int(need.group(1)) > 1


def test_the_message_of_a_full_disk(tmp_path):
    text = "failed to link numpy-1.26.4-py39_0.conda\nCaused by: No space left on device"
    message, again = explain(text, tmp_path, tmp_path, missing=3, need_mib=120.4)
    assert message.startswith("the disk is full at numpy-1.26.4-py39_0: ")
    assert "the 3 packages that are missing take at least 120 MiB more" in message
    assert not again


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_half_way_and_completed(place, channel, number):
    file = channel.file_of("native")
    channel.server.stalled.add(file)
    process = place.start(channel.lock)
    deadline = time.monotonic() + 60
    while not any(file in path for path in channel.server.requests):
        assert time.monotonic() < deadline, "the installer never asked for the package"
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=180)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert errors == (
            "interrupted: the environment is half made; run the same again to complete it\n"
        )
    channel.server.stalled.clear()
    done = place.install(channel.lock)
    assert done.returncode == 0, done.stderr
    assert place.run("hello").startswith("hello from ")


BROKEN = {
    "not YAML": ("a: [", "is not valid YAML"),
    "something else": ("name: x\n", "is not a conda-lock file of version 1"),
    "for another platform": ("linux-64$", "has no packages for linux-64 (platforms in it: osx-64)"),
    "a hash that is none": ("sha256: .", "has a hash that is none"),
    "no hash": (r"(md5|sha256): \w+", "has no hash in the lock"),
    "a version that is none": (r"version: '?2\.1'?", "native in the lock is not usable"),
    "an address that is none": (r"url: \S+native\S+", "is not that of a conda package"),
}
BECOMES = {
    "for another platform": "osx-64",
    "a hash that is none": "sha256: zz",
    "no hash": r"\1: ''",
    "a version that is none": "version: '2..!1'",
    "an address that is none": "url: nothing",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_lock_is_refused(place, channel, name):
    pattern, message = BROKEN[name]
    lock = pattern
    if name in BECOMES:
        lock = re.sub(pattern, BECOMES[name], channel.lock, flags=re.M)
        assert lock != channel.lock
    assert message in place.fails(lock)


def test_what_this_machine_lacks(place, channel):
    lock = channel.spoiled("native", r"__glibc: .*", "__glibc: '>=99'")
    assert re.search(r"native needs __glibc >=99, this machine has \d", place.fails(lock))


def test_a_venv_is_left_alone(place, channel):
    place.prefix.mkdir()
    (place.prefix / "pyvenv.cfg").touch()
    assert "is not a conda environment" in place.fails(channel.lock)
    assert [path.name for path in place.prefix.iterdir()] == ["pyvenv.cfg"]
