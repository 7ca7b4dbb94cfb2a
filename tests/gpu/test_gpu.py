"""What only a GPU can show. `make test-gpu`: under 4 minutes, no network; one JSON of figures.

The file is `$GPU_REPORT`, by default runs/gpu-report.json; its content is for docs/log.md.
"""

import json
import multiprocessing
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from train import machine
from train.config import DataConfig
from train.data import build_loader
from train.data.batch import Batch
from train.data.prefetch import MEAN, STD, DevicePrefetcher, normalise
from train.data.ring import Ring
from train.data.settings import MachineView, Requested, choose
from train.data.sources.splits import open_splits
from train.timing import WaitClock

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="no CUDA device: nothing here was tested"
    ),
]

ROOT = Path(__file__).resolve().parent.parent.parent
BATCH = 128
STEPS = 40
WARM_UP = 8


@pytest.fixture(scope="module")
def report():
    content = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": machine.usable_cpus().value,
    }
    yield content
    path = Path(os.environ.get("GPU_REPORT", str(ROOT / "runs/gpu-report.json")))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
    print(f"\nwritten: {path}\n{json.dumps(content, indent=1)}")


@pytest.fixture(scope="module")
def device():
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """The generated sample, about 400 x 300 pixels an image."""
    sys.path.insert(0, str(ROOT / "scripts"))
    from sample_data import make_data_set

    folder = tmp_path_factory.mktemp("sample") / "data"
    make_data_set(folder, seed=42, num_train=1600, num_val=100)
    return folder


def host_batches(count, size=64, pinned=True):
    generator = torch.Generator().manual_seed(0)
    for number in range(count):
        images = torch.randint(0, 256, (size, 224, 224, 3), dtype=torch.uint8, generator=generator)
        labels = torch.full((size,), number, dtype=torch.int64)
        if pinned:
            images, labels = images.pin_memory(), labels.pin_memory()
        yield Batch(images, labels, 0, (number + 1) * size, np.arange(size), ())


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_no_race_under_a_slow_consumer(device, depth):
    """A consumer that is far behind the copies still reads every batch whole."""
    batches = list(host_batches(12))
    expected = [batch.images.to(torch.int64).sum().item() for batch in batches]
    sums, kept = [], []
    for batch in DevicePrefetcher(batches, device, depth):
        torch.cuda._sleep(50_000_000)  # tens of milliseconds on the consumer's stream
        raw = (batch.images * 57.0 + 120.0).double().sum()  # a long read of this batch's memory
        sums.append(raw)
        kept.append(normalise(batches[len(kept)].images.to(device)).double().sum())
        del batch  # its memory may be handed out again at once
    for number, (one, other) in enumerate(zip(sums, kept)):
        whole = (other * 57.0 + 120.0 * 64 * 3 * 224 * 224).item()
        assert one.item() == pytest.approx(whole, rel=1e-6), number
    assert len(sums) == len(expected) == 12


def test_values_are_those_of_the_host(device):
    batches = list(host_batches(3, size=8))
    for batch, host in zip(DevicePrefetcher(batches, device), batches):
        torch.testing.assert_close(batch.images.cpu(), normalise(host.images), rtol=1e-5, atol=1e-5)
        assert torch.equal(batch.labels.cpu(), host.labels)
        assert batch.images.is_contiguous(memory_format=torch.channels_last)


def test_an_empty_loader_yields_nothing(device):
    assert list(DevicePrefetcher([], device)) == []


def test_memory_does_not_grow_over_epochs(device):
    batches = list(host_batches(4, size=16))
    prefetcher = DevicePrefetcher(batches, device)
    sizes = []
    for _ in range(12):
        for batch in prefetcher:
            batch.images.sum()
        torch.cuda.synchronize()
        sizes.append(torch.cuda.memory_reserved(device))
    assert sizes[-1] == sizes[2]


def test_the_clock_sees_a_late_loader_and_ignores_a_slow_model(device):
    def late():
        for batch in host_batches(10, size=4):
            time.sleep(0.05)
            yield batch

    clock = WaitClock(device)
    for _ in clock.batches(DevicePrefetcher(late(), device)):
        torch.cuda._sleep(1000)
        clock.computed()
    assert clock.finish().wait_share > 0.5
    clock = WaitClock(device)
    ready = list(host_batches(10, size=4))
    for _ in clock.batches(DevicePrefetcher(ready, device)):
        torch.cuda._sleep(100_000_000)
        clock.computed()
    assert clock.finish().wait_share < 0.1


def our_loader(sample, workers="auto", epochs=None, kind="auto"):
    splits = open_splits(str(sample), 0.1, 42)
    config = DataConfig(path=str(sample), batch_size=BATCH, workers=workers)
    view = MachineView(
        "cuda", machine.usable_cpus(), machine.memory_limit_bytes(), machine.shm_free_bytes()
    )
    settings = choose(Requested(config.workers, workers_kind=kind), view, BATCH * 224 * 224 * 3)
    return build_loader(splits.train, config, settings, train=True, seed=42, epochs=epochs)


