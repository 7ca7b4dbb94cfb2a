"""What several ranks compute equals what one computes: gradients and scores."""

import json
import os

import numpy as np
import pytest
import ranks
import torch
from small_run import make_images
from torch import nn

SIZES = [1, 2, 3, 4]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), train=15, val=7)


def small_model():
    """With batch normalisation, whose running statistics evaluation uses."""
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 15 * 15, 7)
    )


def loaders(data, batch_size, group, epochs=1):
    from train.config import DataConfig
    from train.data import build_loader
    from train.data.settings import LoaderSettings
    from train.data.sources.splits import open_splits

    settings = LoaderSettings(0, None, 0, None, False, "fork", [], [])
    splits = open_splits(str(data), 0.1, 1, False, lambda count: None, False)
    config = DataConfig(image_size=32, batch_size=batch_size)
    common = {"seed": 1, "rank": group.rank, "world_size": group.size}
    train = build_loader(splits.train, config, settings, True, epochs=epochs, **common)
    return train, build_loader(splits.val, config, settings, False, **common)


def score(data, out):
    """A rank's work: evaluate, and write down what came out."""
    from train import loop
    from train.console import Bar
    from train.data.prefetch import DevicePrefetcher
    from train.dist import together
    from train.precision import choose_precision

    with together("cpu") as group:
        _, val = loaders(data, 4, group)
        scores = loop.evaluate(
            small_model(),
            DevicePrefetcher(val, CPU),
            choose_precision("fp32", CPU),
            CPU,
            lambda: group.agree([1]),
            lambda batch: None,
            Bar("t", 1),
            group,
            val.sampler.rounds(),
        )
        (out / f"{group.size}-{group.rank}.json").write_text(
            json.dumps([float(number).hex() for number in scores])
        )


def test_scores_are_the_same_to_the_last_digit_on_any_number_of_ranks(tmp_path, data):
    for size in SIZES:  # 21 images in batches of 4: the last has one, and not all ranks have one
        ended = ranks.call(size, score, (data, tmp_path), tmp_path / "logs")
        assert ended.codes == [0] * size, ended.outputs
    found = {path.read_text() for path in tmp_path.glob("*.json")}
    assert len(list(tmp_path.glob("*.json"))) == sum(SIZES)
    assert len(found) == 1
    assert float.fromhex(json.loads(found.pop())[3]) == 21


def plain_model():
    """Without batch normalisation, whose statistics are those of a rank's batch."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(32 * 32 * 3, 16), nn.Tanh(), nn.Linear(16, 7))


def train(data, out):
    """A rank's work: an epoch of 45 images at 12 a batch over all ranks, windows of two batches."""
    from train import loop, schedule
    from train.checkpoint import State
    from train.console import Bar
    from train.data.prefetch import DevicePrefetcher
    from train.dist import together
    from train.model import build_optimizer
    from train.precision import choose_precision
    from train.replica import Replica
    from train.scores import train_scores

    with together("cpu") as group:
        loader, _ = loaders(data, 12 // group.size, group)
        model = plain_model()
        state = State(model, build_optimizer(model, 0.0))
        replica = Replica(model, group)
        travelled = []
        loop.train_epoch(
            state,
            DevicePrefetcher(loader, CPU),
            loader.sampler.global_batch_sizes(),
            schedule.Schedule(2, 0, 0.05, 2, 0.1, None),
            choose_precision("fp32", CPU),
            CPU,
            lambda: bool(travelled.append(state.step)),
            lambda batch: None,
            Bar("t", 1),
            replica,
        )
        assert travelled == [1, 2]  # 12 + 12 and 12 + 9 images
        scores = train_scores(state, group)
        weights = [value.double().tolist() for value in model.parameters()]
        np.savez(
            out / f"{group.size}-{group.rank}.npz",
            loss=scores.loss,
            samples=scores.samples,
            weights=np.concatenate([np.ravel(value) for value in weights]),
        )


def test_training_is_that_of_one_process_with_the_same_global_batch(tmp_path, data):
    for size in SIZES:
        ended = ranks.call(size, train, (data, tmp_path), tmp_path / "logs")
        assert ended.codes == [0] * size, ended.outputs
    alone = np.load(tmp_path / "1-0.npz")
    for size in SIZES:
        first = np.load(tmp_path / f"{size}-0.npz")
        assert first["samples"] == 45
        assert first["loss"] == pytest.approx(alone["loss"], abs=1e-6)
        np.testing.assert_allclose(first["weights"], alone["weights"], rtol=0, atol=2e-6)
        for rank in range(size):  # all ranks hold the same weights, to the last bit
            other = np.load(tmp_path / f"{size}-{rank}.npz")
            assert np.array_equal(other["weights"], first["weights"])


def count_messages(out):
    """A rank's work: two windows of three batches; how often gradients travel."""
    from train.dist import together
    from train.replica import Replica

    with together("cpu") as group:
        replica, counts = Replica(plain_model(), group), []
        real = torch.distributed.all_gather
        torch.distributed.all_gather = lambda *words: counts.append(1) or real(*words)
        for _ in range(2):
            for number in range(3):
                with replica.micro_step(last=number == 2):
                    replica(torch.randn(2, 3, 32, 32)).sum().backward()
            counts.append(0)
        (out / f"{group.rank}").write_text(str(counts))


def test_gradients_travel_with_the_last_batch_of_a_window_alone(tmp_path):
    ended = ranks.call(2, count_messages, (tmp_path,), tmp_path / "logs")
    assert ended.codes == [0, 0], ended.outputs
    for rank in range(2):
        counts = json.loads((tmp_path / str(rank)).read_text())
        windows = "".join(map(str, counts)).split("0")[:2]
        assert all(len(window) in (1, 2) for window in windows)  # buckets, once a window


def test_ranks_and_their_variables(monkeypatch, capsys):
    from train.dist import ALONE, together
    from train.errors import SetupError

    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with together("cpu") as group:
        assert group is ALONE
        assert (group.agree([3, 0]), group.gather("x"), group.share("y")) == ([3, 0], ["x"], "y")
    monkeypatch.setenv("WORLD_SIZE", "2")
    missing = pytest.raises(SetupError, match=r"torchrun's other variables are missing.*RANK")
    with missing, together("cpu"):
        pass
    monkeypatch.setenv("LOCAL_RANK", "0")
    for rank, size in (("2", "2"), ("-1", "2"), ("0", "two"), ("x", "2")):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", size)
        no_such = pytest.raises(SetupError, match="no such numbers")
        with no_such, together("cpu"):
            pass


def test_a_rank_whose_launch_was_killed_at_once_ends(monkeypatch):
    """Before it had asked for the signal that comes with the launch's death."""
    import subprocess

    from train.dist import LAUNCH, together
    from train.errors import SetupError

    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv(LAUNCH, str(ended.pid))
    with pytest.raises(SetupError, match=f"process {ended.pid}.* has ended"), together("cpu"):
        pass
    monkeypatch.setenv(LAUNCH, str(os.getpid()))
    with together("cpu") as group:
        assert group.size == 1


def test_each_rank_has_its_gpu(monkeypatch):
    from train.dist import Group
    from train.errors import SetupError

    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert Group(1, 2, 1).device("auto") == torch.device("cuda", 1)
    assert Group(1, 2, 1).device("cpu") is None
    with pytest.raises(SetupError, match=r"has 2 GPU\(s\): start as many ranks.*GPUS=2"):
        Group(2, 3, 2).device("auto")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")  # a scheduler that gives each rank one
    assert Group(2, 3, 2).device("cuda") == torch.device("cuda", 0)
    assert chosen == [1, 0]
