import re
import sys

import pytest
from race import environments, pythons
from race.arms import ARMS, CONTAINERS, LIMIT, OURS, PEER, WRITTEN
from race.environments import PEER_LIST, PEER_OF, Peer, Unavailable, python_of


def test_every_arm_has_its_own_name_and_a_program():
    assert len({arm.name for arm in ARMS}) == len(ARMS)
    for arm in ARMS:
        if arm.kind in (PEER, WRITTEN):
            program = PEER_OF[arm.environment].script.read_text()
            assert f'"{arm.entry}":' in program, arm.name
            assert arm.form is None or f'"{arm.form}":' in program, arm.name
        else:
            assert arm.kind in (OURS, LIMIT)
            assert arm.environment == ""
            assert arm.form is None or arm.form.split("-")[0] in CONTAINERS


def test_every_set_that_is_raced_has_a_limit_and_a_peer():
    for data in {arm.data for arm in ARMS}:
        assert {OURS, LIMIT, PEER, WRITTEN} <= {arm.kind for arm in ARMS if arm.data == data}


@pytest.mark.parametrize("peer", PEER_LIST, ids=lambda peer: peer.name)
def test_a_lock_pins_everything_by_hash(peer):
    lines = peer.lock.read_text().splitlines()
    asked = peer.lock.with_suffix(".in").read_text()
    names = re.findall(r"^([a-z0-9][a-z0-9._-]*)", asked, re.M)
    pinned = {}
    for line in lines:
        found = re.match(r"([a-z0-9._-]+)==(\S+)", line)
        if found:
            pinned[found[1]] = 0
            current = found[1]
        elif line.strip().startswith("--hash="):
            assert re.fullmatch(r"--hash=sha256:[0-9a-f]{64}( \\)?", line.strip())
            pinned[current] += 1
        else:
            assert not line.strip() or line.startswith("#"), line  # no address of an index
    assert set(names) <= set(pinned)
    assert all(pinned.values())


def test_a_python_is_found_where_it_really_is():
    here = sys.version_info[:2]
    found = pythons.find(here, here)
    if found is None:
        pytest.skip("this Python is neither on PATH nor among pyenv's")
    assert found[1] == here
    assert "shims" not in found[0]
    assert pythons.find((3, 1), (3, 2)) is None


def test_a_missing_python_is_said(monkeypatch):
    monkeypatch.setattr(pythons, "find", lambda *_: None)
    with pytest.raises(Unavailable, match=r"needs Python 3.9, and none was found"):
        python_of(PEER_OF["torchvision"])
    with pytest.raises(Unavailable, match=r"needs Python 3.11 to 3.13"):
        python_of(PEER_OF["dali"])


def test_a_missing_library_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(pythons, "find", lambda *_: (sys.executable, (3, 9)))
    monkeypatch.setenv("PKG_CONFIG_LIBDIR", str(tmp_path))
    monkeypatch.delenv("PKG_CONFIG_PATH", raising=False)
    expected = r"(finds no opencv4 .*libopencv-dev|pkg-config is missing)"
    with pytest.raises(Unavailable, match=expected):
        python_of(PEER_OF["ffcv"])


def test_an_installation_that_fails_is_said_with_its_last_words(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path)
    code = "import sys; print('resolving'); print('no such wheel'); sys.exit(1)"
    tmp_path.joinpath("x.log").touch()
    with pytest.raises(Unavailable, match=r"installing failed: .*no such wheel"):
        environments._run([sys.executable, "-c", code], tmp_path / "x.log", "installing")


def test_a_broken_peer_is_told_apart_from_ours():
    peer = Peer("dali")
    assert peer.lock.name == "requirements.lock"
    assert peer.script.name == "run.py"