def test_batches_come_pinned(sample):
    loader = our_loader(sample, epochs=1)
    batch = next(iter(loader))
    assert batch.images.is_pinned()
    assert batch.labels.is_pinned()


def test_workers_start_after_cuda_without_touching_it(sample, device):
    torch.zeros(1, device=device)
    loader = our_loader(sample, workers=2, epochs=1)
    assert sum(len(batch.labels) for batch in loader) == 1600


def write_nine(ring, slot):
    ring.array(slot, 4)[:] = 9


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_what_a_process_started_after_registration_writes_is_seen_here(device, method):
    """CUDA keeps page-locked memory from forked children: a worker maps the ring for itself."""
    torch.zeros(1, device=device)
    ring = Ring(3, (4, 64, 64, 3))
    ring.add_user()
    assert ring.pin() == ""
    slot = ring.acquire(4)
    process = multiprocessing.get_context(method).Process(target=write_nine, args=(ring, slot))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    images = ring.take(slot, 4)
    assert images.is_pinned()
    assert (images.to(device, non_blocking=True).cpu() == 9).all()
    ring.remove_user()
    assert not images.is_pinned()
    assert (images == 9).all()


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_the_ring_is_pinned_and_never_written_under_a_late_copy(sample, device, kind):
    """The consumer drops each host batch at once; its copies are held back by a long kernel."""
    loader = our_loader(sample, workers=2, epochs=3, kind=kind)
    expected = {}
    for batch in loader:
        expected[batch.samples_seen] = batch.images.to(torch.int64).sum().item()
        assert batch.slot >= 0
        assert batch.images.is_pinned()
    loader.load_state_dict({"seed": 42, "epoch": 0, "samples_seen": 0})
    sums = []
    for batch in DevicePrefetcher(loader, device):
        torch.cuda._sleep(50_000_000)
        mean, std = (torch.tensor(v, device=device).view(1, 3, 1, 1) for v in (MEAN, STD))
        levels = (batch.images * std + mean).double().sum()
        sums.append((batch.host.samples_seen, batch.host.slot, levels))
        del batch
    loader.close()
    assert len(sums) == len(expected)
    assert all(slot >= 0 for _, slot, _ in sums)
    for seen, _, total in sums:
        assert total.item() == pytest.approx(expected[seen], rel=1e-5)


def test_fit_on_the_gpu(sample, tmp_path):
    from train.__main__ import main

    words = [f"--data.path={sample}", f"--run.folder={tmp_path / 'run'}", "--data.image_size=96"]
    assert main(["fit", *words, "--optim.epochs=2", "--run.device=cuda"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    settings = {
        row["name"]: row["value"]
        for row in json.loads((tmp_path / "run/settings.json").read_text())
    }
    assert settings["precision"] in ("bf16", "fp16")
    assert settings["pin_memory"] is True


def train_step(model, optimizer, images, labels):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def measure(model, pairs, device):
    """Train on (images, labels) pairs; images/s and the share of waiting, the warm-up left out."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pairs = iter(pairs)
    for _ in range(WARM_UP):
        train_step(model, optimizer, *next(pairs))
    torch.cuda.synchronize()
    clock, images = WaitClock(device), 0
    for batch, labels in clock.batches(pairs):
        train_step(model, optimizer, batch, labels)
        clock.computed()
        images += len(labels)
        if images >= STEPS * BATCH:
            break
    timing = clock.finish()
    return {
        "images_per_s": round(images / timing.total_s, 1),
        "wait_share": round(timing.wait_share, 4),
    }


def endless(loader):
    while True:
        for batch in loader:
            yield batch.images, batch.labels


def default_pairs(sample, device):
    """What people begin with: ImageFolder, Pillow, num_workers=0, blocking copies."""
    from torchvision import datasets, transforms

    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    steps = [
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(mean, std),
    ]
    images = datasets.ImageFolder(str(sample / "train"), transforms.Compose(steps))
    loader = torch.utils.data.DataLoader(images, batch_size=BATCH, shuffle=True, drop_last=True)
    while True:
        for batch, labels in loader:
            yield batch.to(device), labels.to(device)


def test_resnet50_default_tuned_synthetic(sample, device, report):
    """The articles' comparison on this GPU; figures for the log, no speed is asserted."""
    import torchvision

    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50(weights=None).to(device, memory_format=torch.channels_last)
    images = normalise(
        torch.randint(0, 256, (BATCH, 224, 224, 3), dtype=torch.uint8, device=device)
    )
    labels = torch.randint(0, 1000, (BATCH,), device=device)
    loader = our_loader(sample)
    arms = {"synthetic": measure(model, endless_pair(images, labels), device)}
    try:
        arms["tuned"] = measure(model, endless(DevicePrefetcher(loader, device)), device)
    finally:
        loader.close()
    arms["default"] = measure(model, default_pairs(sample, device), device)
    report["resnet50_bf16"] = {"batch": BATCH, "steps": STEPS, "workers": loader.workers, **arms}
    for arm in arms.values():
        assert arm["images_per_s"] > 0
        assert 0 <= arm["wait_share"] <= 1


def endless_pair(images, labels):
    while True:
        yield images, labels
