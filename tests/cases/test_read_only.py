"""A run's folder that can't be written: from the start, and from the middle of a run on."""

import contextlib
import json
import os
import shutil
import subprocess

import pytest
import torch
from small_run import arguments, assert_same_weights, fit, make_images


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), train=6, val=2)


def settings(data, folder, **more):
    return arguments(data, folder, data__batch_size=6, data__workers=0, optim__epochs=3, **more)


class Lid:
    """Makes a folder read-only and writable again, for this process too.

    Root may write everywhere, so for root the folder is mounted on itself, read-only.
    """

    def __init__(self, folder):
        self.folder, self.closed = folder, False

    def close(self):
        """From now on nothing can be written there."""
        if os.geteuid() != 0:
            for path in (self.folder, self.folder / "checkpoints", self.folder / "tensorboard"):
                path.chmod(0o555)
        else:
            self._mount("--bind", str(self.folder), str(self.folder))
            self.closed = True
            self._mount("-o", "remount,bind,ro", str(self.folder))
        self.closed = True

    def open(self):
        """As it was."""
        if not self.closed:
            return
        if os.geteuid() != 0:
            for path in (self.folder, self.folder / "checkpoints", self.folder / "tensorboard"):
                path.chmod(0o755)
        else:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)
        self.closed = False

    def _mount(self, *words):
        if not shutil.which("mount"):
            pytest.skip("root may write everywhere, and this machine has no mount")
        done = subprocess.run(["mount", *words], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"root may write everywhere, and may mount nothing here: {done.stderr}")


@contextlib.contextmanager
def lid_of(folder):
    lid = Lid(folder)
    try:
        yield lid
    finally:
        lid.open()


def test_a_new_run_is_refused_with_one_message(tmp_path, data, capsys):
    place = tmp_path / "place"
    for name in ("checkpoints", "tensorboard"):
        (place / name).mkdir(parents=True)
    with lid_of(place) as lid:
        lid.close()
        assert fit(*settings(data, place / "run")) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: cannot write")
    assert "choose another place with run.folder" in " ".join(error.split())
    assert "Traceback" not in error
    assert not (place / "run").exists()


def test_a_resumed_run_is_refused_before_it_computes(tmp_path, data, capsys):
    folder = tmp_path / "run"
    assert fit(*settings(data, folder, run__max_steps=4)) == 0
    before = (folder / "checkpoints/last.pt").read_bytes()
    capsys.readouterr()
    with lid_of(folder) as lid:
        lid.close()
        assert fit("fit", f"--run.resume={folder}", "--run.max_steps=null") == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: cannot write")
    assert "epoch 2/3" not in captured.out
    assert "Traceback" not in captured.err
    assert (folder / "checkpoints/last.pt").read_bytes() == before


@pytest.fixture
def closing(monkeypatch):
    """A function: close a lid when the first save is done, open it before save number `until`."""
    from train.saving import Saver

    saves, save = [], Saver.save

    def arrange(lid, until=None):
        def closed(self, state, is_best=False):
            if len(saves) + 1 == until:
                lid.open()
            save(self, state, is_best)
            saves.append(state.step)
            if len(saves) == 1:
                lid.close()

        monkeypatch.setattr(Saver, "save", closed)

    return arrange


def test_the_run_goes_on_says_so_and_saves_when_it_can(tmp_path, data, capsys, closing):
    assert fit(*settings(data, tmp_path / "whole")) == 0
    capsys.readouterr()
    folder = tmp_path / "run"
    with lid_of(folder) as lid:
        closing(lid, until=3)
        assert fit(*settings(data, folder)) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("The run goes on; the next save tries again") == 1
    assert "saved again: epoch" in text
    assert_same_weights(folder, tmp_path / "whole")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [0, 1, 2]
    assert (folder / "report.html").exists()


def test_an_end_that_is_not_saved_is_no_success(tmp_path, data, capsys, closing):
    folder = tmp_path / "run"
    with lid_of(folder) as lid:
        closing(lid)
        assert fit(*settings(data, folder)) == 2
    captured = capsys.readouterr()
    assert "epoch 3/3" in captured.out  # it went on to the end
    assert captured.err.startswith("error: the end of the run is not saved: cannot write")
    assert "Traceback" not in captured.err
    assert torch.load(folder / "checkpoints/last.pt", weights_only=True)["step"] == 3
