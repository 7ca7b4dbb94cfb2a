"""Medians, ratios, verdict, tables: from recorded results."""

import json

import pytest
from rich.console import Console

from train.bench import about, comparison
from train.bench.arms import ARMS, choose, torch_settings
from train.bench.figures import Measured, as_made, percent, summarise, verdict
from train.bench.options import DESCRIPTION, BenchOptions
from train.bench.plot import FILES, _subtitle, draw
from train.bench.progress import Plan
from train.bench.run import first_words
from train.bench.table import page, result_line, screen_table, seconds
from train.config import Config, DataConfig
from train.errors import ConfigError
from train.machine import Measure

ARM = {arm.name: arm for arm in ARMS}


def result(speed, busy, **more):
    return {
        "images_per_s": speed,
        "busy_share": busy,
        "wait_share": 1 - busy,
        "cores": 1.5,
        "cpu_s_per_1000": 2.0,
        "first_batch_s": 0.5,
        "memory_bytes": 300 << 20,
        "accelerator": "simulated",
        **more,
    }


def measured(name, *results, settings=None, why_not=""):
    return Measured(ARM[name], settings or {"num_workers": 0}, ["a note"], list(results), why_not)


def rows_of(*arms, per_epoch=1000):
    return summarise(arms, per_epoch)


def test_medians_and_spread():
    results = [result(400, 0.4), result(380, 0.38), result(410, 0.41)]
    (row,) = rows_of(measured("plain", *results))
    assert row.spread["images_per_s"] == (400, 380, 410)
    assert row.spread["epoch_s"] == (2.5, 1000 / 410, 1000 / 380)
    assert row.middle("busy_share") == 0.4


def test_what_was_not_measured_is_left_out():
    failed = result(400, 1.0, first_batch_s=None, memory_bytes=None)
    (row,) = rows_of(measured("synthetic", failed, None))
    assert row.middle("first_batch_s") is None
    assert row.middle("memory_bytes") is None
    assert row.timer_s is None


def test_ratios_are_taken_within_a_round():
    """The machine was twice as fast in the second round: that is no gain of anybody."""
    plain = measured("plain", result(100, 0.4), result(200, 0.4))
    ours = measured("ours", result(240, 0.98), result(480, 0.98))
    limit = measured("synthetic", result(250, 1.0), result(500, 1.0))
    rows = rows_of(plain, ours, limit)
    assert [row.times_plain for row in rows] == [1.0, 2.4, 2.5]
    assert rows[1].of_limit == pytest.approx(0.96)


def test_a_round_that_failed_counts_for_nothing():
    plain = measured("plain", result(100, 0.4), result(200, 0.4))
    ours = measured("ours", None, result(500, 0.98), why_not="killed")
    assert rows_of(plain, ours)[1].times_plain == 2.5
    nothing = measured("ours", None, None, why_not="killed")
    assert rows_of(plain, nothing)[1].times_plain is None


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.4, "40 %"),
        (0.984, "98 %"),
        (0.997, "99 %"),
        (0.9996, "100 %"),
        (1.0, "100 %"),
        (0, "0 %"),
    ],
)
def test_percent_is_100_only_where_nothing_is_missing(share, text):
    assert percent(share) == text


def said(plain=None, ours=None, packed=None):
    pairs = (("plain", plain), ("ours", ours), ("packed", packed))
    return verdict(rows_of(*(measured(name, result(*of)) for name, of in pairs if of)))


def test_verdict():
    assert said((100, 0.4), (245, 0.98)) == "ours keeps it 98 % busy; an epoch takes 2.5 x less."
    assert said((100, 0.4), (240, 0.98), (250, 0.99)).startswith("ours keeps it 98 % busy; ")
    assert "train pack is worth it" in said((100, 0.4), (150, 0.6), (245, 0.98))
    assert "packed keeps it 98 % busy" in said((100, 0.4), (150, 0.6), (245, 0.98))
    assert "Loading is still the limit: train doctor" in said((100, 0.4), (150, 0.6), (151, 0.61))
    assert "loading is not your limit" in said((100, 0.98), (101, 0.99))
    assert "no gain over the plain loader (1.00 x)" in said((100, 0.5), (100, 0.5))
    assert said(ours=(100, 0.98)) == "ours keeps it 98 % busy."
    assert said(plain=(100, 0.4), packed=(240, 0.98)).startswith("packed keeps it 98 % busy")
    assert said(plain=(100, 0.4)) == ""


