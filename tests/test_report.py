import html
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from train.errors import SetupError
from train.report import write_report


def row(epoch, **changes):
    values = {
        "epoch": epoch,
        "step": 25 * (epoch + 1),
        "lr": 0.1,
        "train_loss": 2.0 - 0.1 * epoch,
        "train_top1": 0.2 + 0.05 * epoch,
        "train_top5": 0.7,
        "val_loss": 1.9 - 0.1 * epoch,
        "val_top1": 0.4 + 0.04 * epoch,
        "val_top5": 0.85,
        "val_samples": 400,
        "images_per_s": 123.0 + epoch,
        "data_wait_share": 0.012,
        "first_batch_s": 0.41,
        "train_s": 13.0,
        "val_s": 2.0,
        "bad_samples": 0,
        "skipped_steps": 0,
        "gpu_util": None,
        "time": 1790000000.0,
    }
    return {**values, **changes}


def write_run(folder, rows, bad=()):
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(
        "data: {path: data/sample, image_size: 64}\n"
        "model: {name: resnet18}\noptim: {epochs: 10}\nrun: {seed: 42}\n"
    )
    (folder / "metrics.jsonl").write_text("".join(json.dumps(item) + "\n" for item in rows))
    settings = [{"name": "data.workers", "value": 1, "reason": "2 usable CPUs (affinity)"}]
    (folder / "settings.json").write_text(json.dumps(settings))
    machine = [{"name": "CPUs", "value": "2", "source": "sched_getaffinity"}]
    (folder / "machine.json").write_text(json.dumps(machine))
    if bad:
        (folder / "bad_samples.jsonl").write_text("".join(json.dumps(item) + "\n" for item in bad))
    return folder


