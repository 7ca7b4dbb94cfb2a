"""`--dataset module:function`: found, or told what is wrong with it."""

from pathlib import Path

import data_sets
import pytest

from train.doctor.child import Failed, run_in_child, run_side_by_side
from train.doctor.dataset_function import make_dataset, needs_pythonpath
from train.doctor.own_data import Gate, Part, check_samples, pick
from train.errors import ConfigError, DataError


@pytest.mark.parametrize("name", ["sound", "subset"])
def test_a_map_style_data_set_is_taken(name):
    assert len(make_dataset(f"data_sets:{name}").dataset) >= 30


def test_modules_of_the_current_folder_are_found(tmp_path, monkeypatch):
    package = tmp_path / "mypkg"
    package.mkdir()
    (package / "data.py").write_text("def make():\n    return [(0, 0), (0, 1)]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere"] + __import__("sys").path)
    assert len(make_dataset("mypkg.data:make").dataset) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:f", "no module 'no_such_module'"),
        ("data_sets.deeper:f", "no module"),
        ("data_sets:sonud", "has no 'sonud'; did you mean 'sound'"),
        ("data_sets:nq", "has no 'nq'\n"),  # `np` is imported there: nobody means that
        ("data_sets:not_a_function", "is an int, and not a function"),
        ("data_sets:a_loader", "is a DataLoader; return the data set"),
        ("data_sets:a_tuple", "is a tuple; return one data set"),
        ("data_sets:stream", "IterableDataset"),
        ("data_sets:a_number", "no __len__ and no __getitem__"),
        ("data_sets:empty", "of 0 samples"),
        ("data_sets:without_length", "len() raised NotImplementedError; it must say how many"),
        ("data_sets:negative_length", "len() raised ValueError"),
    ],
)
def test_what_is_no_data_set_is_refused_with_the_reason(name, message):
    with pytest.raises(ConfigError, match="--dataset") as caught:
        make_dataset(name)
    assert message in f"{caught.value}\n"


@pytest.mark.parametrize(
    ("path", "name", "comes"),
    [
        ("", "data_sets:sound", False),
        ("{here}", "data_sets:sound", True),
        ("/nowhere:{here}", "data_sets:sound", True),
        ("{here}", "mypkg.data:make", False),
        ("{here}", "no_such_module:make", False),
    ],
)
def test_a_module_of_pythonpath_is_seen(path, name, comes, tmp_path, monkeypatch):
    (tmp_path / "mypkg").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", path.format(here=Path(__file__).parent))
    assert needs_pythonpath(name) is comes


def test_an_error_in_the_function_is_told_with_its_line():
    with pytest.raises(DataError, match=r"OSError: no such disk .*data_sets.py:\d+"):
        make_dataset("data_sets:broken")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exits", r"calling it raised SystemExit: 0 \("),
        ("leaves_at_once", r"calling it raised SystemExit: os._exit\(0\), which would end this"),
        ("has_no_message", r"calling it raised Mute: \(a message that can't be made\)"),
        ("paints", r"calling it raised ValueError: two lines\\x1b\[2J \("),
    ],
)
def test_whatever_the_function_raises_is_told_in_one_line(name, message):
    with pytest.raises(DataError, match=message) as caught:
        make_dataset(f"data_sets:{name}")
    assert "\n" not in str(caught.value)


def test_a_module_that_exits_is_told(tmp_path, monkeypatch):
    (tmp_path / "exiting.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="importing exiting raised SystemExit: 0"):
        make_dataset("exiting:f")


def test_a_sample_whose_error_has_no_message_is_told():
    with pytest.raises(Failed, match=r"Mute: .a message that can't be made"):
        run_in_child(data_sets.has_no_message)


def test_a_module_that_lacks_a_package_is_told(tmp_path, monkeypatch):
    (tmp_path / "lacking.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="imports 'no_such_package', which is not installed"):
        make_dataset("lacking:f")


def test_files_left_open_are_seen(tmp_path, monkeypatch):
    (tmp_path / "bytes.bin").write_bytes(b"1234")
    (tmp_path / "leaves_open.py").write_text(
        "opened = []\n"
        "def make():\n"
        "    opened.append(open('bytes.bin', 'rb'))\n"
        "    return [(0, 0), (0, 1)]\n"
    )
    monkeypatch.chdir(tmp_path)
    opened = make_dataset("leaves_open:make")
    import leaves_open

    leaves_open.opened[0].close()
    assert opened.left_open == [str(tmp_path / "bytes.bin")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("three_parts", "a tuple of 3; a pair"),
        ("uneven", "shapes"),
        ("words", "images must be tensors, arrays or numbers"),
    ],
)
def test_wrong_kinds_of_samples_are_told(name, message):
    dataset = make_dataset(f"data_sets:{name}").dataset
    with pytest.raises(DataError, match=message):
        check_samples([dataset[0], dataset[1]])


def test_right_kinds_of_samples_pass():
    for name in ("sound", "vectors", "doubles"):
        dataset = make_dataset(f"data_sets:{name}").dataset
        check_samples([dataset[0], dataset[1]])


def test_a_part_has_the_samples_that_were_asked_for():
    part = Part([(10, 0), (11, 0), (12, 0)], [2, 0])
    assert (len(part), part[0], part[1]) == (2, (12, 0), (10, 0))


def test_a_closed_gate_does_not_hold_the_process_that_made_it(deadline):
    gate = Gate()
    gate.close()
    with gate:
        pass


def test_picked_indices_are_spread_and_within():
    assert pick(5, 100) == (0, 1, 2, 3, 4)
    assert pick(1000, 3) == (0, 499, 999)


# children


def test_children_give_what_they_compute(no_child_left):
    assert run_in_child(sum, [1, 2, 3]) == 6
    assert run_side_by_side(abs, [(-1,), (-2,), (-3,)]) == [1, 2, 3]


def test_an_error_in_a_child_is_told(no_child_left):
    with pytest.raises(Failed, match=r"ValueError: no such picture \(data_sets.py:\d+\)"):
        run_in_child(make_dataset("data_sets:raising").dataset.__getitem__, 0)


def test_a_child_that_dies_is_told(no_child_left):
    with pytest.raises(DataError, match=r"died \(code 3\)"):
        run_in_child(make_dataset("data_sets:dying").dataset.__getitem__, 0)


def test_a_child_that_hangs_is_ended(no_child_left, deadline):
    import time

    with pytest.raises(DataError, match="hangs"):
        run_in_child(time.sleep, 60, limit_s=0.3)


def test_a_source_is_told_from_a_data_set():
    from train.data.sources import Record

    with pytest.raises(DataError, match=r"this is a source and no data set.*--data\.path"):
        check_samples([Record(b"", 0, "a"), Record(b"", 1, "b")])