def test_no_verdict_where_the_device_is_not_what_it_was_made_to_be():
    """Plain gave 98 images/s at the calibration, beside other programs, and 245 in the race."""
    rows = rows_of(measured("plain", result(245, 0.99)), measured("ours", result(245, 0.99)))
    content = about.describe(facts(calibration={"images_per_s": 98.0}), rows, complete=True)
    assert content["verdict"] == (
        "calibration and race disagree (plain: 98, then 245 images/s): no verdict; measure again "
        "when it is quiet"
    )
    text = page(rows, content)
    assert "not your limit" not in text
    assert "2.5 x" not in text + _subtitle(content)
    settled = about.describe(facts(), everything(), complete=True)
    assert "2.5 x" in _subtitle(settled)
    # Where plain was not in the race, and where the device was asked for, nothing speaks for it.
    assert verdict(rows_of(measured("ours", result(245, 0.99))), 98.0).startswith("ours keeps it")
    assert "loading is not your limit" in verdict(rows)
    assert [as_made(busy) for busy in (0.2, 0.3, 0.4, 0.55, 0.6)] == [False] + [True] * 3 + [False]


def calibrated(monkeypatch, tmp_path, *shares):
    """What is said of a calibration whose checks find these busy shares; images/s of the device."""
    shares, said = list(shares), []
    speeds = iter((98.0, 100.0, 102.0))

    def measure(job, name, *_):
        if name == "check":
            return result(job["images_per_s"] / 2.5, shares.pop(0))
        return result(next(speeds), 0.0)

    monkeypatch.setattr(comparison, "measure", measure)
    monkeypatch.setattr(comparison, "say", lambda text, indent: said.append(text))
    one = facts(calibration=None, images_per_s=None)
    run = comparison.Comparison(one, None, tmp_path, tmp_path, lambda: False)
    run.reads[False] = comparison._Reads("file", "folder", [])
    run._calibrate(None)
    assert shares == []
    return said, one.images_per_s


def test_a_calibration_that_does_not_hold_is_made_once_more(monkeypatch, tmp_path):
    said, speed = calibrated(monkeypatch, tmp_path, 0.41)
    assert speed == 245
    assert [line.split(": ")[-1] for line in said] == [
        "plain keeps it 41 % busy; the articles begin at 40 %"
    ]
    said, speed = calibrated(monkeypatch, tmp_path, 0.99, 0.41)
    assert speed == 250
    assert "plain keeps it 99 % busy, and not about 40 %: measured once more" in said[0]
    said, _ = calibrated(monkeypatch, tmp_path, 0.99, 0.97)
    assert said[-1].endswith("something else runs here; the race tells")


def test_the_help_fits_80_columns():
    assert max(map(len, DESCRIPTION.splitlines())) <= 80


def test_it_says_first_what_comes_and_how_long_it_takes():
    assert first_words(BenchOptions(), True) == (
        "bench     5 arms, 3 rounds of 5 s: about 3 min, and packing, once. First the images are "
        "listed and read once, then the plain loader is measured alone"
    )
    assert first_words(BenchOptions(only="plain", rounds=1, seconds=1.0), False) == (
        "bench     1 arm, 1 round of 1 s: about 1 min. First the images are listed and read once"
    )
    assert "about 20 min, and packing" in first_words(BenchOptions(rounds=12, seconds=15.0), True)
    assert "it takes about 3 minutes, and packing" in " ".join(DESCRIPTION.split())


