"""The hook for metric loggers: what they are given, and that none of them ends a run later."""

import contextlib
import json

import pytest
from small_run import arguments, fit, make_images

from train import loggers


class Service:
    """Stands for Weights & Biases or MLflow: what a client of theirs is asked to do."""

    def __init__(self):
        self.calls = []

    def init(self, name, config):
        self.calls.append(("init", name, config["optim"]["epochs"]))
        return self

    def log(self, values, step):
        self.calls.append(("log", step, values))

    def finish(self, status):
        self.calls.append(("finish", status))


def logger_of(service, fails_at=None):
    @contextlib.contextmanager
    def remote(folder, settings):
        if fails_at == "begin":
            raise ConnectionError("no login")
        run = service.init(folder.name, settings)

        def log(row):
            if row["epoch"] == fails_at:
                raise ConnectionError("gone")
            run.log(loggers.numbers(row), step=row["epoch"])

        try:
            yield log
        except BaseException:
            run.finish("failed")
            raise
        run.finish("done")
        if fails_at == "end":
            raise ConnectionError("not sent")

    return remote


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Trains two epochs with a logger; gives the exit code and the run's rows."""
    monkeypatch.setattr(loggers, "LOGGERS", [])
    data = make_images(tmp_path / "data")

    def go(logger, **settings):
        loggers.register(logger)
        loggers.register(logger)  # once is enough
        code = fit(*arguments(data, tmp_path / "run", **settings))
        rows = tmp_path / "run" / "metrics.jsonl"
        lines = rows.read_text().splitlines() if rows.exists() else []
        return code, [json.loads(line) for line in lines]

    return go


def test_a_logger_is_given_the_run_and_each_epoch(run):
    service = Service()
    code, rows = run(logger_of(service))
    assert code == 0
    (begin, *logged, end) = service.calls
    assert begin == ("init", "run", 2)
    assert end == ("finish", "done")
    assert [(step, values) for _, step, values in logged] == [
        (row["epoch"], loggers.numbers(row)) for row in rows
    ]
    assert {"val_top1", "train_loss", "images_per_s", "data_wait_share"} <= set(logged[0][2])
    assert "gpu_util" not in logged[0][2]  # it has no value here


def test_a_logger_that_fails_later_is_told_and_the_run_goes_on(run, capsys):
    service = Service()
    code, rows = run(logger_of(service, fails_at=0))
    assert (code, len(rows)) == (0, 2)
    told = capsys.readouterr().out
    assert told.count("the metric logger remote failed and is not called again: Connection") == 1
    assert [call[0] for call in service.calls] == ["init", "finish"]


def test_a_logger_that_cannot_begin_ends_the_run_before_its_first_step(run, capsys):
    code, rows = run(logger_of(Service(), fails_at="begin"))
    assert (code, rows) == (2, [])
    assert "the metric logger remote can't begin: ConnectionError: no login" in (
        capsys.readouterr().err
    )


def test_a_logger_that_does_not_end_well_is_told(run, capsys):
    code, _ = run(logger_of(Service(), fails_at="end"), optim__epochs=1)
    assert code == 0
    assert "a metric logger did not end well: not sent" in capsys.readouterr().out


def test_a_logger_knows_that_a_run_failed(run):
    service = Service()
    code, _ = run(logger_of(service), optim__lr=1e30, optim__warmup_epochs=0)
    assert code == 2
    assert service.calls[-1] == ("finish", "failed")