class Page(HTMLParser):
    """The page's text, and a check that every element that is opened is closed."""

    VOID = ("meta", "link", "br", "img", "hr")

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text("utf-8")
        self.open, self.tags, self.parts, self.links = [], [], [], []
        self.feed(self.source)
        assert self.open == []
        shown = self.source[self.source.index("<body>") :]
        shown = re.sub(r"<svg.*?</svg>", " ", shown, flags=re.DOTALL)
        shown = html.unescape(re.sub(r"<[^>]*>", " ", shown)).replace("\xa0", " ")
        self.text = " ".join(shown.split())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("href", "src", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("href", "src", "xlink:href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_whole_run(tmp_path):
    run = write_run(tmp_path / "run", [row(epoch) for epoch in range(10)])
    path = write_report(run)
    assert path == run / "report.html"
    page = Page(path)
    assert "Top-1 76.0 % after 10 epochs; the device waited 1.2 % of its time for data" in page.text
    assert "resnet18 on data/sample, 64 px; last epoch ended 2026-09-21 14:13 UTC" in page.text
    assert "Best top-1 76.0 % epoch 10" in page.text
    assert "Images per second 128 median of epochs" in page.text
    assert "Time 2 min 30 s 10 epochs" in page.text
    assert "data.workers 1 2 usable CPUs (affinity)" in page.text
    assert "CPUs 2 sched_getaffinity" in page.text
    assert f"python -m train fit --run.resume {run}" in page.text
    assert f"--config {run}/config.yaml --run.folder {run}-again" in page.text
    assert "model: {name: resnet18}" in page.text
    assert "Bad samples None was written down." in page.text
    assert 'class="note"' not in page.source
    assert page.tags.count("svg") == 4
    assert sorted(item.name for item in run.iterdir() if "report" in item.name) == ["report.html"]


def test_page_needs_nothing_but_itself(tmp_path):
    page = Page(write_report(write_run(tmp_path / "run", [row(0), row(1)])))
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert re.findall(r"https?://[^\"' <]+", page.source) == []
    assert "@import" not in page.source
    ids = re.findall(r' id="([^"]+)"', page.source)
    assert len(ids) == len(set(ids))


def test_curves_take_the_pages_colours_and_show_each_epoch(tmp_path):
    page = Page(write_report(write_run(tmp_path / "run", [row(epoch) for epoch in range(5)])))
    charts = re.findall(r"<svg.*?</svg>", page.source, flags=re.DOTALL)
    assert not any(re.search(r"#[0-9a-f]{6}\b", chart) for chart in charts)
    assert [chart.count("<use") for chart in charts] == [10, 15, 5, 5]
    assert all(f"var(--{name})" in charts[1] for name in ("first", "second", "third"))
    assert "Loss by epoch: training from 2 to 1.6; validation from 1.9 to 1.5" in page.source


def test_one_epoch(tmp_path):
    page = Page(write_report(write_run(tmp_path / "run", [row(0)])))
    assert "Top-1 40.0 % after 1 of 10 epochs;" in page.text
    chart = re.search(r"<svg.*?</svg>", page.source, flags=re.DOTALL).group()
    assert chart.count("<use") == 2
    labels = re.findall(r"text-anchor: middle[^>]*>([^<]+)<", chart)
    assert labels == ["1"]


def test_the_title_gives_the_best_epoch_where_the_last_is_worse(tmp_path):
    rows = [row(0), row(1, val_top1=0.742), row(2, val_top1=0.71)]
    text = Page(write_report(write_run(tmp_path / "run", rows))).text
    assert "Top-1 71.0 % after 3 of 10 epochs (best 74.2 %, epoch 2); the device waited" in text


def test_same_files_same_bytes(tmp_path):
    run = write_run(tmp_path / "run", [row(0), row(1, val_loss=None)])
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first
    code = "import pathlib, sys, train.report as r; r.write_report(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(run)], check=True, timeout=180)
    assert (run / "report.html").read_bytes() == first


def test_everything_is_escaped(tmp_path):
    name = "train/<script>alert(1)</script>/caf\udce9 & \"x\" 'y'\n\u202egpj.jpg"
    bad = [{"key": name, "index": 3, "reason": "<img src=x onerror=alert(1)>", "rank": 0}]
    run = write_run(tmp_path / "a <b> & 'c'", [row(0)], bad)
    settings = [{"name": "<i>", "value": {"a": "</table>"}, "reason": "$run ${headline}"}]
    (run / "settings.json").write_text(json.dumps(settings))
    with open(run / "config.yaml", "a") as file:
        file.write("# </pre><script>alert(2)</script>\n")
    page = Page(write_report(run))
    assert not {"script", "img", "b", "i"} & set(page.tags)
    assert "<script>alert(1)</script>/caf\\udce9 & \"x\" 'y'\\n\\u202egpj.jpg" in page.text
    assert "<img src=x onerror=alert(1)>" in page.text
    assert "$run ${headline}" in page.text
    assert "a <b> & " in page.text


def test_folder_name_that_is_no_utf8(tmp_path):
    run = write_run(tmp_path / os.fsdecode(b"caf\xe9"), [row(0)])
    assert "caf\\udce9" in Page(write_report(run)).text


def test_bad_samples_are_counted_and_the_first_are_shown(tmp_path):
    bad = [
        {"key": f"ring/{i:03d}.jpg", "index": i, "reason": "empty", "rank": 0} for i in range(23)
    ]
    page = Page(write_report(write_run(tmp_path / "run", [row(0)], bad)))
    assert "23 samples could not be used and were left out or replaced" in page.text
    assert "The first 20 are shown" in page.text
    assert "ring/019.jpg empty" in page.text
    assert "ring/020.jpg" not in page.text


def test_one_bad_sample(tmp_path):
    bad = [{"key": "ring/7.jpg", "index": 7, "reason": "empty", "rank": 0}]
    page = Page(write_report(write_run(tmp_path / "run", [row(0)], bad)))
    assert (
        "1 sample could not be used and was left out or replaced by another one. File" in page.text
    )


def test_nothing_there_at_all(tmp_path):
    page = Page(write_report(tmp_path))
    assert "No epoch is finished yet" in page.text
    assert "metrics.jsonl is not there: the curves and results are missing" in page.text
    for name in ("config.yaml", "settings.json", "machine.json"):
        assert f"{name} is not there" in page.text
    assert page.text.count("no values yet") == 4


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "settings.json", "machine.json"])
def test_each_file_may_be_missing(tmp_path, name):
    run = write_run(tmp_path / "run", [row(0)])
    (run / name).unlink()
    page = Page(write_report(run))
    assert f"{name} is not there" in page.text
    assert page.source.count('<div class="note"><p>') == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\xff\xfe", b"[1, 2", b"{", b"[[[[", b"null", b"17", b'"x"', b"[" * 100_000],
    ids=range(9),
)
def test_each_file_may_hold_anything(tmp_path, content):
    run = write_run(tmp_path / "run", [row(0)])
    for name in ("config.yaml", "settings.json", "machine.json", "metrics.jsonl"):
        (run / name).write_bytes(content)
    (run / "bad_samples.jsonl").write_bytes(content)
    assert "No epoch is finished yet" in Page(write_report(run)).text


def test_last_line_of_metrics_cut_off(tmp_path):
    run = write_run(tmp_path / "run", [row(0), row(1)])
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps(row(2))[:40])
    page = Page(write_report(run))
    assert "after 2 of 10 epochs" in page.text
    assert "metrics.jsonl: 1 damaged or cut off line(s) left out" in page.text


def test_unknown_numbers_are_gaps(tmp_path):
    values = [None, float("nan"), float("inf"), "fast", True, 1e300, 10**400]
    rows = [row(i, val_loss=value, images_per_s=value) for i, value in enumerate(values)]
    page = Page(write_report(write_run(tmp_path / "run", [*rows, row(7), row(8)])))
    charts = re.findall(r"<svg.*?</svg>", page.source, flags=re.DOTALL)
    assert [chart.count("<use") for chart in charts] == [11, 27, 2, 9]
    assert not re.search(r"\b(nan|inf)\b", page.source.lower())
    assert "Top-1 72.0 %" in page.text


def test_all_numbers_unknown(tmp_path):
    empty = {name: None for name in row(0) if name != "epoch"}
    page = Page(write_report(write_run(tmp_path / "run", [{"epoch": 0, **empty}, {"epoch": 1}])))
    assert "No accuracy after 2 of 10 epochs" in page.text
    assert page.text.count("no values yet") == 4


def test_rows_of_a_resumed_run_count_once(tmp_path):
    run = write_run(tmp_path / "run", [row(0), row(1, val_top1=0.1), row(1, val_top1=0.9)])
    assert "Top-1 90.0 % after 2 of 10 epochs" in Page(write_report(run)).text


def test_waiting_counts_by_time(tmp_path):
    rows = [row(0, data_wait_share=0.5, train_s=10), row(1, data_wait_share=0.0, train_s=90)]
    assert "waited 5.0 % of its time" in Page(write_report(write_run(tmp_path / "r", rows))).text


def test_gpu_use_is_shown_where_it_is_known(tmp_path):
    page = Page(write_report(write_run(tmp_path / "run", [row(0, gpu_util=93.0)])))
    assert "GPU in use 93 % as nvidia-smi counts" in page.text


def test_the_stages_of_workers_and_what_was_short(tmp_path):
    shares = {"read_share": 0.05, "decode_share": 0.9}
    rows = [row(0, **shares, data_wait_share=0.1, short_stage="the first batch")]
    rows += [
        row(epoch, **shares, short_stage=f"decoding: 1.{epoch} of 2 workers' time")
        for epoch in range(1, 5)
    ]
    rows.append(row(5, **shares, data_wait_share=0.001, short_stage=None))
    page = Page(write_report(write_run(tmp_path / "run", rows)))
    assert page.tags.count("svg") == 5
    assert "Workers' time reading decoding and resizing" in page.text
    assert "decoding 1.4 of 2 workers' time in the last of them 4 epochs" in page.text
    assert "the first batch 1 epoch" in page.text
    assert "nothing 1 epoch" in page.text


def test_a_data_set_of_ones_own_has_other_stages(tmp_path):
    rows = [row(0, sample_share=0.8, collate_share=0.1, short_stage="<b>: 3"), row(1)]
    page = Page(write_report(write_run(tmp_path / "run", rows)))
    assert "Workers' time the data set's samples collating" in page.text
    assert "<b>: 3" in page.text
    assert "<b>" not in page.source


def test_profiles_are_linked_where_they_are(tmp_path):
    run = write_run(tmp_path / "run", [row(0)])
    assert "Profile" not in Page(write_report(run)).text
    (run / "profile.svg").touch()
    (run / "trace.json.gz").touch()
    page = Page(write_report(run))
    links = [link for link in page.links if not link.startswith("#")]
    assert links == ["profile.svg", "trace.json.gz"]
    assert "Profile profile.svg : flame graph of all processes" in page.text


def test_many_epochs(tmp_path):
    page = Page(
        write_report(write_run(tmp_path / "run", [row(i, val_top1=0.5) for i in range(300)]))
    )
    assert "after 300 epochs" in page.text
    chart = re.search(r"<svg.*?</svg>", page.source, flags=re.DOTALL).group()
    assert "<use" not in chart


def test_page_that_cannot_be_written_keeps_the_old_one(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", [row(0)])
    before = write_report(run).read_bytes()
    write_run(run, [row(0), row(1)])

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(SetupError, match=r"report\.html.*the disk is full"):
        write_report(run)
    assert (run / "report.html").read_bytes() == before
    assert not [item for item in run.iterdir() if item.name.endswith(".part")]


def test_matplotlib_is_left_as_it_was(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    write_report(write_run(tmp_path / "run", [row(0)]))
    assert dict(matplotlib.rcParams) == before
    code = (
        "import sys, train.report; assert 'matplotlib' not in sys.modules;"
        "import pathlib; train.report.write_report(pathlib.Path(sys.argv[1]));"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True, timeout=180)
