"""make profile: which way is taken, what is shown where py-spy may not look, a whole short run."""

import stat
import types
from pathlib import Path

import profile_frames
import profile_inside
import profile_run
import profile_stacks
import pytest
from small_run import make_images

TOLD = """\
Thread 0x00007f01 (most recent call first):
  File "/x/python/lib/threading.py", line 1 in wait

Current thread 0x00007f02 (most recent call first):
  File "/x/torch/nn/conv.py", line 549 in _conv_forward
  File "/x/train/loop.py", line 113 in train_epoch
worker 0 (process 17, computing):
  File "/x/train/data/decode.py", line 231 in _by_libjpeg
  File "/x/train/data/batch.py", line 192 in _render
worker 1 (process 18, asleep):
  it does not answer: it waits inside the kernel, or is stopped
Current thread 0x00007f02 (most recent call first):
  File "/x/torch/autograd/graph.py", line 823 in backward
worker 0 (process 17, computing):
  File "/x/train/data/decode.py", line 231 in _by_libjpeg
"""


def test_innermost_calls_are_counted_by_process():
    found = profile_stacks.count(TOLD)
    assert found == {
        "training": {
            "_conv_forward (nn/conv.py:549)": 1,
            "backward (autograd/graph.py:823)": 1,
        },
        "worker 0": {"_by_libjpeg (data/decode.py:231)": 2},
    }
    lines = profile_stacks.table(found, 2)
    assert lines[0] == "where it stood, in 2 looks:"
    assert "  worker 0   100%  _by_libjpeg (data/decode.py:231)" in lines
    assert profile_stacks.table({}, 0) == ["no stack was told: the run was too short"]


def frame(name, y, x, width):
    return (
        f'<g><title>{name} ({width:,} samples, 9.99%)</title><rect x="0.0%" y="{y}" '
        f'width="1.0%" height="15" fill="rgb(0,0,0)" fg:x="{x}" fg:w="{width}"/></g>'
    )


DRAWN = "".join(
    [
        frame("all", 52, 0, 2100),
        frame("process 7:&quot;python&quot;", 68, 0, 2090),
        frame("epoch (train/loop.py:1)", 84, 0, 1500),
        frame("&lt;module&gt; (x.py:3)", 84, 1500, 500),
        frame("backward (torch/graph.py:9)", 100, 0, 900),
        frame("epoch_end (train/loop.py:7)", 100, 900, 200),
        frame("decode (train/decode.py:4)", 100, 1600, 250),
        frame("decode (train/decode.py:5)", 100, 1850, 150),
    ]
)


def test_a_flame_graph_in_a_few_lines():
    """What a call took itself: its samples without those of what it calls."""
    assert profile_frames.own_samples(DRAWN) == {
        "backward (torch/graph.py)": 900,
        "epoch (train/loop.py)": 400,
        "decode (train/decode.py)": 400,
        "epoch_end (train/loop.py)": 200,
        "<module> (x.py)": 100,
    }
    lines = profile_frames.table(DRAWN)
    assert lines[:2] == [
        "where the CPU time went, in all processes:",
        "   45%  backward (torch/graph.py)",
    ]
    assert len(lines) == 1 + profile_frames.MOST
    assert profile_frames.table("<svg></svg>") == []


@pytest.mark.parametrize("draws", [True, False])
def test_what_py_spy_says_itself_is_told_only_when_nothing_was_drawn(
    tmp_path, monkeypatch, capfd, draws
):
    (tmp_path / "flames").write_text(DRAWN)
    (tmp_path / "run").mkdir()
    copy = f'cp {tmp_path}/flames "$6"' if draws else "exit 1"
    fake_spy(tmp_path, monkeypatch, f'echo "py-spy> Wrote to $6"; {copy}')
    assert profile_run._record(tmp_path / "run", ["--pid", "1"]) == (0 if draws else 1)
    told = capfd.readouterr()
    assert ("py-spy>" in told.out + told.err) is not draws
    assert ("backward (torch/graph.py)" in told.out) is draws
    assert ("flame graph " in told.out) is draws


def fake_spy(tmp_path, monkeypatch, script):
    path = tmp_path / "py-spy"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(profile_run, "_spy", lambda: str(path))


@pytest.mark.parametrize(
    ("script", "way", "reason"),
    [
        ("exit 0", "attach", ""),
        ('for a; do test "$a" = --pid && exit 1; done; exit 0', "start", ""),
        (
            "echo 'Error: Permission Denied: Try running again with elevated permissions.' >&2; "
            "exit 1",
            "stacks",
            "Error: Permission Denied: Try running again with elevated permissions",
        ),
        ("exit 3", "stacks", "exit code 3"),
    ],
)
def test_the_way_to_look(tmp_path, monkeypatch, script, way, reason):
    fake_spy(tmp_path, monkeypatch, script)
    assert profile_run.way() == (way, reason)


