"""Whole runs on a real GPU, tiny: saved and loaded, resumed, launched, tuned. Under two minutes."""

import copy
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_run import arguments, fit, make_images

from train import ema
from train.__main__ import main
from train.checkpoint import Identity, State, content_of, rank_content, restore
from train.checkpoint_file import pack, unpack
from train.model import build_model, build_optimizer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="no CUDA device: nothing here was tested"
    ),
]

ROOT = Path(__file__).resolve().parent.parent.parent
DEVICE = torch.device("cuda")
OPTIONS = {
    "run__device": "cuda",
    "optim__ema": 0.9,
    "data__workers_kind": "process",
    "data__prefetch": 2,  # all is set, so nothing is tuned
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"))


def saved(folder):
    return torch.load(folder / "checkpoints/last.pt", weights_only=True, map_location="cpu")


def state_of(seed):
    """A model, its mean and its optimizer after two steps."""
    torch.manual_seed(seed)
    model = build_model("shufflenet_v2_x0_5", 3)
    model = model.to(device=DEVICE, memory_format=torch.channels_last)
    state = State(model, build_optimizer(model, 1e-4), average=ema.make_average(model))
    for step in (1, 2):
        loss = model(torch.randn(4, 3, 32, 32, device=DEVICE)).square().sum()
        loss.backward()
        for group in state.optimizer.param_groups:
            group["lr"] = 1e-3
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=True)
        ema.update(state.average, model, 0.9, step)
        state.step = step
    state.train_sums = torch.tensor([1.5, 2.0, 3.0, 4.0], dtype=torch.float64, device=DEVICE)
    return state


def flat(tree, name=""):
    """All values of a nested state, by their places."""
    if isinstance(tree, dict):
        pairs = list(tree.items())
    elif isinstance(tree, (list, tuple)):
        pairs = list(enumerate(tree))
    else:
        return {name: tree}
    return {k: v for key, value in pairs for k, v in flat(value, f"{name}.{key}").items()}


def assert_equal(one, other):
    first, second = flat(one), flat(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value.cpu(), second[name].cpu()), name
        else:
            assert value == second[name], name


def test_a_checkpoint_of_the_gpu_comes_back_bit_equal():
    identity = Identity({"run.seed": 1}, ("a", "b", "c"), 9, 3)
    state = state_of(1)
    file = bytes(pack(content_of(state, identity, [rank_content(state)])))
    drawn = torch.rand(5, device=DEVICE).cpu(), torch.rand(5)
    again = state_of(2)
    restore(unpack(file, Path("last.pt")), again)
    assert_equal(again.model.state_dict(), state.model.state_dict())
    assert_equal(again.average.state_dict(), state.average.state_dict())
    assert_equal(again.optimizer.state_dict(), state.optimizer.state_dict())
    assert all(value.is_cuda for value in again.average.state_dict().values())
    momenta = [row["momentum_buffer"] for row in again.optimizer.state.values()]
    assert momenta
    assert all(momentum.is_cuda for momentum in momenta)
    assert (again.step, again.train_sums.tolist()) == (2, [1.5, 2.0, 3.0, 4.0])
    # The generators of the device and of the host go on where they were.
    assert torch.equal(torch.rand(5, device=DEVICE).cpu(), drawn[0])
    assert torch.equal(torch.rand(5), drawn[1])


