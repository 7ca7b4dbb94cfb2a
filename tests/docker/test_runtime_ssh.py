"""SSH into the container's scripts with a real client, without Docker."""

import os
import shutil
import socket
import subprocess
from glob import glob

import processes
import pytest
from runtime_box import Box, free_port, needs_namespaces
from runtime_ssh import Server, make_key

VALUE = "a b  c'd\"e$HOME `id` #f \\n \\\\ & ! * end\nsecond line\n\ttab é"
SECRETS = {
    "HF_TOKEN": "t-secret",
    "WANDB_API_KEY": "k-secret",
    "AWS_SECRET_ACCESS_KEY": "a-secret",
    "DB_PASSWORD": "p-secret",
    "PROXY": "http://me:u-secret@proxy:3128",
    "JUPYTER_TOKEN": "j-secret-j-secret",
}

pytestmark = [
    needs_namespaces,
    pytest.mark.skipif(
        not (shutil.which("ssh") and os.path.exists("/usr/sbin/sshd")),
        reason="NOT TESTED: needs openssh-client and openssh-server",
    ),
]


@pytest.fixture
def box():
    with Box() as made:
        yield made.owned_by(1234, 1235)


@pytest.fixture
def server(box, tmp_path):
    return Server(box, tmp_path)


SHOW = 'printf \'%s|\' "$CUSTOM"; env | grep -c secret; echo "$PATH"; pwd; id -u'


def expected(server, uid=1234):
    workspace = server.box.folder / "workspace"
    path = server.box.environment()["PATH"]
    return f"{VALUE}|0\n{path}\n{workspace}\n{uid}\n"


def test_every_session_has_the_container_s_environment(server):
    server.start(CUSTOM=VALUE, **SECRETS)
    wanted = expected(server)
    assert server.ssh(SHOW) == wanted
    # what an editor does: a shell that reads its script
    assert server.ssh("bash", text=SHOW) == wanted
    assert server.ssh("bash", "-l", text=SHOW) == wanted
    assert server.ssh("sh", "-l", text=SHOW) == wanted
    assert server.ssh(text=SHOW).endswith(wanted)
    env = server.ssh("bash -lic env", tty=True)
    assert "secret" not in env
    assert "CUSTOM=a b  c'd\"e$HOME `id` #f" in env


def test_a_login_has_a_terminal(server):
    server.start(CUSTOM=VALUE)
    out = server.ssh(tty=True, text="tty; shopt login_shell; echo $((6*7)); exit 5\n", code=5)
    assert out == ""
    out = server.ssh(tty=True, text="tty; shopt login_shell; exit\n")
    assert "/dev/pts/" in out
    assert "login_shell" in out
    assert "\ton" in out


def test_exit_codes_and_words_arrive_as_they_are(server):
    server.start()
    server.ssh("exit 7", code=7)
    assert server.ssh("printf", "%s,", "'a  b'", "'c\"d'") == 'a  b,c"d,'