def test_one_round_is_no_rounds():
    assert about.rounds_words(BenchOptions(rounds=1, seconds=1.0)) == "1 round of 1 s an arm"
    assert "2 rounds of 1 s an arm, int" in about.rounds_words(BenchOptions(rounds=2, seconds=1.0))


@pytest.mark.parametrize(
    ("value", "text"), [(0.123, "0.12 s"), (4.26, "4.3 s"), (128.4, "128 s"), (6000, "100 min")]
)
def test_seconds(value, text):
    assert seconds(value) == text


def everything():
    speeds = {"plain": 365, "articles": 690, "ours": 898, "packed": 123905, "synthetic": 912}
    return rows_of(
        *(
            measured(name, *(result(speed, min(1, speed / 912), timer_s=0.8) for _ in range(2)))
            for name, speed in speeds.items()
        )
    )


def facts(**changes):
    given = {
        "config": Config(DataConfig(path="data/photos", batch_size=32)),
        "options": BenchOptions(rounds=2, seconds=1.0),
        "cpus": Measure("CPUs", 2, "affinity"),
        "kind": "sim",
        "name": "photos",
        "root": "data/photos",
        "container": "folder",
        "classes": 3,
        "train_images": 1000,
        "images_per_epoch": 1000,
        "images_per_s": 912.0,
        "calibration": {"images_per_s": 365.0},
        "warm": ["files warm: all 90 MiB were read before"],
    }
    return about.Facts(**{**given, **changes})


def test_the_screen_fits_80_columns():
    console = Console(width=80, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(screen_table(everything()))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert [line.split()[0] for line in lines[-5:]] == list(ARM)


def test_the_page_holds_the_figures_the_method_and_the_articles():
    rows = [*everything(), *rows_of(measured("packed", None, why_not="the disk is full"))]
    content = about.describe(facts(), rows, complete=True)
    text = page(rows, content)
    assert content["verdict"] in text
    assert "| **ours** | 898 (898 to 898) | 98.5 (98.5 to 98.5) |" in text
    for words in (
        "40 %",
        "85 %",
        "128",
        "78",
        "51 busy seconds",
        "66",
        "nvidia-smi",
        "CUDA events",
    ):
        assert words in text, words
    assert "next(iter(loader))" in text
    assert "with workers it times their start" in text
    assert "packed: not measured: the disk is full" in text
    assert "2.5 x the plain loader's own 365" in text
    assert "warm: all 90 MiB" in text
    assert "python -m train bench --data.path data/photos --data.batch_size 32" in text


def test_the_json_has_every_single_result():
    content = json.loads(json.dumps(about.describe(facts(), everything(), complete=False)))
    assert content["complete"] is False
    assert len(content["arms"]["ours"]["rounds"]) == 2
    assert content["arms"]["ours"]["medians"]["images_per_s"] == 898
    assert content["arms"]["ours"]["timer_s"] == 0.8
    assert content["articles"] == {"gpu_use": [0.40, 0.85], "epoch_s": [128.0, 78.0]}
    assert content["accelerator"]["images_per_s"] == 912
    assert {row["name"] for row in content["machine"]} >= {"kernel", "torch"}


def test_other_programs_are_told_of():
    quiet, busy = result(10, 0.9, others_cores=0.1), result(10, 0.9, others_cores=1.4)
    assert about.disturbed(rows_of(measured("ours", quiet)), 2) == ""
    assert about.disturbed(rows_of(measured("ours", result(10, 0.9))), 2) == ""
    assert "kept 1.4 of 2 cores busy" in about.disturbed(rows_of(measured("ours", busy)), 2)
    content = about.describe(facts(), rows_of(measured("ours", busy)), True)
    assert "quiet machine" in content["how"][-1]


@pytest.mark.parametrize(
    ("workers", "kind", "words"),
    [
        (0, "process", "no workers: the program makes the batches itself"),
        (1, "thread", "1 thread, prefetch 2"),
        (3, "process", "3 processes, prefetch 2"),
    ],
)
def test_a_loader_in_words(workers, kind, words):
    assert about.loader_words({"workers": workers, "workers_kind": kind, "prefetch": 2}) == words


def test_a_real_accelerator_is_named():
    rows = rows_of(measured("ours", result(10, 0.9, accelerator="Some GPU")))
    content = about.describe(facts(kind="cuda", calibration=None), rows, complete=True)
    assert content["accelerator"]["words"] == "Some GPU, training resnet18"
    assert "before the model is made" in page(rows, content)


def test_the_plot_comes_light_and_dark(tmp_path):
    from PIL import Image

    rows = everything()
    assert draw(rows, about.describe(facts(), rows, True), tmp_path) == list(FILES)
    light, dark = (Image.open(tmp_path / name).convert("L") for name in FILES)
    assert light.size == dark.size
    assert light.width == 1600
    assert light.getpixel((3, 3)) > 200 > 60 > dark.getpixel((3, 3))


def test_one_arm_and_one_round_make_a_plot(tmp_path):
    rows = rows_of(measured("plain", result(10, 0.05)), measured("ours", None, why_not="no"))
    assert draw(rows, about.describe(facts(), rows, True), tmp_path)


def test_a_result_in_a_line():
    assert result_line(result(1234.5, 0.98)).split() == (
        ["1,234", "images/s", "98", "%", "busy", "first", "batch", "0.50", "s"]
    )
    assert "first batch" not in result_line(result(1234.5, 0.98, first_batch_s=None))


# options and arms


def test_only():
    assert [arm.name for arm in choose(None)] == list(ARM)
    assert [arm.name for arm in choose("ours, plain")] == ["plain", "ours"]
    with pytest.raises(ConfigError, match="no arm is called 'mine'; there are plain, articles"):
        choose("plain,mine")
    with pytest.raises(ConfigError, match="names no arm"):
        choose(" , ")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rounds": 0}, "--rounds must be 1 to 100, got 0"),
        ({"seconds": 0.1}, "--seconds must be"),
        ({"accelerator": "tpu"}, "--accelerator must be"),
        ({"only": "plain", "packed": "x"}, "--packed has no effect"),
        ({"out": ""}, "a path is empty"),
    ],
)
def test_wrong_options(wrong, message):
    with pytest.raises(ConfigError, match=message):
        BenchOptions(**wrong)


