"""What `make up` says of settings that are wrong, and that it bears those that are none."""

import socket

import pytest
from containers import run

pytestmark = pytest.mark.docker


def test_a_port_that_is_taken_is_named_and_nothing_is_left_half_made(checkout):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        code, text = checkout.image("up", SSH_PORT=port)
    assert code == 2
    assert f"error: port {port} of 127.0.0.1 is taken by another program" in text
    assert f"SSH_PORT={int(port) + 1} in .env" in text
    assert checkout.image("logs") == (2, "error: there is no container; start it with make up\n")


def test_up_again_takes_its_own_ports_for_its_own(checkout):
    assert checkout.image("up")[0] == 0
    code, text = checkout.image("up")
    assert code == 0, text
    assert "JupyterLab: http" in text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"JUPYTER_PORT": "8888x"},
            "error: JUPYTER_PORT must be a port from 1 to 65535, got '8888x'",
        ),
        ({"WORKSPACE": "/nonexistent/x"}, "error: WORKSPACE=/nonexistent/x is no folder"),
        ({"AUTHORIZED_KEYS": "~/nosuch.pub"}, "/nosuch.pub is no file; name one in .env"),
        ({"JUPYTER_TOKEN_FILE": "nosuch"}, "error: JUPYTER_TOKEN_FILE=nosuch is no file"),
        ({"SHM_SIZE": "lots"}, "error: SHM_SIZE must be a size such as 8g or 512m, got 'lots'"),
        ({"HOST_UID": "me"}, "error: HOST_UID must be a user's or group's number, got 'me'"),
        ({"SERVICES": "jupiter"}, "error: SERVICES names 'jupiter', which is not known"),
        ({"SERVICES": "tensorboard", "HOST_GID": "x"}, "error: HOST_GID must be"),
    ],
)
def test_a_wrong_setting_is_named(checkout, settings, message):
    lines = [
        "IMAGE=",
        "# nothing else",
        *(f'{name}="{value}"\r' for name, value in settings.items()),
    ]
    (checkout.folder / ".env").write_text("\n".join(lines) + "\n")
    environ = {name: checkout.environ.pop(name) for name in settings if name in checkout.environ}
    code, text = checkout.image("up")
    checkout.environ.update(environ)
    assert code == 2, text
    assert message in text
    assert "Traceback" not in text


def test_an_empty_env_file_is_as_good_as_none(checkout):
    (checkout.folder / ".env").write_text("")
    code, text = checkout.image("up")
    assert code == 0, text
    assert "JupyterLab: http" in text


def test_a_shell_takes_commands_from_a_pipe(checkout):
    assert checkout.image("up")[0] == 0
    script = str(checkout.folder / "scripts" / "image.sh")
    done = run(script, "shell", input="id -un; exit 3\n", env=checkout.environ, code=3)
    assert done.stdout == "user\n"
