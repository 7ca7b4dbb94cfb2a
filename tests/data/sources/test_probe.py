"""Reading in a child: what it says, what its death means, and that it never stays behind."""

import os
import random

import container_files as files
import numpy as np
import pytest

from train.data.sources import probe as probe_module
from train.data.sources.hdf5_source import open_hdf5
from train.data.sources.probe import probe
from train.errors import BadSample, DataError, SetupError

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")

SCAN = """
import os, signal, sys, time
import numpy as np

class Damaged(Exception): pass
class Refused(Exception): pass

def scan(path, report):
    {body}
"""


@pytest.fixture
def run(tmp_path):
    """Run a body of `scan` in a child."""

    def call(body, container="/data/x.h5", progress=None):
        (tmp_path / "scan.py").write_text(SCAN.format(body=body))
        return probe(str(tmp_path / "scan"), container, progress)

    return call


def test_arrays_and_the_small_dict_come_back(run):
    told = []
    body = (
        "report(3); report(7); return {'a': np.arange(5), 'b': np.zeros((0,), 'u1')}, {'p': path}"
    )
    arrays, meta = run(body, "/data/\udce9 \n'.h5", told.append)
    assert arrays["a"].tolist() == list(range(5))
    assert arrays["b"].shape == (0,)
    assert meta == {"p": "/data/\udce9 \n'.h5"}
    assert told == [3, 7]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"x\.h5' is damaged: .*\(Segmentation fault\)"),
        ("os.kill(os.getpid(), signal.SIGBUS)", r"x\.h5' is damaged: .*\(Bus error\).*copy it ag"),
        ("raise Damaged('no heap')", r"^'/data/x\.h5' can't be used: no heap; copy it again"),
        ("raise Refused('no images')", r"^'/data/x\.h5' can't be used: no images$"),
        ("raise KeyError('colour')", r"^'/data/x\.h5' can't be read: KeyError: 'colour'$"),
        ("os._exit(5)", r"^'/data/x\.h5' can't be read: exit code 5$"),
        ("report(1); os.close(1); os._exit(0)", r"can't be read: exit code 0$"),
    ],
)
def test_the_end_of_a_child_is_a_message_that_names_the_file(run, body, message):
    with pytest.raises(DataError, match=message):
        run(body)


def test_a_missing_package_is_named(run):
    with pytest.raises(SetupError, match=r"the package 'no_such_package' is needed to read"):
        run("import no_such_package")


def test_a_child_that_is_silent_is_ended(run, monkeypatch):
    monkeypatch.setattr(probe_module, "SILENCE_S", 0.5)
    with pytest.raises(DataError, match=r"'/data/x\.h5' gave no answer for .* still mounted"):
        run("time.sleep(1000)")


def test_the_callers_error_ends_the_child(run):
    def interrupt(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("report(1); time.sleep(1000)", progress=interrupt)


def test_a_crash_leaves_no_core_file(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError):
        run("os.kill(os.getpid(), signal.SIGSEGV)")
    assert [name for name in os.listdir(tmp_path) if name.startswith("core")] == []


def test_the_child_does_not_import_the_package(run):
    _, meta = run("return {}, {'names': [n for n in sys.modules if n.split('.')[0] == 'torch']}")
    assert meta["names"] == []


def outcomes(path):
    """What becomes of a damaged file: "refused", else "bad" and "read" for its records."""
    try:
        source = open_hdf5(str(path)).source
    except DataError as error:
        return {"refused" if path.name in str(error) else str(error)}
    found = set()
    for index in range(len(source)):
        try:
            found.add("read" if source[index].data is not None else "nothing")
        except (BadSample, OSError):
            found.add("bad")
    return found


@pytest.mark.slow
def test_bytes_changed_at_random_never_end_this_process(tmp_path):
    """Damage is found, or costs single records; what a library does with it, a child shows."""
    chance, path = random.Random(7), tmp_path / "x.h5"
    generator = np.random.default_rng(1)
    files.write_hdf5(path, [(str(n), n % 2, generator.bytes(300)) for n in range(30)])
    whole, found = path.read_bytes(), set()
    for _ in range(8):
        broken = bytearray(whole)
        for _ in range(chance.choice([2, 60])):
            broken[chance.randrange(6000)] = chance.randrange(256)
        path.write_bytes(broken)
        found |= outcomes(path)
    assert "refused" in found
    assert found <= {"refused", "bad", "read"}
