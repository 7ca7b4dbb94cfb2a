"""Too many open files: how many, how many are allowed, and the two remedies."""

import os
import re

import pytest

from train.config import Config
from train.errors import SetupError
from train.memory_errors import memory_errors_explained


@pytest.mark.parametrize(
    "error",
    [
        OSError(24, os.strerror(24)),
        RuntimeError("received 0 items of ancdata"),
        RuntimeError("unable to open shared memory object: Too many open files (24)"),
    ],
    ids=["system", "ancdata", "shared memory"],
)
def test_the_limit_and_the_count_are_told(error, monkeypatch):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 4096))
    with pytest.raises(SetupError) as stop, memory_errors_explained(Config()):
        raise error
    message = str(stop.value)
    count = int(re.search(r"(\d+) files are open, the limit is 1024", message).group(1))
    assert 3 <= count < 100_000
    assert "ulimit -n 65536" in message
    assert "lower data.workers" in message
    assert "\n" not in message


def test_no_descriptor_is_left_to_count_with(monkeypatch):
    def full(_):
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr(os, "listdir", full)
    expected = "too many files are open, the limit is"
    with pytest.raises(SetupError, match=expected), memory_errors_explained(Config()):
        raise OSError(24, os.strerror(24))


def test_other_errors_of_the_system_stay_what_they_are():
    with pytest.raises(PermissionError), memory_errors_explained(Config()):
        raise PermissionError(13, "Permission denied", "somewhere")
