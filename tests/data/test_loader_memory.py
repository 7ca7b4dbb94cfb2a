"""Batches and memory: none is written again while it is held, and nothing grows or stays behind."""

import gc
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from loading import KINDS, Drawing, digest, make, passes
from processes import workers

from train import console
from train.config import DataConfig
from train.data import handover
from train.data.ring import Ring
from train.data.sources.splits import open_splits

pytestmark = pytest.mark.usefixtures("deadline", "no_child_left")


@pytest.fixture
def source(tree):
    return open_splits(str(tree), 0.01, 42).train


@pytest.fixture
def expected(source):
    return passes(make(source), 3)


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_a_list_of_all_batches_equals_a_fresh_pass(source, expected, count, kind):
    """More are held than the ring has slots: the others are in memory of their own."""
    loader = make(source, count, kind=kind, prefetch=1)
    batches = list(loader)
    assert {batch.slot >= 0 for batch in batches} == {True, False}
    list(loader)
    assert [digest(batch) for batch in batches] == expected[0]
    loader.close()
    assert [digest(batch) for batch in batches] == expected[0]


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_a_consumer_that_keeps_every_third_batch(source, expected, count, kind):
    loader, kept = make(source, count, kind=kind), []
    for epoch in range(3):
        for number, batch in enumerate(loader):
            assert digest(batch) == expected[epoch][number]
            if number % 3 == 0:
                kept.append((batch.images[1:].permute(0, 3, 1, 2), batch.images.clone()))
    loader.close()
    assert len(kept) >= 6
    assert all(torch.equal(view, copy[1:].permute(0, 3, 1, 2)) for view, copy in kept)


@pytest.mark.parametrize(("count", "kind"), KINDS)
@pytest.mark.parametrize("pauses", [(0.0, 0.02), (0.02, 0.0)], ids=["slow", "fast"])
def test_a_slow_and_a_fast_consumer(source, expected, count, kind, pauses):
    """Whoever waits for whom, the batches are the same."""
    made_slowly, used_slowly = pauses
    slow = Slow(source, made_slowly / 5)
    loader, found = make(slow, count, kind=kind), []
    for batch in loader:
        time.sleep(used_slowly)
        found.append(digest(batch))
    loader.close()
    assert found == expected[0]


class Slow:
    """A source on a slow disk."""

    def __init__(self, source, pause_s):
        self.source, self.pause_s, self.labels = source, pause_s, source.labels

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        time.sleep(self.pause_s)
        return self.source[index]

    def key(self, index):
        return self.source.key(index)


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_an_ordinary_consumer_never_needs_memory_of_its_own(source, count, kind):
    """And of the ring all is free in the end."""
    loader = make(source, count, kind=kind)
    for _ in range(3):
        assert all(batch.slot >= 0 for batch in loader)
    ring = loader._ring
    under_way = 2 * count
    gc.collect()
    assert ring.free == ring.slots - under_way
    loader.close()


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_a_pass_that_is_left_half_way_gives_its_slots_back(source, expected, count, kind):
    loader = make(source, count, kind=kind)
    for _ in range(5):
        loader.load_state_dict({"seed": 42, "epoch": 0, "samples_seen": 0})
        iterator = iter(loader)
        assert [digest(next(iterator)) for _ in range(2)] == expected[0][:2]
        iterator.close()
        assert loader._ring.free == loader._ring.slots
    loader.close()


@pytest.mark.parametrize(("count", "kind"), KINDS)
def test_two_passes_at_once_share_the_ring(source, expected, count, kind):
    loader = make(source, count, kind=kind)
    one = iter(loader)
    kept = [next(one)]
    two = iter(loader)  # begins where the loader stands
    both = list(zip(two, one))
    loader.close()
    one.close()
    two.close()
    assert digest(kept[0]) == expected[0][0]
    assert [[digest(batch) for batch in pair] for pair in both] == [
        [batch, batch] for batch in expected[0][1:]
    ]


@pytest.mark.parametrize("method", ["fork", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_no_descriptor_and_no_mapping_is_left(source, method):
    loader = make(source, 1, method)
    list(loader)  # multiprocessing's own helpers keep what they open
    loader.close()
    before = descriptors(), mappings()
    loader = make(source, 1, method)
    batch = next(iter(loader))
    list(loader)
    loader.close()
    del batch, loader
    assert (descriptors(), mappings()) == before


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def mappings():
    gc.collect()
    with open("/proc/self/maps") as file:
        return sum("memfd:wellfed" in line for line in file)


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_nothing_of_a_batch_goes_through_dev_shm(source, kind):
    """So a container's 64 MB, or none at all, are enough."""
    loader = make(source, 4, kind=kind)
    loader.start()
    kept = list(loader)
    pids = [os.getpid(), *workers()]
    mapped = "".join(Path("/proc", str(pid), "maps").read_text() for pid in pids)
    opened = [os.path.realpath(link) for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir()]
    loader.close()
    assert len(kept) > 3
    assert "memfd:wellfed" in mapped
    assert not [name for name in [*mapped.split(), *opened] if name.startswith("/dev/shm")]


def test_without_shared_memory_batches_are_copied_and_that_is_said_once(
    monkeypatch, source, expected
):
    def refuse():
        raise OSError(38, "Function not implemented")

    said = []
    monkeypatch.setattr("train.data.ring.memory_file", refuse)
    monkeypatch.setattr(console, "say", said.append)
    monkeypatch.setattr(handover, "_said", set())
    for _ in range(2):
        assert passes(make(source, 2), 3) == expected
    assert said == [
        "note: no memory to share with workers (Function not implemented), so each batch is "
        "copied from them"
    ]


def test_what_cuda_does_not_lock_is_copied_and_that_is_said_once(monkeypatch, source, expected):
    said = []
    monkeypatch.setattr(Ring, "pin", lambda self: "cudaHostRegister: out of memory")
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: False)
    monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.clone)
    monkeypatch.setattr(console, "say", said.append)
    monkeypatch.setattr(handover, "_said", set())
    loader = make(source, 2)
    loader.pin_memory = True
    assert passes(loader, 3) == expected
    assert len(said) == 1
    assert "can't be page-locked as a whole (cudaHostRegister: out of memory)" in said[0]


def proportional_bytes(pids):
    """Memory of some processes, shared pages by their share (PSS).

    Without pages of files, libraries for one: their share depends on what else runs here.
    """
    rows = [line.split() for pid in pids for line in open_rollup(pid)]
    found = [int(row[1]) for row in rows if row[0] in ("Pss_Anon:", "Pss_Shmem:")]
    if not found:
        pytest.skip("this kernel is older than 5.4: no Pss_Anon")
    return sum(found) << 10


def open_rollup(pid):
    return Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_memory_is_flat_over_twenty_epochs(kind):
    """Within 5 %, once each slot was written; an index of many keys is shared, not copied."""
    source = Drawing(800)
    source.keys = np.array([f"class/{number:09d}.jpg" for number in range(1_000_000)])
    config = DataConfig(batch_size=40, image_size=64)
    loader = make(source, 2, kind=kind, config=config)
    sizes = []
    for _ in range(20):
        for batch in loader:
            del batch
        sizes.append(proportional_bytes([os.getpid(), *workers()]))
    loader.close()
    assert max(sizes[2:]) < 1.05 * sizes[2], sizes
