import json

import pytest
from race import figures, plot, plot_bytes, table
from race.arms import ARMS, UnknownArm, choose

CHOSEN = [
    arm
    for arm in ARMS
    if arm.name in ("limit", "ours-processes", "dali", "grain", "timm", "simplejpeg-cv2")
]
DESCRIBED = {
    "full": {"files": 1000, "bytes": 110000, "pixels": 200000, "kinds": {"4:4:4": 1000}},
    "short256": {"files": 1000, "bytes": 30000, "pixels": 90000, "kinds": {"4:2:0": 1000}},
}


def result(rate):
    return {
        "images_per_s": rate,
        "cpu_s_per_1000": 2000 / rate,
        "first_batch_s": 0.5,
        "memory_mb": {"anonymous": 100.0, "shared": 20.0, "files": 500.0},
        "shape": [64, 224, 224, 3],
        "dtype": "uint8",
        "versions": {"python": "3.9.18", "numpy": "2.0.2"},
    }


def results():
    """Three rounds; the second one slow for all, and one failure of DALI."""
    rates = {
        "limit": (1000, 500, 1000),
        "ours-processes": (900, 440, 860),
        "dali": (600, None, 620),
        "grain": (500, 260, 500),
        "simplejpeg-cv2": (800, 390, 810),
    }
    return {
        (name, number): (result(rate), None) if rate else (None, "it crashed")
        for name, values in rates.items()
        for number, rate in enumerate(values)
    }


@pytest.fixture
def rows():
    made = figures.summarise(
        CHOSEN, results(), {"ours-processes": 110.0}, {"timm": "no Python 3.11"}
    )
    return {row.arm.name: row for row in made}


def test_a_row_has_the_median_and_the_extremes(rows):
    assert rows["ours-processes"].images_per_s == (860, 440, 900)
    assert rows["ours-processes"].runs == 3
    assert rows["ours-processes"].kb_an_image == 110.0
    assert rows["ours-processes"].output == "uint8 NHWC"


def test_ratios_are_taken_within_a_round(rows):
    # 0.9, 0.88, 0.86: the slow round changes nothing
    assert rows["ours-processes"].of_limit == pytest.approx(0.88)
    # against DALI, in the two rounds that it finished: 1.5 and 860/620
    assert rows["ours-processes"].of_best_peer == pytest.approx((900 / 600 + 860 / 620) / 2)


def test_the_best_peer_is_one_as_it_comes(rows):
    named = {arm.name: arm for arm in ARMS}
    best = figures.best_peer(CHOSEN, results(), named["ours-processes"])
    assert best.name == "dali"  # not the faster row that was written for the comparison
    assert rows["dali"].of_best_peer == 1
    assert figures.best_peer(CHOSEN, results(), named["s256-dali"]) is None


def test_raw_pixels_are_held_against_raw_pixels():
    named = {arm.name: arm for arm in ARMS}
    arms = [named[name] for name in ("dali", "ffcv-mixed", "ours-windows-threads")]
    found = {(arm.name, 0): (result(500 + place), None) for place, arm in enumerate(arms)}
    assert figures.best_peer(arms, found, named["ours-windows-threads"]).name == "dali"
    assert figures.best_peer(arms, found, named["ours-raw-threads"]).name == "ffcv-mixed"


def test_memory_leaves_mapped_files_out(rows):
    assert rows["grain"].memory_mb == 120


def test_what_failed_is_never_left_out(rows):
    assert rows["timm"].images_per_s is None
    assert rows["timm"].why_not == "no Python 3.11"
    assert rows["dali"].why_not == "1 of 3 rounds failed: it crashed"
    text = table.tables(list(rows.values()), DESCRIBED)
    assert "Not run:" in text
    assert "timm create_loader (timm): no Python 3.11" in text
    assert "1 of 3 rounds failed: it crashed" in text


def test_an_arm_that_always_failed_is_listed():
    failed = {("dali", number): (None, "no such library") for number in range(2)}
    arm = next(arm for arm in ARMS if arm.name == "dali")
    (row,) = figures.summarise([arm], failed, {}, {})
    assert row.images_per_s is None
    assert "no such library" in table.tables([row], DESCRIBED)


def test_the_table_reads_as_markdown(rows):
    text = table.tables(list(rows.values()), DESCRIBED)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert len({len(line) for line in lines}) == 1
    order = [text.index(words) for words in ("LIMIT", "OURS", "AS THEY COME", "WRITTEN BY US")]
    assert order == sorted(order)
    assert "x peer: of the fastest peer as it comes, DALI on the CPU (that decodes JPEG)" in text
    assert "python 3.9.18, numpy 2.0.2" in table.versions(list(rows.values()))


def test_rows_go_into_json(rows):
    json.dumps([{**row._asdict(), "arm": row.arm._asdict()} for row in rows.values()])


@pytest.mark.parametrize("picture", [plot, plot_bytes])
def test_the_pictures_are_drawn(rows, tmp_path, picture):
    picture.draw(list(rows.values()), tmp_path / "out.png", "a machine")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_the_limit_comes_with_what_it_limits():
    names = [arm.name for arm in choose(["dali", "ours-threads"])]
    assert names[:2] == ["limit", "s256-limit"]  # dali runs on both sets
    assert "ours-threads" in names
    assert "ours-processes" not in names
    assert [arm.name for arm in choose(["grain"])] == ["limit", "grain"]


def test_some_arms_run_only_when_they_are_named():
    default = {arm.name for arm in choose(None)}
    assert {"limit", "ours-processes", "ours-threads", "dali", "ffcv-jpg"} <= default
    assert "container-lmdb" not in default
    assert choose(["all"]) == ARMS
    assert {arm.name for arm in choose(["containers"])} > {"container-lmdb", "limit"}


def test_an_unknown_arm_is_refused():
    with pytest.raises(UnknownArm, match="no arm or group is called 'tensorflow'"):
        choose(["dali", "tensorflow"])
