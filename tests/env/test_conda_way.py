"""The conda way as a whole, on loopback: `env.sh` installs a conda lock, then a pip lock."""

import re

import conda_channel
import pytest

TORCH = '__version__ = "2.6.0+cu118"\n\n\nclass version:\n    cuda = "11.8"\n'
PIN = "torch==2.6.0+cu118"


@pytest.fixture(scope="module")
def channel(tmp_path_factory):
    with conda_channel.served(tmp_path_factory.mktemp("channel")) as channel:
        yield channel


@pytest.fixture
def conda_checkout(checkout, channel):
    """A checkout with a conda lock, and a pip lock of one wheel; `make` runs `env.sh`."""
    checkout.add_wheel("torch", "2.6.0+cu118", TORCH)
    checkout.write_lock(PIN)
    conda_lock = checkout.folder / "small-conda-lock.yml"
    conda_lock.write_text(channel.lock)

    def make(**settings):
        return checkout.run(
            **{"ENV_FROM": "conda", "CONDA_LOCK": str(conda_lock), "PYTHON": "", **settings}
        )

    checkout.make, checkout.conda_lock = make, conda_lock
    return checkout


def test_both_locks_make_one_environment(conda_checkout):
    done = conda_checkout.make()
    assert done.code == 0, done
    marker = conda_checkout.marker()
    assert marker["state"] == "ready"
    assert marker["way"] == "conda"
    assert marker["torch"] == "2.6.0+cu118"
    assert marker["cuda"] == "11.8"
    environment = conda_checkout.folder / ".venv"
    assert (environment / "conda-meta" / "hello-1.0-py_0.json").exists()
    assert not (environment / "pyvenv.cfg").exists()
    assert any(name.startswith("torch-2.6.0+cu118") for name in conda_checkout.installed())
    # the second time nothing is asked of anybody
    conda_checkout.server.requests.clear()
    again = conda_checkout.make()
    assert again.code == 0
    assert "is ready" in again.text
    assert conda_checkout.server.requests == []


def mended(conda_checkout) -> None:
    """After a failure: nothing passes for whole, and the next run completes it."""
    assert conda_checkout.marker().get("state") != "ready"
    conda_checkout.write_lock(PIN)
    conda_checkout.conda_lock.write_text(conda_checkout.sound)
    done = conda_checkout.make()
    assert done.code == 0, done
    assert conda_checkout.marker()["state"] == "ready"


SPOILED = {
    "a conda package with another hash": (
        lambda c: c.conda_lock.write_text(re.sub(r"(sha256: )....", r"\1dead", c.sound)),
        r"wrong hash: \S+ has [0-9a-f]+, the lock expects dead",
    ),
    "a conda package that is gone": (
        lambda c: c.conda_lock.write_text(c.sound.replace("native-2.1-h2_3", "native-2.1-h2_9")),
        r"package gone: \S+native-2\.1-h2_9\.tar\.bz2 answers 404",
    ),
    "a wheel with another hash": (
        lambda c: c.write_lock(PIN, spoil=True),
        r"torch==2\.6\.0\+cu118.* does not have the locked hash",
    ),
    "a wheel that is gone": (
        lambda c: c.lock.write_text(f"torch==2.6.1+cu118 --hash=sha256:{'0' * 64}\n"),
        r"torch==2\.6\.1\+cu118 is not on the package index any more",
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_lock_makes_no_environment(conda_checkout, channel, name):
    spoil, message = SPOILED[name]
    conda_checkout.sound = channel.lock
    spoil(conda_checkout)
    done = conda_checkout.make()
    assert done.code == 2, done
    assert len(done.errors) == 1, done
    assert re.search(message, done.errors[0]), done
    mended(conda_checkout)