@pytest.mark.parametrize(("cpus", "workers"), [(1, 1), (2, 2), (4, 3), (10, 8), (64, 51)])
def test_the_articles_workers_fit_the_machine(cpus, workers):
    settings = torch_settings(ARM["articles"], cpus, cuda=True)
    assert settings == {
        "num_workers": workers,
        "prefetch_factor": 4,
        "persistent_workers": True,
        "pin_memory": True,
    }
    assert torch_settings(ARM["plain"], cpus, cuda=True) == {"num_workers": 0}


def test_the_command_says_what_was_asked_for():
    config = Config(DataConfig(path="a b", workers=2))
    options = BenchOptions(accelerator="sim:100", only="plain,ours", out="x")
    assert about.command(config, options) == (
        "python -m train bench --data.path 'a b' --data.workers 2 --accelerator sim:100 "
        "--only plain,ours"
    )


# time left


def test_time_left_is_learnt_from_what_was_done():
    plan = Plan(["calibration", "plain", "ours", "plain", "ours"], guess_s=10.0)
    assert plan.left_s() == 50
    plan.done("calibration", 4.0)
    assert plan.left_s() == 16  # as long as the longest seen
    plan.done("plain", 6.0)
    assert plan.left_s() == 6 + 2 * 6
    assert plan.left_s("ours", since_s=2.0) == 16
    assert plan.left_s("ours", since_s=60.0) == 12
    plan.done("ours", 1.0)
    plan.drop("plain")
    assert plan.left_s() == 1
    assert plan.elapsed_s == 11
