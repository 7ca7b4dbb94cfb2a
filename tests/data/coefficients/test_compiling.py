"""Kernels are compiled by one process, and a person is told."""

import fcntl
import threading

from train.data.coefficients.compiling import compiling
from train.data.kernels import numba


def test_one_line_says_so_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "new"))
    for _ in range(2):
        with compiling():
            pass
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "compiling the kernels for coefficient records, once on this machine: about" in said


def test_others_wait_until_it_is_done(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    entered = threading.Event()

    def other():
        with compiling():
            entered.set()

    with compiling():
        thread = threading.Thread(target=other)
        thread.start()
        assert not entered.wait(0.2)
    thread.join(20)
    assert entered.is_set()
    assert capsys.readouterr().out.count("compiling") == 1


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file" / "below"))
    with compiling():
        pass
    assert "compiling" in capsys.readouterr().out


def test_a_file_system_without_locks_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with compiling():
        pass