def test_without_py_spy(monkeypatch):
    monkeypatch.setattr(profile_run, "_spy", lambda: None)
    assert profile_run.way() == ("stacks", "it is not installed: pip install py-spy")


def test_a_run_whose_stacks_are_told_where_py_spy_may_not_look(tmp_path, monkeypatch, capfd):
    """The whole way: message, run, stop, stacks.txt, table, link in the report."""
    fake_spy(tmp_path, monkeypatch, "echo 'Operation not permitted' >&2; exit 1")
    monkeypatch.setattr(profile_stacks, "EVERY_S", 0.2)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    run = tmp_path / "run"
    code = profile_run.main(
        [
            *("--seconds", "1", f"--data.path={make_images(tmp_path / 'data')}"),
            *("--data.image_size=32", "--data.batch_size=8", "--data.workers=1"),
            *("--data.workers_kind=process", "--data.prefetch=2"),  # nothing is left to tune
            *("--model.name=shufflenet_v2_x0_5", "--optim.epochs=500", "--run.device=cpu"),
            *("--run.folder", str(run)),
        ]
    )
    told = capfd.readouterr().out
    assert code == 0
    assert "1 s are over: the run was stopped" in told
    assert "SIGINT" not in told + (run / "stacks.txt").read_text()
    assert "go on with" not in told + (run / "stacks.txt").read_text()
    assert "No flame graph: py-spy may not look" in told
    assert "(Operation not permitted)" in told
    assert "docker run --cap-add SYS_PTRACE" in told
    assert "-f compose.profile.yml" in told
    assert "  training  " in told
    assert "worker 0 (process" in (run / "stacks.txt").read_text()
    assert '<a href="stacks.txt">' in (run / "report.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "py-spy", "run"]


def test_a_mistake_in_the_settings_is_the_runs_own_message(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(profile_run, "way", lambda: ("stacks", "a test"))
    code = profile_run.main(["--data.colour=red", f"--run.folder={tmp_path / 'run'}"])
    assert code == 2
    told = capfd.readouterr().err
    assert "data.colour" in told
    assert "exit code 2: there is no profile" in told
    assert list(tmp_path.iterdir()) == []


def test_the_compose_file_that_is_named_is_there():
    root = Path(profile_run.__file__).parents[1]
    assert "SYS_PTRACE" in (root / "compose.profile.yml").read_text()
    assert "compose.profile.yml" in profile_run.NOT_PERMITTED


# torch's profiler


@pytest.fixture
def traced(monkeypatch, tmp_path):
    """`train_epoch` with a stand-in for the training, in a run's folder; the folder."""
    import torch

    from train import loop

    def train_epoch(state, after_step):
        for _ in range(state):
            torch.ones(3) + 1
            if after_step():
                break
        return "timing"

    monkeypatch.setattr(loop, "train_epoch", train_epoch)
    profile_inside._trace_first_epoch(tmp_path)
    return tmp_path


def test_a_trace_of_some_steps_is_written_once(traced, capsys):
    from train import loop

    assert loop.train_epoch(20, after_step=lambda: False) == "timing"
    assert loop.train_epoch(20, lambda: False) == "timing"
    assert [path.name for path in traced.iterdir()] == ["trace.json.gz"]
    assert "trace.json.gz: open it at" in capsys.readouterr().out


def test_a_trace_follows_a_run_that_ends_early(traced):
    from train import loop

    assert loop.train_epoch(20, after_step=lambda: True) == "timing"


class Recorded:
    """A profiler that saw the CPU alone, as without the right to use CUPTI."""

    def export_chrome_trace(self, path):
        Path(path).write_text("{}")

    def events(self):
        return [types.SimpleNamespace(device_type="DeviceType.CPU")]


@pytest.mark.parametrize("cuda", [True, False])
def test_a_device_whose_kernels_may_not_be_read_is_told(tmp_path, capsys, cuda):
    profile_inside.write_trace(Recorded(), tmp_path, cuda)
    assert capsys.readouterr().out.count("(CUPTI)") == cuda
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json.gz"]


@pytest.mark.parametrize(
    ("kinds", "seen"), [([], False), (["DeviceType.CPU"], False), (["DeviceType.CUDA"], True)]
)
def test_events_of_a_device(kinds, seen):
    events = [types.SimpleNamespace(device_type=kind) for kind in kinds]
    assert profile_inside.sees_device(events) is seen