def test_the_mean_on_the_gpu_is_that_of_the_cpu():
    state = state_of(3)
    host = copy.deepcopy(state.average).cpu(), copy.deepcopy(state.model).cpu()
    ema.update(state.average, state.model, 0.9, 100)
    ema.update(host[0], host[1], 0.9, 100)
    for name, value in state.average.state_dict().items():
        torch.testing.assert_close(value.cpu(), host[0].state_dict()[name], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_stopped_in_an_epoch_and_resumed(tmp_path, data, precision):
    """The same steps and samples to the end; its last digits are the GPU's kernels' to choose."""
    folder, options = tmp_path / "run", {**OPTIONS, "run__precision": precision}
    assert fit(*arguments(data, folder, run__max_steps=8, **options)) == 0
    middle = saved(folder)
    assert (middle["step"], middle["loader"]["epoch"]) == (8, 1)
    assert 0 < middle["loader"]["samples_seen"] < 45
    assert [len(row["rng"]["cuda"]) for row in middle["ranks"]] == [1]
    assert (middle["scaler"] is not None) is (precision == "fp16")
    assert fit("fit", f"--run.resume={folder}", "--run.max_steps=null") == 0
    end = saved(folder)
    assert (end["step"], end["loader"]) == (12, {"seed": 42, "epoch": 2, "samples_seen": 0})
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(row["epoch"], row["val_samples"]) for row in rows] == [(0, 18), (1, 18)]
    assert fit(*arguments(data, tmp_path / "whole", **options)) == 0
    text = (tmp_path / "whole/metrics.jsonl").read_text()
    for row, whole in zip(rows, [json.loads(line) for line in text.splitlines()]):
        assert math.isfinite(row["train_loss"])
        assert row["train_loss"] == pytest.approx(whole["train_loss"], rel=0.02)
    assert all(torch.isfinite(value).all() for value in end["raw_model"].values())


def run_to_its_end(words, seconds=180):
    """A program of its own session; its exit code and what it wrote."""
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    return ended.returncode, ended.stdout


def test_one_rank_through_the_launcher(tmp_path, data):
    folder = tmp_path / "run"
    options = ["-m", "train.launch", "--standalone", "--nproc-per-node=1", "-m", "train"]
    code, out = run_to_its_end([*options, *arguments(data, folder, **OPTIONS)])
    assert code == 0, out
    settings = json.loads((folder / "settings.json").read_text())
    assert {row["name"]: row["value"] for row in settings}["device"].startswith("cuda")
    assert saved(folder)["step"] == 12


# One rank trains without a process group, so what several ranks do is done here by hand.
NCCL = """
import torch
import torch.distributed
from train.dist import Group
from train.model import build_model
from train.replica import share_buffers

store = torch.distributed.HashStore()
torch.distributed.init_process_group("cpu:gloo,cuda:nccl", store=store, rank=0, world_size=1)
device = torch.device("cuda", 0)
torch.cuda.set_device(device)
model = build_model("shufflenet_v2_x0_5", 3).to(device)
replica = torch.nn.parallel.DistributedDataParallel(
    model, device_ids=[device], broadcast_buffers=True, gradient_as_bucket_view=True
)
with replica.no_sync():
    replica(torch.randn(4, 3, 32, 32, device=device)).sum().backward()
replica(torch.randn(4, 3, 32, 32, device=device)).sum().backward()
assert all(p.grad is not None and p.grad.is_cuda for p in model.parameters())
assert torch.distributed.get_backend() in ("nccl", "cpu:gloo,cuda:nccl", "undefined", "custom")
for buffer in model.buffers():
    torch.distributed.broadcast(buffer, 0)
numbers = torch.tensor([3, 1])
torch.distributed.all_reduce(numbers, torch.distributed.ReduceOp.MAX)  # gloo, on the host
box = [None]
torch.distributed.all_gather_object(box, {"rank": 0})
on_device = torch.ones(4, device=device)
torch.distributed.all_reduce(on_device)  # NCCL
assert numbers.tolist() == [3, 1] and on_device.tolist() == [1.0] * 4
share_buffers(model, Group())  # alone: nothing to share
torch.distributed.destroy_process_group()
print("one rank of NCCL")
"""


@pytest.mark.skipif(
    not torch.distributed.is_nccl_available(), reason="this PyTorch is built without NCCL"
)
def test_one_rank_of_nccl():
    code, out = run_to_its_end(["-c", NCCL])
    assert code == 0, out
    assert "one rank of NCCL" in out


def test_tune_beside_the_real_accelerator(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = [f"--data.path={data}", "--data.image_size=64", "--data.batch_size=8"]
    words += ["--model.name=shufflenet_v2_x0_5", "--accelerator=cuda", "--seconds=20", "--json"]
    assert main(["tune", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["workers"] >= 0
    assert found["workers_kind"] in ("process", "thread")
    assert 0 <= found["measured"]["wait_share"] <= 1
    assert found["rows"]