def test_files_go_both_ways(server, tmp_path):
    server.start()
    there = server.box.folder / "workspace"
    file = tmp_path / "a file"
    file.write_bytes(os.urandom(100_000))
    ends = server.options()
    batch = f'put "{file}" copy\nget copy "{tmp_path}/back"\n'
    subprocess.run(
        ["sftp", *ends, "-P", str(server.port), "-b", "-", "user@127.0.0.1"],
        input=batch.encode(), check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    assert (there / "copy").read_bytes() == file.read_bytes() == (tmp_path / "back").read_bytes()
    assert (there / "copy").stat().st_uid == 1234
    for legacy in ([], ["-O"]):
        target = f"user@127.0.0.1:{there}/scp{len(legacy)}"
        words = ["scp", *legacy, *ends, "-P", str(server.port), str(file), target]
        subprocess.run(words, check=True, capture_output=True, timeout=30)
        assert (there / f"scp{len(legacy)}").read_bytes() == file.read_bytes()


def test_local_ports_are_forwarded_and_remote_ones_are_not(server, tmp_path):
    server.start()
    target, local, remote = free_port(), free_port(), free_port()
    with socket.socket() as service:
        service.bind(("127.0.0.1", target))
        service.listen()
        words = ["ssh", "-N", *server.options(), "-p", str(server.port)]
        words += ["-L", f"{local}:127.0.0.1:{target}", "user@127.0.0.1"]
        tunnel = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        try:

            def connects():
                try:
                    socket.create_connection(("127.0.0.1", local), timeout=1).close()
                except OSError:
                    return False
                return True

            assert processes.wait_until(connects)
            service.settimeout(10)
            service.accept()[0].close()
        finally:
            tunnel.terminate()
            tunnel.wait(10)
    refused = server.options(ExitOnForwardFailure="yes")
    server.ssh("-R", f"{remote}:127.0.0.1:{target}", "true", code=255, options=refused)


def test_only_a_given_key_opens(server, tmp_path):
    server.start()
    other = make_key(tmp_path, "other")
    assert "Permission denied" in server.ssh("true", code=255, options=server.options(key=other))
    asked = server.options(
        PubkeyAuthentication="no", PreferredAuthentications="password,keyboard-interactive"
    )
    assert "(publickey)" in server.ssh("true", code=255, options=asked), "no password is offered"
    server.ssh("true", code=255, login="root")
    server.ssh("true", code=255, login="nobody")


def test_a_key_that_was_taken_away_opens_no_more_and_the_host_key_stays(server, tmp_path):
    mounted = server.box.folder / "etc" / "wellfed" / "authorized_keys"
    mounted.write_text(server.key.with_suffix(".pub").read_text())
    mounted.chmod(0o600)  # of root: only it can read the mount
    server.start(SSH_AUTHORIZED_KEYS="")
    server.ssh("true")
    host_key = (server.box.folder / "home/.state/ssh/ssh_host_ed25519_key").read_text()
    print_of_key = [line for line in server.container.log.splitlines() if "its host key" in line]
    known = (tmp_path / "known").read_text()
    server.stop()
    mounted.write_text(make_key(tmp_path, "new").with_suffix(".pub").read_text())
    server.start(SSH_AUTHORIZED_KEYS="")
    server.ssh("true", code=255)
    server.ssh("true", options=server.options(key=tmp_path / "new", StrictHostKeyChecking="yes"))
    assert (tmp_path / "known").read_text() == known
    assert (server.box.folder / "home/.state/ssh/ssh_host_ed25519_key").read_text() == host_key
    assert print_of_key[0] in server.container.log
    assert "SHA256:" in print_of_key[0]


def test_private_things_are_for_the_user_alone(server):
    server.start(CUSTOM="x")
    files = [
        server.box.run / "env.sh",
        server.box.run / "ssh" / "authorized_keys",
        server.box.folder / "home/.state/ssh/ssh_host_ed25519_key",
    ]
    for file in files:
        assert file.stat().st_mode & 0o7777 in (0o600, 0o644), file
        assert file.parent.stat().st_mode & 0o7777 == 0o700, file
        assert file.stat().st_uid == 1234
    assert files[0].stat().st_mode & 0o77 == 0
    assert files[2].stat().st_mode & 0o77 == 0


def test_under_a_number_of_its_own_it_works_where_the_library_is(server):
    server.box.owned_by(4242)
    if glob("/usr/lib/*/libnss_wrapper.so"):
        server.start(user=4242, CUSTOM=VALUE)
        assert server.ssh(SHOW) == expected(server, uid=4242)
        assert "host key last as long as this container" in server.container.log
    else:
        public = server.key.with_suffix(".pub").read_text()
        settings = {**server.settings, "SSH_AUTHORIZED_KEYS": public}
        container = server.box.start(user=4242, **settings)
        assert container.wait() == 2
        assert "start without --user and with -e HOST_UID=4242" in container.log


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("", "SERVICES names ssh, but no key was given"),
        ("# only a comment\n\n", "SERVICES names ssh, but no key was given"),
        ("ssh-ed25519 AAAAC3Nza damaged", "line 1 of SSH_AUTHORIZED_KEYS is no public key"),
        ("~/.ssh/id_ed25519.pub", "expected 'ssh-ed25519 AAAA... name'"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", "holds a private key"),
    ],
)
def test_what_cannot_be_a_key_is_said(server, keys, message):
    container = server.box.start(**server.settings, SSH_AUTHORIZED_KEYS=keys)
    assert container.wait() == 2
    assert message in container.log


def test_good_keys_work_beside_bad_ones(server):
    good = server.key.with_suffix(".pub").read_text().strip()
    options = f'no-agent-forwarding,environment="A=b c" {good}'
    server.start(SSH_AUTHORIZED_KEYS=f"bad line\r\n# comment\n{options}\r\n{options}\n")
    server.ssh("true")
    assert "line 1 of SSH_AUTHORIZED_KEYS is no public key" in server.container.log
    assert "(1 key(s) may log in)" in server.container.log


def test_a_folder_in_place_of_the_file_is_explained(server):
    (server.box.folder / "secrets" / "authorized_keys").mkdir()
    container = server.box.start(**server.settings)
    assert container.wait() == 2
    assert "is a folder: the file that was to be mounted there does not exist" in container.log


def test_a_damaged_host_key_is_not_replaced_in_silence(server):
    folder = server.box.folder / "home" / ".state" / "ssh"
    folder.mkdir(parents=True)
    (folder / "ssh_host_ed25519_key").write_text("")
    public = server.key.with_suffix(".pub").read_text()
    container = server.box.start(**server.settings, SSH_AUTHORIZED_KEYS=public)
    assert container.wait() == 2
    assert "is damaged or cannot be read" in container.log
