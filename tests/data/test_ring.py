"""The batch ring: a slot is free when nothing of its batch is alive, and never before."""

import gc
import multiprocessing
import os
import pickle
import sys

import numpy as np
import pytest
import torch

from train.data import ring as ring_module
from train.data.ring import Ring, SharedBlock

pytestmark = [
    pytest.mark.usefixtures("deadline", "no_child_left"),
    pytest.mark.skipif(sys.platform != "linux", reason="memfd_create is a call of Linux"),
]
SHAPE = (4, 8, 8, 3)


@pytest.fixture
def ring():
    made = Ring(3, SHAPE)
    made.add_user()
    yield made
    made.remove_user()


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_slots_are_whole_pages_and_do_not_overlap(ring):
    arrays = [ring.array(slot, 4) for slot in range(3)]
    for value, array in enumerate(arrays):
        array[:] = value + 1
        assert array.ctypes.data % os.sysconf("SC_PAGE_SIZE") == 0
    assert [(array.min(), array.max()) for array in arrays] == [(1, 1), (2, 2), (3, 3)]


def test_none_is_free_when_all_are_taken(ring):
    taken = [ring.acquire(4) for _ in range(3)]
    assert sorted(taken) == [0, 1, 2]
    assert ring.acquire(4) == -1
    ring.release(taken[1])
    ring.release(-1)
    assert ring.acquire(4) == taken[1]


def test_a_batch_larger_than_a_slot_gets_none(ring):
    assert ring.acquire(5) == -1
    assert ring.free == 3


KEPT = {
    "tensor": lambda tensor: tensor,
    "row": lambda tensor: tensor[1],
    "permuted view": lambda tensor: tensor.permute(0, 3, 1, 2)[:, :1],
    "array": lambda tensor: tensor.numpy(),
    "view of an array": lambda tensor: tensor.numpy()[2:, ::2],
    "detached": lambda tensor: tensor.detach().view(-1),
    "storage": lambda tensor: tensor.untyped_storage(),
    "other type": lambda tensor: tensor.view(torch.int8),
    "tensor of an array": lambda tensor: torch.from_numpy(tensor.numpy()[:1]),
}


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
def test_whatever_is_kept_of_a_batch_keeps_its_slot(ring, keep):
    tensor = ring.take(ring.acquire(4), 4)
    kept = keep(tensor)
    del tensor
    gc.collect()
    assert ring.free == 2
    del kept
    gc.collect()
    assert ring.free == 3


def test_a_copy_does_not_keep_it(ring):
    kept = ring.take(ring.acquire(4), 4).clone()
    assert ring.free == 3
    assert kept.shape == SHAPE


def test_an_empty_batch_has_a_slot_too(ring):
    tensor = ring.take(ring.acquire(0), 0)
    assert tensor.shape == (0, *SHAPE[1:])
    del tensor
    assert ring.free == 3


def test_batches_outlive_the_ring_and_its_descriptors_do_not():
    before = descriptors()
    made = Ring(2, SHAPE)
    made.add_user()
    made.add_user()
    tensor = made.take(made.acquire(4), 4)
    made.remove_user()
    made.array(0, 4)[:] = 5  # the other user still has it
    made.remove_user()
    del made
    tensor.fill_(9)
    assert tensor.sum() == 9 * tensor.numel()
    del tensor
    assert descriptors() == before


def test_a_ring_that_nobody_closes_leaves_no_descriptor():
    before = descriptors()
    tensor = Ring(2, SHAPE).take(0, 4)
    del tensor
    assert descriptors() == before


def write(ring, slot):
    ring.array(slot, 4)[:] = 7


@pytest.mark.parametrize(
    "method",
    [
        "fork",
        pytest.param("forkserver", marks=pytest.mark.slow),
        pytest.param("spawn", marks=pytest.mark.slow),
    ],
)
def test_what_another_process_writes_is_seen_here(ring, method):
    slot = ring.acquire(4)
    before = ring.array(slot, 4)
    process = multiprocessing.get_context(method).Process(target=write, args=(ring, slot))
    process.start()
    process.join()
    assert process.exitcode == 0
    process.close()
    assert (before == 7).all()
    assert (ring.array(slot, 4) == 7).all()


def test_it_goes_into_no_file(ring):
    with pytest.raises(RuntimeError, match="inheritance"):
        pickle.dumps(ring)


def without_its_functions(monkeypatch, found):
    """A Python that was built for an old C library, as conda's is."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    if not found:
        monkeypatch.setattr(ring_module.sys, "platform", "darwin")


def test_a_python_without_the_call_asks_the_c_library(monkeypatch):
    without_its_functions(monkeypatch, found=True)
    block = SharedBlock(5)
    block.memory[:5] = b"bytes"
    assert block.size == os.sysconf("SC_PAGE_SIZE")
    block.close()


def test_a_system_without_the_call_says_so(monkeypatch):
    without_its_functions(monkeypatch, found=False)
    with pytest.raises(OSError, match="memfd_create is a call of Linux"):
        Ring(2, SHAPE)


class Runtime:
    """Stands in for CUDA's: registers nothing, and answers `code`."""

    def __init__(self, code):
        self.code, self.calls = code, []

    def cudaHostRegister(self, address, size, flags):
        self.calls.append(("register", address, size))
        return self.code

    def cudaHostUnregister(self, address):
        self.calls.append(("unregister", address))
        return 0

    def cudaGetErrorString(self, code):
        return "out of memory"


def fake_cuda(monkeypatch, code, pinned):
    runtime = Runtime(code)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: runtime.calls.append("wait"))
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: pinned)
    monkeypatch.setattr(ring_module, "_forget_last_error", lambda: runtime.calls.append("forget"))
    return runtime


def test_it_is_page_locked_once_and_let_go_after_the_last_copy(monkeypatch):
    runtime, made = fake_cuda(monkeypatch, 0, pinned=True), Ring(2, SHAPE)
    made.add_user()
    assert [made.pin(), made.pin()] == ["", ""]
    address = made.array(0, 1).ctypes.data
    made.remove_user()
    size = 2 * os.sysconf("SC_PAGE_SIZE")
    assert runtime.calls == [("register", address, size), "wait", ("unregister", address)]


@pytest.mark.parametrize(
    ("code", "problem", "calls"),
    [
        (2, "cudaHostRegister: out of memory", ["register", "forget"]),
        (0, "PyTorch does not see it as page-locked", ["register", "wait", "unregister"]),
    ],
    ids=["refused", "not seen"],
)
def test_what_is_not_page_locked_is_told(monkeypatch, ring, code, problem, calls):
    runtime = fake_cuda(monkeypatch, code, pinned=False)
    assert [ring.pin(), ring.pin()] == [problem, problem]
    assert [call if isinstance(call, str) else call[0] for call in runtime.calls] == calls


def test_a_forked_child_does_not_unregister(monkeypatch):
    """It has a copy of the parent's page-locked ring, and no CUDA."""
    runtime, made = fake_cuda(monkeypatch, 0, pinned=True), Ring(2, SHAPE)
    made.add_user()
    made.pin()
    monkeypatch.setattr(os, "getpid", lambda: -5)
    made.array(0, 1)[:] = np.uint8(3)
    gc.collect()
    assert [call[0] for call in runtime.calls] == ["register"]
    made.remove_user()
