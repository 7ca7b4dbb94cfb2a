"""Two launches on one machine: the second finds a port of its own, or is told which is taken."""

import os
import signal
import socket

import pytest
from torch.distributed import run as torchrun

from train import launch


@pytest.fixture(autouse=True)
def environment_as_before():
    """A launch sets variables for its ranks; later tests shall not be such."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def started(monkeypatch):
    """What torchrun is asked for by `launch.main`, which starts nothing."""
    asked = []
    monkeypatch.setattr(torchrun, "run", asked.append)
    before = signal.getsignal(signal.SIGUSR1)
    yield asked
    signal.signal(signal.SIGUSR1, before)


def test_a_machine_alone_lets_the_system_choose_the_port(started):
    assert launch.main(["--nproc-per-node=2", "-m", "train", "fit"]) == 0
    assert launch.main(["--nnodes=1:1", "--rdzv-id=mine", "-m", "train", "fit"]) == 0
    for options in started:
        assert (options.rdzv_backend, options.rdzv_endpoint) == ("c10d", "localhost:0")
    assert [options.rdzv_id for options in started] == ["none", "mine"]  # a restart finds its run


@pytest.mark.parametrize(
    "words",
    [
        ["--master-port=29501"],
        ["--master-addr=10.0.0.1"],
        ["--nnodes=2", "--node-rank=1"],
        ["--nnodes=1:2"],
        ["--rdzv-backend=c10d", "--rdzv-endpoint=head:29400"],
    ],
    ids=" ".join,
)
def test_what_was_asked_for_is_kept(started, words):
    assert launch.main([*words, "-m", "train", "fit"]) == 0
    (options,) = started
    assert options.rdzv_endpoint != "localhost:0"


def test_a_port_in_use_is_named_with_what_to_do(capsys):
    before = signal.getsignal(signal.SIGUSR1)
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        try:
            code = launch.main([f"--master-port={port}", "-m", "train", "fit", "--help"])
        finally:
            signal.signal(signal.SIGUSR1, before)
    error = " ".join(capsys.readouterr().err.split())
    assert code == 2
    assert f"127.0.0.1:{port}) is in use by another program" in error
    assert "give a free one with --master-port" in error
    assert "Traceback" not in error
