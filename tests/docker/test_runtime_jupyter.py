"""JupyterLab as the container starts it, without Docker: token, kernel, terminal, health."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import processes
import pytest
from runtime_box import Box, needs_namespaces
from runtime_lab import Lab

pytest.importorskip("jupyterlab", reason="NOT TESTED: this environment has no JupyterLab")
from jupyter_client import BlockingKernelClient
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

VALUE = "a b  c'd\"e$HOME #f \\n"

# Stands for a training run that is asked to save; SIGHUP and a second SIGTERM end it unsaved.
TRAINER = r"""
$| = 1; my $asked = 0; $SIG{TERM} = sub { exit 99 if $asked++; };
print "steps\n"; select(undef, undef, undef, 0.05) until $asked;
for (1 .. 14) { select(undef, undef, undef, 0.05); print "saving\n"; }
open(my $out, ">", "saved"); close($out);
"""

pytestmark = needs_namespaces


@pytest.fixture(scope="module")
def lab():
    with Box(sys.prefix) as box:
        # a home comes first for whoever does not own the environment, as nobody does in the image
        kernels = box.folder / "home/.local/share/jupyter/kernels"
        for name in ("python3", "other"):
            (kernels / name).mkdir(parents=True)
            spec = {"argv": ["/bin/false"], "display_name": "not ours", "language": "python"}
            (kernels / name / "kernel.json").write_text(json.dumps(spec))
        lab = Lab(box, JUPYTER_PORT_HOST=9999, JUPYTER_PREFER_ENV_PATH=0, CUSTOM=VALUE)
        yield lab.ready()


@pytest.fixture
def box():
    with Box(sys.prefix) as made:
        yield made


def test_it_opens_with_the_token_and_refuses_without(lab):
    for path in ("/api/status", "/api/contents", "/api/kernels", "/api/terminals"):
        assert lab.ask(path)[0] == 403
        assert lab.ask(path, "wrong")[0] == 403
        assert lab.ask(path, "")[0] == 403
        assert lab.ask(path, lab.token())[0] == 200
    assert b"jupyter-config-data" in lab.ask("/lab", lab.token())[1]
    assert b"jupyter-config-data" not in lab.ask("/lab")[1], "it asks for the token"


def test_the_address_has_the_port_of_the_host_and_the_token_is_private(lab):
    assert f"JupyterLab:  http://127.0.0.1:9999/lab?token={lab.token()}\n" in lab.container.log
    assert lab.container.log.count(lab.token()) == 1
    kept = lab.box.folder / "home/.state/jupyter_token"
    assert kept.read_text().strip() == lab.token()
    assert len(lab.token()) == 48
    for file in (kept, lab.box.run / "jupyter/token", lab.box.run / "urls"):
        assert file.stat().st_mode & 0o777 == 0o600
    words = b"".join(
        path.read_bytes()
        for pid in os.listdir("/proc")
        if pid.isdigit() and (path := Path("/proc", pid, "cmdline")).exists()
    )
    assert lab.token().encode() not in words


def test_the_locked_environment_is_the_only_kernel(lab):
    specs = json.loads(lab.ask("/api/kernelspecs", lab.token())[1])
    assert list(specs["kernelspecs"]) == ["python3"]
    assert specs["kernelspecs"]["python3"]["spec"]["argv"][0] != "/bin/false"


def test_a_kernel_has_the_environment_of_the_container(lab):
    body = lab.ask("/api/kernels", lab.token(), "POST", b'{"name": "python3"}')[1]
    number = json.loads(body)["id"]
    connection = lab.box.run / "jupyter" / f"kernel-{number}.json"
    assert processes.wait_until(connection.exists)
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels(hb=False)  # a busy machine misses its beat of a second
    try:
        client.wait_for_ready(timeout=60)
        code = (
            "import os, sys; print(sys.prefix, os.environ['CUSTOM'], os.getcwd(),"
            " [k for k in os.environ if k.startswith('WELLFED_T') or k == 'JUPYTER_TOKEN'])"
        )
        told = []
        client.execute_interactive(
            code, timeout=60, output_hook=lambda m: told.append(m["content"].get("text", ""))
        )
    finally:
        client.stop_channels()
        lab.ask(f"/api/kernels/{number}", lab.token(), "DELETE")
    assert "".join(told).strip() == f"{sys.prefix} {VALUE} {lab.box.folder}/workspace []"


async def type_in(lab, name, line, end):
    """Type a line in a terminal and read until `end` comes."""
    address = f"ws://127.0.0.1:{lab.port}/terminals/websocket/{name}?token={lab.token()}"
    connection = await websocket_connect(HTTPRequest(address, request_timeout=20))
    said = ""
    try:
        await connection.write_message(json.dumps(["stdin", line]))
        while end not in said.replace("\r", ""):
            message = json.loads(await asyncio.wait_for(connection.read_message(), 20))
            said += message[1] if message[0] == "stdout" else ""
    finally:
        connection.close()
        while await asyncio.wait_for(connection.read_message(), 20) is not None:
            pass  # until the other side has closed it too
    return said.replace("\r", "")


def test_a_terminal_is_a_login_shell_with_the_same_environment(lab):
    name = json.loads(lab.ask("/api/terminals", lab.token(), "POST")[1])["name"]
    line = "echo \"<$CUSTOM|$PWD|$PATH|$(shopt login_shell | cut -f2)>\"; echo do''ne\r"
    said = asyncio.run(type_in(lab, name, line, "\ndone"))
    lab.ask(f"/api/terminals/{name}", lab.token(), "DELETE")
    path = lab.box.environment()["PATH"]
    assert f"<{VALUE}|{lab.box.folder}/workspace|{path}|on>" in said


def test_health_is_what_users_see(lab):
    assert lab.health().stdout == "jupyter answers\n"
    pid = int((lab.box.run / "services").read_text().split()[2])
    process = next(
        int(outer)
        for outer in os.listdir("/proc")
        if outer.isdigit() and inner_pid(outer) == pid and b"jupyterlab" in command(outer)
    )
    os.kill(process, signal.SIGSTOP)
    try:
        sick = lab.health(timeout_s=1)
    finally:
        os.kill(process, signal.SIGCONT)
    assert sick.returncode == 1
    assert sick.stdout == "jupyter: no answer within 1 s\n"
    lab.ready()


def read(file):
    return file.read_text() if file.exists() else ""


def inner_pid(outer):
    try:
        status = Path("/proc", outer, "status").read_text()
    except OSError:
        return None
    return int(next(x for x in status.splitlines() if x.startswith("NSpid")).split()[-1])


def command(pid):
    try:
        return Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_killed_server_ends_the_container_and_the_token_is_kept(box):
    lab = Lab(box)
    assert processes.wait_until(lambda: read(box.run / "services").endswith("\n"))
    token = lab.token()
    pid = int((box.run / "services").read_text().split()[2])
    killer = lab.container.exec("bash", "-c", f"kill -KILL {pid}")
    killer.wait(10)
    assert lab.container.wait() == 1
    assert "error: jupyter ended (exit code 137), so the container ends" in lab.container.log
    again = Lab(box).ready()
    assert again.token() == token
    # what runs in a terminal may save: it gets SIGTERM before the terminal goes
    (box.folder / "trainer.pl").write_text(TRAINER)
    name = json.loads(again.ask("/api/terminals", token, "POST")[1])["name"]
    asyncio.run(type_in(again, name, f"perl {box.folder}/trainer.pl\r", "steps\n"))
    again.container.signal()
    assert again.container.wait() == 0, again.container.log
    assert (box.folder / "workspace" / "saved").exists()


@pytest.mark.parametrize("way", ["secret", "file", "variable"])
def test_a_token_that_was_given_is_used_and_not_printed(box, way):
    token = "s3cret+/=given"
    file = box.folder / "secrets" / ("jupyter_token" if way == "secret" else "mine")
    settings = {"JUPYTER_TOKEN": token} if way == "variable" else {}
    if way != "variable":
        file.write_text(f"{token}\n")
        file.chmod(0o400)
    if way == "file":
        settings = {"JUPYTER_TOKEN_FILE": file}
    lab = Lab(box, **settings)
    lab.container.says("/lab (with the token that you gave)")
    assert processes.wait_until(lambda: (box.run / "jupyter" / "token").exists())
    assert lab.token() == token
    assert (box.run / "urls").read_text().endswith("/lab?token=s3cret%2B%2F%3Dgiven\n")
    assert token not in lab.container.log
    assert not (box.folder / "home/.state/jupyter_token").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"JUPYTER_TOKEN": ""}, "JUPYTER_TOKEN is empty: JupyterLab never runs without a token"),
        ({"JUPYTER_TOKEN": " \n"}, "JUPYTER_TOKEN is empty"),
        ({"JUPYTER_TOKEN": "two words"}, "expected one word"),
        ({"JUPYTER_TOKEN_FILE": "/nowhere"}, "JUPYTER_TOKEN_FILE=/nowhere does not exist"),
        ({"JUPYTER_TOKEN_FILE": "/dev/null"}, "JUPYTER_TOKEN_FILE=/dev/null is empty"),
        ({"JUPYTER_PORT_HOST": "80a"}, "JUPYTER_PORT_HOST must be a port from 1 to 65535"),
        ({"BIND": "everywhere"}, "BIND must be an address"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_listens(box, settings, message):
    container = box.start(**settings)
    assert container.wait() == 2
    assert message in container.log
