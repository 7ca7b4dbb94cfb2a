"""The curves of a run: read back by TensorBoard itself, whatever the disk did meanwhile."""

import errno
import time

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from train import curves
from train.curves import Curves


def read(folder):
    """tag -> points as (step, value), as TensorBoard reads the folder."""
    found = EventAccumulator(str(folder))
    found.Reload()
    return {
        tag: [(point.step, point.value) for point in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def full(monkeypatch, written=0):
    """From now on the disk takes `written` bytes of what is written, and then it is full."""

    class Half:
        def __init__(self, path, mode):
            self.file = open(path, mode)  # noqa: SIM115  closed below

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            self.file.write(data[:written])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(curves, "open", Half, raising=False)


def test_tensorboard_reads_what_was_written(tmp_path):
    board = Curves(tmp_path / "tensorboard")
    for epoch in range(3):
        board.add([("train/loss", 2.0 - epoch), ("val/top1", 0.25 * epoch)], epoch)
    board.close()
    assert read(tmp_path / "tensorboard") == {
        "train/loss": [(0, 2.0), (1, 1.0), (2, 0.0)],
        "val/top1": [(0, 0.0), (1, 0.25), (2, 0.5)],
    }
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1


@pytest.mark.parametrize("written", [0, 7, 60])
def test_what_a_full_disk_refused_is_written_with_the_next(tmp_path, monkeypatch, written):
    board = Curves(tmp_path)
    board.add([("loss", 3.0)], 0)
    full(monkeypatch, written)
    for epoch in (1, 2):
        with pytest.raises(OSError, match="No space left"):
            board.add([("loss", 3.0 - epoch)], epoch)
    monkeypatch.undo()
    board.add([("loss", 0.0)], 3)
    # Half an event may stand at the end of a file; what follows is in another one.
    points = {}
    for path in sorted(tmp_path.iterdir()):
        for tag, found in read(path).items():
            points.setdefault(tag, []).extend(found)
    assert sorted(set(points["loss"])) == [(0, 3.0), (1, 2.0), (2, 1.0), (3, 0.0)]


def test_a_resumed_run_comes_after_the_one_before_whatever_the_clock_says(tmp_path, monkeypatch):
    Curves(tmp_path).add([("loss", 1.0)], 0)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 1e6)
    Curves(tmp_path).add([("loss", 0.5)], 1)
    first, second = sorted(tmp_path.iterdir())
    assert read(first) == {"loss": [(0, 1.0)]}
    assert read(second) == {"loss": [(1, 0.5)]}


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        Curves(tmp_path / "file/tensorboard")
