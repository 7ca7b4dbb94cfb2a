"""Training in the container, whoever started it, saves itself when the container is stopped."""

import os
import re
import time

import containers
import pictures
import pytest
from containers import docker, run, wait_for
from lab import Lab

pytestmark = pytest.mark.docker
TRAIN = "train fit --data.path data --data.image_size 32 --data.batch_size 4 --data.workers 1"
TRAIN += " --model.name resnet18 --optim.epochs 100000 --data.val_share 0.2"


@pytest.fixture
def workspace(tmp_path):
    """A small data set in a folder of user 1000."""
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(0o755)
    path = tmp_path / "work"
    pictures.write_tree(path / "data", count=24)
    if os.geteuid() == 0:
        run("chown", "-R", "1000:1000", str(path))
    return path


def epochs(workspace) -> int:
    """How many lines all runs have written."""
    return sum(
        len(file.read_text().splitlines()) for file in workspace.glob("runs/*/metrics.jsonl")
    )


def check_saved_and_resumes(image, workspace) -> None:
    """A checkpoint was written, and another container goes on from it."""
    (folder,) = (workspace / "runs").iterdir()
    assert (folder / "checkpoints" / "last.pt").stat().st_size > 1e6
    before = epochs(workspace)
    options = mounts(workspace)
    command = ["train", "fit", "--run.resume", f"runs/{folder.name}"]
    with containers.container(image, *command, options=options) as box:
        wait_for(lambda: epochs(workspace) > before, f"another epoch: {box.logs()}")
        assert re.search(r"resume +runs/\S+: epoch \d+, step \d+", box.logs())
        box.stop()
        assert box.state(".State.ExitCode") == "143"


def mounts(workspace):
    # one thread: two of them wait for each other where a machine is busy
    return ["-v", f"{workspace}:/workspace", "-e", "OMP_NUM_THREADS=1"]


def test_as_the_containers_command(image, workspace):
    with containers.container(image, *TRAIN.split(), options=mounts(workspace)) as box:
        wait_for(lambda: epochs(workspace) >= 1, f"an epoch: {box.logs()}")
        assert box.stop() < 30
        assert box.state(".State.ExitCode") == "143"
        assert "SIGTERM" in box.logs()
    check_saved_and_resumes(image, workspace)


def started_inside(image, workspace, start) -> None:
    options = [*mounts(workspace), "-p", "127.0.0.1::8888"]
    with containers.container(image, options=options) as box:
        start(box)
        said = workspace / "said.txt"
        wait_for(
            lambda: epochs(workspace) >= 1,
            f"an epoch: {said.read_text() if said.exists() else box.logs()}",
        )
        assert box.stop() < 30
        assert box.state(".State.ExitCode") == "0"
        assert "SIGTERM" in said.read_text()
    check_saved_and_resumes(image, workspace)


@pytest.mark.parametrize("user", [["-u", "user"], []])
def test_by_docker_exec(image, workspace, user):
    if not user:  # `docker exec` without a user is root: its files are root's, yet it must save
        workspace.chmod(0o777)

    def start(box):
        command = ["sh", "-c", f"exec {TRAIN} >said.txt 2>&1"]
        docker("exec", "--detach", *user, "-w", "/workspace", box.name, *command)

    if user:
        started_inside(image, workspace, start)
        return
    with containers.container(image, options=mounts(workspace)) as box:
        start(box)
        wait_for(lambda: epochs(workspace) >= 1, "an epoch")
        assert box.stop() < 30
        assert "SIGTERM" in (workspace / "said.txt").read_text()


def test_from_a_jupyter_terminal(image, workspace):
    terminals = []

    def start(box):
        terminal = Lab(box.port(8888), box.token()).open_terminal()
        terminal.type(f"cd /workspace && {TRAIN} >said.txt 2>&1")
        terminals.append(terminal)

    try:
        started_inside(image, workspace, start)
    finally:
        for terminal in terminals:
            terminal.close()


def test_an_idle_container_stops_at_once(image):
    with containers.container(image) as box:
        assert box.stop() < 12
        assert box.state(".State.ExitCode") == "0"


def test_ctrl_c_on_docker_run(image):
    with containers.container(image) as box:
        docker("kill", "--signal", "INT", box.name)
        wait_for(lambda: box.state(".State.Running") == "false", "the end", 20)
        assert box.state(".State.ExitCode") in ("0", "130")


def test_no_zombies(image):
    script = "for i in $(seq 100); do (sleep 0.01 &) ; done; sleep 2; cat /proc/[0-9]*/stat"
    text = docker("run", "--rm", image, "bash", "-c", script)
    assert not [line for line in text.splitlines() if line.rsplit(")", 1)[1].split()[0] == "Z"]


def test_a_dead_jupyter_ends_the_container_and_says_so(image):
    with containers.container(image) as box:
        box.exec("pkill", "-KILL", "-f", "jupyterlab")
        wait_for(lambda: box.state(".State.Running") == "false", "the end", 30)
        assert box.state(".State.ExitCode") == "1"
        assert "error: jupyter ended" in box.logs()


def test_a_service_that_hangs_is_unhealthy(image):
    checks = ["--health-interval", "1s", "--health-timeout", "3s", "--health-retries", "2"]
    with containers.container(image, options=[*checks, "--health-start-period", "1s"]) as box:
        wait_for(lambda: box.state(".State.Health.Status") == "healthy", "healthy", 30)
        box.exec("pkill", "-STOP", "-f", "jupyterlab")
        wait_for(lambda: box.state(".State.Health.Status") == "unhealthy", "unhealthy", 40)
        box.exec("pkill", "-CONT", "-f", "jupyterlab")
        wait_for(lambda: box.state(".State.Health.Status") == "healthy", "healthy again", 30)


def test_a_checkpoint_of_a_stop_is_whole(image, workspace):
    """Killed without a warning, the last checkpoint is still one that loads."""
    with containers.container(image, *TRAIN.split(), options=mounts(workspace)) as box:
        wait_for(lambda: epochs(workspace) >= 2, f"two epochs: {box.logs()}")
        docker("kill", box.name)
        time.sleep(0.5)
    check_saved_and_resumes(image, workspace)
