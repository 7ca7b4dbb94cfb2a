"""Who the container's user becomes, without Docker."""

import subprocess

import pytest
from runtime_box import Box, needs_namespaces


@pytest.fixture
def box():
    with Box() as made:
        yield made


def lines(box, name):
    return (box.folder / "etc" / name).read_text().splitlines()


def run(box, *command, **settings):
    container = box.start(*command, **settings)
    return container.wait(), container.log


@needs_namespaces
@pytest.mark.parametrize(
    ("owner", "settings", "expected"),
    [
        ((1000, 1000), {}, "1000:1000"),
        ((1234, 1235), {}, "1234:1235"),
        ((1234, 0), {}, "1234:1234"),
        ((1234, 1235), {"HOST_UID": 1300, "HOST_GID": 1301}, "1300:1301"),
        ((1234, 1235), {"HOST_UID": 1234}, "1234:1235"),
        ((1234, 1235), {"HOST_UID": 1300}, "1300:1300"),
        ((1234, 1235), {"HOST_UID": "", "HOST_GID": ""}, "1234:1235"),
        ((33, 33), {}, "33:33"),
    ],
)
def test_the_user_gets_the_numbers_of_the_workspace(box, owner, settings, expected):
    box.owned_by(*owner)
    who = 'echo "$(id -u):$(id -g) $(id -un) $USER $LOGNAME $HOME"; touch ~/mine mine || true'
    code, log = run(box, "bash", "-c", who, **settings)
    assert code == 0, log
    assert f"{expected} user user user {box.folder}/home" in log
    uid, gid = map(int, expected.split(":"))
    for file in ("workspace/mine", "home/mine"):
        if file.startswith("home") or owner[0] == uid:
            stat = (box.folder / file).stat()
            assert (stat.st_uid, stat.st_gid) == (uid, gid)
    for name, start in (("passwd", f"user:x:{expected}:"), ("group", f"user:x:{gid}:")):
        ours = [line for line in lines(box, name) if line.startswith("user:")]
        assert len(ours) == 1
        assert ours[0].startswith(start)


@needs_namespaces
def test_nothing_is_left_of_root(box):
    box.owned_by(1234)
    status = 'grep -E "^(Cap(Prm|Eff|Amb|Inh)|Groups)" /proc/self/status; ps -eo uid= | sort -u'
    code, log = run(box, "bash", "-c", status)
    assert code == 0
    for kind in ("CapPrm", "CapEff", "CapAmb", "CapInh"):
        assert f"{kind}:\t0000000000000000" in log
    assert log.splitlines()[-1].strip() == "1234", "process 1 and the supervisor too"


@needs_namespaces
@pytest.mark.parametrize("settings", [{}, {"HOST_UID": 0, "HOST_GID": 0}])
def test_a_workspace_of_root_keeps_the_image_s_user_and_says_what_to_do(box, settings):
    box.owned_by(0)
    code, log = run(box, "id", "-u", **settings)
    assert code == 0
    assert "\n1000\n" in log
    assert "belongs to root, so this runs as user 1000 and can't write there" in log
    assert "chown -R" in log


@needs_namespaces
def test_rootless_docker_is_told_of_its_own_switch(box):
    uid_map, other = box.folder / "uid_map", box.folder / "tmp" / "root"
    uid_map.write_text("         0       1000          1\n")
    box.owned_by(0)
    code, log = run(box, "id", "-u", WELLFED_UID_MAP=uid_map)
    assert code == 0
    assert "\n1000\n" in log
    assert "Add -e RUN_AS_ROOT=1" in log
    code, log = run(box, "id", "-u", WELLFED_UID_MAP=uid_map, RUN_AS_ROOT=1, WELLFED_RUN=other)
    assert code == 0
    assert log.splitlines()[-1] == "0"


@needs_namespaces
def test_root_is_refused_where_docker_is_not_rootless(box):
    code, log = run(box, "id", "-u", RUN_AS_ROOT=1)
    assert code == 2
    assert "RUN_AS_ROOT=1 is for rootless Docker alone" in log


@needs_namespaces
@pytest.mark.parametrize("value", ["me", "-1", "4294967295", "1 2"])
def test_a_wrong_number_is_named(box, value):
    code, log = run(box, "id", HOST_UID=value)
    assert code == 2
    assert f"HOST_UID must be a user's or group's number, got '{value}'" in log


@needs_namespaces
def test_data_in_the_home_is_never_walked_through(box):
    data = box.folder / "home" / "data"
    data.mkdir()
    (data / "file").write_text("large")
    state = box.folder / "home" / ".state" / "ssh"
    state.mkdir(parents=True)
    (box.folder / "home" / ".bashrc").write_text("")
    box.owned_by(1234)
    assert run(box, "true")[0] == 0
    assert (data / "file").stat().st_uid == 0
    assert data.stat().st_uid == 0
    assert state.stat().st_uid == 1234
    assert (box.folder / "home" / ".bashrc").stat().st_uid == 1234


@needs_namespaces
def test_a_number_without_a_name_has_a_home(box):
    what = 'echo "$(id -u) $USER $HOME $NUMBA_CACHE_DIR"; touch ~/x "$MPLCONFIGDIR/../x"; umask'
    (box.folder / "home").chmod(0o755)
    code, log = run(box, "bash", "-c", what, user=4242, NUMBA_CACHE_DIR=box.folder / "home/n")
    assert code == 0, log
    assert f"4242 user {box.run}/home {box.run}/home/.state/numba" in log
    assert log.splitlines()[-1] == "0022"
    assert f"note: {box.folder}/workspace cannot be written by user 4242:4242" in log


@needs_namespaces
def test_without_the_right_to_change_users_it_says_how_to_start(box):
    box.owned_by(1234)
    code, log = run(box, "id", without="-setuid,-setgid")
    assert code == 2
    assert "start it with --user 1234:1234" in log


@needs_namespaces
def test_a_read_only_list_of_users_is_no_obstacle(box):
    box.owned_by(1234)
    (box.folder / "etc2").mkdir()
    for name in ("passwd", "group"):
        (box.folder / "etc2" / name).write_text((box.folder / "etc" / name).read_text())
    mount = ["mount", "--bind", "-o", "ro", str(box.folder / "etc2"), str(box.folder / "etc2")]
    subprocess.run(mount, check=True)
    try:
        code, log = run(box, "id", "-u", WELLFED_ETC=box.folder / "etc2")
    finally:
        subprocess.run(["umount", str(box.folder / "etc2")], check=True)
    assert code == 0, log
    assert "is read-only, so user 1234 has no name here" in log
    assert "\n1234\n" in log
